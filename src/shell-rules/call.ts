import { type Opened, UNKNOWN } from "./words.ts";

/** Absolute paths, or `undefined` when unknown. */
export interface ShellDirectories {
  readonly cwd: string | undefined;
  readonly home: string | undefined;
}

/** A program that a script starts, with its arguments as the shell passes them. */
export interface Call {
  /** Last part of the path, in lower case; `""` when the command only sets variables or opens files. */
  readonly program: string;
  /** `program` without a version at its end: `python` for `python3.12`. */
  readonly family: string;
  readonly spelled: string;
  readonly args: readonly string[];
  /** Variables set for it, as `NAME=value`. */
  readonly variables: readonly string[];
  /** Texts in the script that its variables and parameters may have as values. */
  readonly values: ReadonlySet<string>;
  readonly opened: readonly Opened[];
  /** Programs whose output it reads through pipes, or that its words are built from. */
  readonly fedBy: readonly string[];
  /** True when its standard input is a pipe, a file or a text. */
  readonly readsInput: boolean;
  /** Texts on its standard input that are known. */
  readonly input: readonly string[];
  readonly directories: ShellDirectories;
  /** True when it certainly calls a function of the script. */
  readonly isFunction: boolean;
  readonly inside: string | undefined;
  readonly background: boolean;
  readonly pipe: number | undefined;
}

export type CallContext = Omit<Call, "program" | "family" | "spelled" | "args">;

export function callOf([spelled = "", ...args]: readonly string[], context: CallContext): Call {
  const program = spelled.slice(spelled.lastIndexOf("/") + 1).toLowerCase();
  let end = program.length;
  while (end > 1 && /[0-9.]/.test(program[end - 1] ?? "")) end -= 1;
  return { ...context, spelled, program, family: program.slice(0, end), args };
}

/** Splits a list of words, which may have several lines. */
export function words(list: string): readonly string[] {
  return list.split(/\s+/);
}

export function names(list: string): ReadonlySet<string> {
  return new Set(words(list));
}

export function byName<Value>(rows: readonly (readonly [names: string, value: Value])[]): ReadonlyMap<string, Value> {
  return new Map(rows.flatMap(([some, value]) => words(some).map((name) => [name, value] as const)));
}

/** Returns whether the program, with or without a version at its end, is in the set. */
export function isOne({ program, family }: Call, set: ReadonlySet<string>): boolean {
  return set.has(program) || set.has(family);
}

/** Returns the values that the variables and parameters in a call may have; empty when it has none. */
export function possibleValues({ args, opened, values }: Call): readonly string[] {
  const isDynamic = args.some((arg) => arg.includes(UNKNOWN)) || opened.some(({ path }) => path.includes(UNKNOWN));
  return isDynamic ? [...values] : [];
}

const FILLED_MAX = 2_048;

/**
 * Returns the text with every combination of these values in place of its unknown parts; undefined when they are too many. A part
 * may also stay unknown, or be empty like a variable that is not set.
 */
export function filledWith(text: string, values: ReadonlySet<string>): readonly string[] | undefined {
  const [first = "", ...rest] = text.split(UNKNOWN);
  const possible = [...new Set([...values, UNKNOWN, ""])];
  if (possible.length ** rest.length > FILLED_MAX) return undefined;
  return rest.reduce<readonly string[]>(
    (texts, part) => texts.flatMap((before) => possible.map((value) => before + value + part)),
    [first],
  );
}

/** Returns the operands by GNU's rules: options may appear anywhere before `--`. `valued` options take the next word. */
export function operandsOf(args: readonly string[], valued = ""): readonly string[] {
  const operands: string[] = [];
  const takesNext = valued === "" ? [] : words(valued);
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? "";
    if (arg === "--") return [...operands, ...args.slice(at + 1)];
    if (!arg.startsWith("-") || arg === "-") operands.push(arg);
    else if (takesNext.includes(arg)) at += 1;
  }
  return operands;
}

/** Arguments of a program that are paths: values of the options `named`, and operands. `valued` options take the next word. */
export interface PathArguments {
  readonly named?: string;
  readonly valued?: string;
  /** First operand that is a path, and the first that is not, as for `slice`; without `from`, no operand is a path. */
  readonly from?: number;
  readonly to?: number;
}

export function pathArguments({
  named,
  valued,
  from,
  to,
}: PathArguments): (args: readonly string[]) => readonly string[] {
  return (args) => [
    ...(from === undefined ? [] : operandsOf(args, valued).slice(from, to)),
    ...(named === undefined ? [] : valuesOf(args, named)),
  ];
}

const ABBREVIATION_MIN = 3;

/** Maximum number of lists that are cached: operators' rules may contain any number. */
const OPTION_LISTS_MAX = 1_024;
const optionLists = new Map<string, readonly string[]>();

/** Reads a list of options: `-rf --force` is `-r`, `-f` and `--force`. */
export function optionsIn(list: string): readonly string[] {
  const known = optionLists.get(list);
  if (known !== undefined) return known;
  const made = words(list).flatMap((option) =>
    option.startsWith("--") ? [option] : [...option.slice(1)].map((letter) => `-${letter}`),
  );
  if (optionLists.size < OPTION_LISTS_MAX) optionLists.set(list, made);
  return made;
}

/**
 * Returns whether one of the options is given: a letter alone or in a cluster, or a long name, also abbreviated. A dynamic word
 * may be any option.
 */
export function has(args: readonly string[], options: string): boolean {
  return beforeMarker(args).some((arg) => arg.startsWith(UNKNOWN)) || surelyHas(args, options);
}

/** Like `has`, but a dynamic word does not count. */
export function surelyHas(args: readonly string[], options: string): boolean {
  const wanted = optionsIn(options);
  return beforeMarker(args).some((arg) => {
    if (!arg.startsWith("--"))
      return arg.startsWith("-") && wanted.some((name) => name.length === 2 && arg.includes(name[1] ?? "", 1));
    const [name = ""] = arg.split("=", 1);
    return name.length >= ABBREVIATION_MIN && wanted.some((long) => long.startsWith(name));
  });
}

function beforeMarker(args: readonly string[]): readonly string[] {
  const end = args.indexOf("--");
  return end === -1 ? args : args.slice(0, end);
}

function isAbbreviated(arg: string, name: string): boolean {
  return name.startsWith("--") && arg.length > ABBREVIATION_MIN && name.startsWith(arg);
}

/** Returns the values of options: `-o v`, `-uo v`, `-ov`, `--output v`, `--output=v`, `of=v` (as the name `of=`). */
export function valuesOf(args: readonly string[], options: string): readonly string[] {
  const all = words(options);
  return args.flatMap((arg, index) =>
    all.flatMap((name) => {
      if (arg === name || isAbbreviated(arg, name)) return [args[index + 1] ?? ""];
      if (name.endsWith("=") || name.startsWith("--")) {
        const end = arg.indexOf("=") + 1;
        const own = arg.slice(0, end);
        const isNamed = end > 0 && (own === name || own === `${name}=` || isAbbreviated(own.slice(0, -1), name));
        return isNamed ? [arg.slice(end)] : [];
      }
      if (arg.startsWith(name)) return arg.startsWith("--") ? [] : [arg.slice(name.length)];
      // `-uo v`: other letters before the one that takes the value.
      const at = /^-[A-Za-z]$/.test(name) && /^-[A-Za-z0-9]/.test(arg) ? arg.indexOf(name[1] ?? "", 2) : -1;
      return at !== -1 && /^[A-Za-z0-9]{1,16}$/.test(arg.slice(1, at))
        ? [arg.slice(at + 1) || (args[index + 1] ?? "")]
        : [];
    }),
  );
}

/** Returns a word, the text after its `=`, and the text after the letter of an option: each may be a path. */
export function pathsIn(word: string): readonly string[] {
  const value = word.slice(word.indexOf("=") + 1);
  const after = value === word || /[*?[]/.test(value) ? [] : [value];
  return /^-[A-Za-z]./.test(word) ? [word.slice(2), ...after] : [word, ...after];
}
