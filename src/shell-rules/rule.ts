import type { Risk } from "../core/types.ts";
import { type Call, has, isOne, names, operandsOf, possibleValues, surelyHas, words } from "./call.ts";
import { writtenBy } from "./effects.ts";
import { gitCall } from "./git.ts";
import type { ShellScript } from "./script.ts";
import { CALL_TESTS, type CallTestName, PATH_TESTS, type PathTest } from "./tests.ts";
import { UNKNOWN } from "./words.ts";

/** A row of a table of shell rules. Of all rows that match, the strictest counts. */
export interface ShellRule {
  readonly id: string;
  /** Describes to the approver what a matching script does. */
  readonly note: string;
  readonly verdict: "deny" | "ask" | "none";
  readonly risk: Risk;
  /** True when an approval for the session may cover the script, as far as this row is concerned. */
  readonly rememberable: boolean;
  /** The row matches when one call of the script passes one of these tests. */
  readonly calls: readonly CallTest[];
  /** True when the row also matches scripts whose text does not show what they run. */
  readonly unclear?: true;
  /** The calls may run their arguments, variables or settings as code; `input`: also text that they read. */
  readonly runs?: "arguments" | "input";
  /** Scripts that the row must match, and similar scripts that it must not. */
  readonly matches: readonly string[];
  readonly misses: readonly string[];
}

/** Conditions on one call; all that are given must hold. Lists are words separated by spaces. */
export interface CallTest {
  /** Names of programs, with or without a version; absent: every program. */
  readonly programs?: string;
  /** Verbs of git; the other conditions are about the arguments after the verb. */
  readonly git?: string;
  /** Commands at the start of the operands, separated by commas: `ps, container ls`; after `$`, no operand may follow. */
  readonly verbs?: string;
  /** At least one of these options: `-rf --force` is the letters `r` and `f` and a long name. */
  readonly options?: string;
  readonly without?: string;
  /** All options that are allowed; `=` marks those with a value: `-aq -n= --all --tail=`. */
  readonly only?: string;
  readonly argument?: RegExp;
  readonly never?: RegExp;
  /** The arguments, joined by spaces, match. */
  readonly text?: RegExp;
  readonly operand?: PathTest;
  readonly writes?: PathTest;
  readonly test?: CallTestName;
  readonly unless?: CallTestName;
  /** True when the row matches only calls that may change something. */
  readonly changes?: true;
}

/** Denied, and cannot be approved. */
export const DENIED = { verdict: "deny", risk: "critical", rememberable: false } as const;
/** Always asks, and an approval is not remembered. */
export const HIGH = { verdict: "ask", risk: "high", rememberable: false } as const;
/** Only reads: nothing is written, sent or started. */
export const READS = { verdict: "none", risk: "low", rememberable: true } as const;

type Level = Pick<ShellRule, "verdict" | "risk" | "rememberable">;

/** Makes the rules of a table, which all have the same level. */
export function rulesOf(level: Level, rows: readonly Omit<ShellRule, keyof Level>[]): readonly ShellRule[] {
  return rows.map((row) => ({ ...level, ...row }));
}

interface KnownOptions {
  readonly flags: ReadonlySet<string>;
  readonly valued: readonly string[];
}

/** Reads a list of options: `-ab` is two letters; a name after one dash ends in `:` or, with a value, in `=` (`-name:`, `-in=`). */
function knownOptions(list: string): KnownOptions {
  const all = words(list).filter((option) => option !== "");
  const isLetters = (option: string) => /^-[^-]/.test(option) && !/[:=]$/.test(option);
  const flags = all.flatMap((option) => {
    if (isLetters(option)) return [...option.slice(1)].map((letter) => `-${letter}`);
    return option.endsWith("=") ? [] : [option.replace(/:$/, "")];
  });
  return {
    flags: new Set(flags),
    valued: all.flatMap((option) => (option.endsWith("=") ? [option.slice(0, -1)] : [])),
  };
}

/** Returns the operands, without the values of options; undefined when an option is not known. */
function readKnown(args: readonly string[], { flags, valued }: KnownOptions): readonly string[] | undefined {
  const operands: string[] = [];
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? "";
    const [name = ""] = arg.split("=", 1);
    if (!arg.startsWith("-") || arg === "-") operands.push(arg);
    else if (arg === "--") return [...operands, ...args.slice(at + 1)];
    else if (flags.has(arg)) continue;
    else if (valued.includes(arg)) at += 1;
    else if (name !== arg && valued.includes(name)) continue;
    else {
      const own = clusterEnd(arg, flags, valued);
      if (own === undefined) return undefined;
      at += own;
    }
  }
  return operands;
}

/** Returns the number of further words that a cluster such as `-abn5` takes; undefined when a letter is not known. */
function clusterEnd(arg: string, flags: ReadonlySet<string>, valued: readonly string[]): number | undefined {
  if (arg.startsWith("--")) return undefined;
  for (let at = 1; at < arg.length; at += 1) {
    const letter = `-${arg[at] ?? ""}`;
    if (valued.includes(letter)) return at + 1 < arg.length ? 0 : 1;
    if (!flags.has(letter)) return undefined;
  }
  return 0;
}

interface CallFacts {
  readonly call: Call;
  readonly script: ShellScript;
  /** Returns whether the call is known to only read. */
  readonly reads: () => boolean;
}

/** A condition on one call, compiled for the rule that contains it. */
export type CompiledTest = (facts: CallFacts) => boolean;

export function compileTest(test: CallTest, { verdict, risk }: Pick<ShellRule, "verdict" | "risk">): CompiledTest {
  // A dynamic word is not taken for an option that denies a call.
  const isDenial = verdict === "deny";
  const programs = test.programs === undefined ? undefined : names(test.programs);
  const git = test.git === undefined ? undefined : names(test.git);
  const verbs = test.verbs?.split(/,\s+/);
  const only = test.only === undefined ? undefined : knownOptions(test.only);
  // `python3` is python, but a program in a rule about reading must have exactly the name in the rule.
  const isExact = risk === "low" && only === undefined;
  const { options, without, argument, never, text, operand, writes, unless } = test;
  return ({ call, script, reads }) => {
    if (git !== undefined && call.program !== "git") return false;
    const all = isDenial ? call.args : [...call.args, ...possibleOptions(call)];
    const { verb, args } = git === undefined ? { verb: "", args: all } : gitCall(all);
    if (git?.has(verb) === false) return false;
    if (programs !== undefined && !(isExact ? programs.has(call.program) : isOne(call, programs))) return false;
    const operands = only === undefined ? operandsOf(args) : readKnown(args, only);
    if (operands === undefined || (only !== undefined && args.some((arg) => arg.startsWith(UNKNOWN)))) return false;
    if (verbs !== undefined && !verbs.some((verb) => beginsWith(operands, verb))) return false;
    if (options !== undefined && !(isDenial ? surelyHas : has)(args, options)) return false;
    if (without !== undefined && has(args, without)) return false;
    if (argument !== undefined && !args.some((arg) => argument.test(arg))) return false;
    if (never !== undefined && args.some((arg) => never.test(arg))) return false;
    if (text !== undefined && !text.test(args.join(" "))) return false;
    if (operand !== undefined && !operands.some((path) => PATH_TESTS[operand](path, call.directories))) return false;
    if (writes !== undefined && !writtenBy(call).some((path) => PATH_TESTS[writes](path, call.directories)))
      return false;
    if (test.changes === true && reads()) return false;
    if (unless !== undefined && CALL_TESTS[unless](call, script)) return false;
    return test.test === undefined || CALL_TESTS[test.test](call, script);
  };
}

function possibleOptions(call: Call): readonly string[] {
  return possibleValues(call).filter((value) => value.startsWith("-"));
}

function beginsWith(operands: readonly string[], verb: string): boolean {
  const isWhole = verb.endsWith("$");
  const wanted = words(isWhole ? verb.slice(0, -1) : verb).filter((word) => word !== "");
  return wanted.every((word, at) => operands[at] === word) && (!isWhole || operands.length === wanted.length);
}
