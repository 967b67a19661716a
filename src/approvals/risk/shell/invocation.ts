import type { ShellDirectories } from "./place.ts";
import { UNKNOWN } from "./word.ts";

/** A file that a redirection opens. */
export interface Opened {
  readonly path: string;
  readonly writes: boolean;
}

/** One program that the script would start, as far as that can be told: wrappers are taken off, quotes are gone. */
export interface Invocation {
  /** Last part of the path, in lower case; `""` when only variables are set or files opened. */
  readonly program: string;
  /** The same without a version at its end: `python` for `python3.12`. */
  readonly family: string;
  /** As it was spelled, with its folder. */
  readonly spelled: string;
  readonly args: readonly string[];
  /** Variables set for it, as `NAME=value`. */
  readonly variables: readonly string[];
  readonly opened: readonly Opened[];
  /** Programs whose output it gets through pipes or is built from. */
  readonly fedBy: readonly string[];
  /** Whether its standard input is a pipe, a file or a text: a shell without operands runs that. */
  readonly readsInput: boolean;
  /** Texts that come in there, where they are known. */
  readonly input: readonly string[];
  readonly standing: ShellDirectories;
  /** Whether a function of the script could be what is called: not from behind a wrapper, nor before it is defined. */
  readonly mayCallFunction: boolean;
  /** The function whose body it stands in. */
  readonly inside: string | undefined;
  /** Whether the script goes on without waiting for it. */
  readonly background: boolean;
  /** Which pipe of the script it stands in, if any. */
  readonly pipe: number | undefined;
}

export type InvocationContext = Omit<Invocation, "program" | "family" | "args" | "spelled">;

/** Names a program by its fields. */
export function invocationOf([spelled = "", ...args]: readonly string[], start: InvocationContext): Invocation {
  const program = spelled.slice(spelled.lastIndexOf("/") + 1).toLowerCase();
  return { ...start, spelled, program, family: withoutVersion(program), args };
}

/** A loop, since the engine's own search for a run at the end of a text is not linear. */
function withoutVersion(program: string): string {
  let end = program.length;
  while (end > 1 && /[0-9.]/.test(program[end - 1] ?? "")) end -= 1;
  return program.slice(0, end);
}

/** Operands and options of an argv, by GNU's rules: options may stand anywhere before `--`. */
export function operandsOf(args: readonly string[], valued: readonly string[] = []): readonly string[] {
  const operands: string[] = [];
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? "";
    if (arg === "--") return [...operands, ...args.slice(at + 1)];
    if (!arg.startsWith("-") || arg === "-") operands.push(arg);
    else if (valued.includes(arg)) at += 1;
  }
  return operands;
}

/**
 * Whether an option is given: a short letter, alone or in a cluster, or a long name, also abbreviated. A word that is not known
 * may be any option.
 */
export function has(args: readonly string[], letters: string, ...names: readonly string[]): boolean {
  const end = args.indexOf("--");
  return (end === -1 ? args : args.slice(0, end)).some((arg) => arg.startsWith(UNKNOWN) || is(arg, letters, names));
}

/** The same, for what was surely meant. */
export function surelyHas(args: readonly string[], letters: string, ...names: readonly string[]): boolean {
  const end = args.indexOf("--");
  return (end === -1 ? args : args.slice(0, end)).some((arg) => is(arg, letters, names));
}

const ABBREVIATION_MIN = 3;

function is(arg: string, letters: string, names: readonly string[]): boolean {
  if (arg.startsWith("--")) {
    const [name = ""] = arg.split("=", 1);
    return name.length >= ABBREVIATION_MIN && names.some((long) => long.startsWith(name));
  }
  return arg.length > 1 && arg.startsWith("-") && [...letters].some((letter) => arg.includes(letter, 1));
}

function isAbbreviated(arg: string, name: string): boolean {
  return name.startsWith("--") && arg.length >= ABBREVIATION_MIN + 1 && name.startsWith(arg);
}

/** `-uo v` and `-uov`: letters in front of the one that takes the value. */
function inCluster(arg: string, { name, next }: { readonly name: string; readonly next: string }): readonly string[] {
  const at = /^-[A-Za-z]$/.test(name) && /^-[A-Za-z0-9]/.test(arg) ? arg.indexOf(name[1] ?? "", 2) : -1;
  if (at === -1 || !/^[A-Za-z0-9]{1,16}$/.test(arg.slice(1, at))) return [];
  return [arg.slice(at + 1) || next];
}

/** The value of an option: `-o v`, `-uo v`, `-ov`, `--output v`, `--output=v`, `of=v` (as the name `of=`). */
export function valuesOf(args: readonly string[], ...names: readonly string[]): readonly string[] {
  return args.flatMap((arg, index) =>
    names.flatMap((name) => {
      if (arg === name || isAbbreviated(arg, name)) return [args[index + 1] ?? ""];
      if (name.endsWith("=") || name.startsWith("--")) {
        const sign = arg.indexOf("=") + 1;
        const own = arg.slice(0, sign);
        const isNamed = sign > 0 && (own === name || own === `${name}=` || isAbbreviated(own.slice(0, -1), name));
        return isNamed ? [arg.slice(sign)] : [];
      }
      if (arg.startsWith(name)) return arg.startsWith("--") ? [] : [arg.slice(name.length)];
      return inCluster(arg, { name, next: args[index + 1] ?? "" });
    }),
  );
}

/** Whether the program, with or without a version at its end, is one of these. */
export function isOne({ program, family }: Invocation, set: ReadonlySet<string>): boolean {
  return set.has(program) || set.has(family);
}
