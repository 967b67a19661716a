/** What a filter's own program can do: look, write files, or start other programs. */
export type FilterReach = "reads" | "writes" | "starts";

/** The options that a program has, as far as they are known here. */
export interface Options {
  /** Single letters without a value. */
  readonly letters?: string;
  /** Single letters whose value is the rest of the word, or else the next word. */
  readonly valued?: string;
  /** Single letters whose value can only be the rest of the word. */
  readonly attached?: string;
  /** Long names, without their dashes, that take no value or one behind `=`. */
  readonly longs?: readonly string[];
  /** Long names whose value stands behind `=`, or else in the next word. */
  readonly valuedLongs?: readonly string[];
  /** Whether everything behind the first operand is one too. */
  readonly stopsAtOperand?: boolean;
}

export interface Option {
  /** A letter, or a long name written out. */
  readonly name: string;
  readonly value: string;
}

export interface ReadOptions {
  readonly options: readonly Option[];
  readonly operands: readonly string[];
  /** Words and letters that none of the known options is. */
  readonly unknown: readonly string[];
}

/** Reads an argv as `getopt_long` does: clusters of letters, values in the same or the next word, abbreviated long names. */
export function optionsOf(args: readonly string[], known: Options): ReadOptions {
  const read = { options: [] as Option[], operands: [] as string[], unknown: [] as string[] };
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? "";
    if (arg === "--") return { ...read, operands: [...read.operands, ...args.slice(at + 1)] };
    if (!arg.startsWith("-") || arg === "-") {
      read.operands.push(arg);
      if (known.stopsAtOperand === true) return { ...read, operands: args.slice(at) };
    } else {
      const { options, unknown, takesNext } = arg.startsWith("--") ? longOption(arg, known) : cluster(arg, known);
      read.options.push(
        ...options.map((option) => (option.value === NEXT ? { ...option, value: args[at + 1] ?? "" } : option)),
      );
      read.unknown.push(...unknown);
      if (takesNext) at += 1;
    }
  }
  return read;
}

/** No word is: an argv holds no NUL, and what is not known is one of them alone. */
const NEXT = "\0\0";

interface Word {
  readonly options: readonly Option[];
  readonly unknown: readonly string[];
  readonly takesNext: boolean;
}

function longOption(arg: string, { longs = [], valuedLongs = [] }: Options): Word {
  const sign = arg.indexOf("=");
  const name = arg.slice(2, sign === -1 ? undefined : sign);
  const found = [...longs, ...valuedLongs].filter((long) => long.startsWith(name));
  const long = found.find((candidate) => candidate === name) ?? found[0];
  if (long === undefined || name === "") return { options: [], unknown: [arg], takesNext: false };
  if (sign !== -1) return { options: [{ name: long, value: arg.slice(sign + 1) }], unknown: [], takesNext: false };
  const takesNext = valuedLongs.includes(long);
  return { options: [{ name: long, value: takesNext ? NEXT : "" }], unknown: [], takesNext };
}

function cluster(arg: string, { letters = "", valued = "", attached = "" }: Options): Word {
  const options: Option[] = [];
  const unknown: string[] = [];
  for (let at = 1; at < arg.length; at += 1) {
    const name = arg[at] ?? "";
    if (valued.includes(name)) {
      const value = arg.slice(at + 1);
      return { options: [...options, { name, value: value === "" ? NEXT : value }], unknown, takesNext: value === "" };
    }
    if (attached.includes(name))
      return { options: [...options, { name, value: arg.slice(at + 1) }], unknown, takesNext: false };
    if (letters.includes(name)) options.push({ name, value: "" });
    else unknown.push(name);
  }
  return { options, unknown, takesNext: false };
}
