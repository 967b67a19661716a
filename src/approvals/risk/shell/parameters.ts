import { FIELD, UNKNOWN, type VariableLookup } from "./word.ts";

/** `$1`, `$2` and so on; `undefined` when not even their number is known. */
export type Parameters = readonly string[] | undefined;

/** Of more than that none is told. */
const PARAMETERS_MAX = 32;

/** What a script is told of itself. */
export interface GivenParameters {
  readonly parameters: Parameters;
  /** `$0`. */
  readonly zero: string;
  /** What a parameter is worth that is not given. */
  readonly unset: string;
  /** Whether nothing is guessed. */
  readonly isCautious: boolean;
}

/** Reads parameters by their numbers; all other names are the other lookup's. */
export function withParameters(
  lookup: VariableLookup,
  { parameters, zero, unset, isCautious }: GivenParameters,
): VariableLookup {
  return (name) => {
    if (name === "0") return zero;
    if (!/^(?:[1-9][0-9]{0,3}|[@*#])$/.test(name)) return lookup(name);
    if (parameters === undefined || parameters.length > PARAMETERS_MAX) return UNKNOWN;
    if (name === "@") return parameters.length === 0 ? unset : parameters.join(FIELD);
    if (name === "*") return parameters.length === 0 ? unset : parameters.join(" ");
    const known = parameters.findIndex((word) => word.includes(UNKNOWN));
    if (name === "#") return known === -1 ? String(parameters.length) : UNKNOWN;
    // Behind a word that nobody knows, which may be several, others may have moved.
    const isMoved = isCautious && known !== -1 && known < Number(name);
    return isMoved ? UNKNOWN : (parameters[Number(name) - 1] ?? unset);
  };
}

/** What `set` and `shift` do. */
export interface Settings {
  readonly parameters: Parameters;
  readonly stopsAtFailure: boolean;
}

/** What holds behind a command. */
export function settingsAfter([program, ...args]: readonly string[], before: Settings): Settings {
  if (program === "builtin" || program === "command") return settingsAfter(args, before);
  if (program === "shift") return { ...before, parameters: shifted(args, before.parameters) };
  if (program === "shopt") return args.some(mayNameErrexit) ? { ...before, stopsAtFailure: false } : before;
  return program === "set" ? afterSet(args, before) : before;
}

function mayNameErrexit(arg: string): boolean {
  return arg === "errexit" || arg.includes(UNKNOWN);
}

function shifted([count = "1"]: readonly string[], parameters: Parameters): Parameters {
  const by = /^[0-9]{1,4}$/.test(count) ? Number(count) : undefined;
  return by === undefined || parameters === undefined || by > parameters.length ? undefined : parameters.slice(by);
}

function afterSet(args: readonly string[], before: Settings): Settings {
  let { stopsAtFailure } = before;
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? "";
    if (arg.includes(UNKNOWN)) return { parameters: undefined, stopsAtFailure: false };
    if (arg === "--") return { parameters: args.slice(at + 1), stopsAtFailure };
    if (!/^[-+]./.test(arg)) return { parameters: args.slice(arg === "-" ? at + 1 : at), stopsAtFailure };
    const isNamed = arg.includes("o");
    if (arg.includes("e") || (isNamed && args[at + 1] === "errexit")) stopsAtFailure = arg.startsWith("-");
    if (isNamed) at += 1;
  }
  return { ...before, stopsAtFailure };
}
