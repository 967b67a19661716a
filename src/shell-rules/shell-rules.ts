import { BANS } from "./bans.ts";
import { type Call, type ShellDirectories, words } from "./call.ts";
import { GIT, HIGH_RISK } from "./high-risk.ts";
import { CHANGES, READ_ONLY } from "./read-only.ts";
import { type CallTest, type CompiledTest, compileTest, type ShellRule } from "./rule.ts";
import { readScript, type ShellScript } from "./script.ts";
import { CALL_TESTS, PATH_TESTS } from "./tests.ts";
import { WRAPPER_NAMES } from "./wrappers.ts";

export type { ShellDirectories } from "./call.ts";
export { hasCall } from "./conditions.ts";
export { DENIED, HIGH, type ShellRule } from "./rule.ts";
export type { ShellScript } from "./script.ts";

/** The tables of built-in rules, by title. */
export const SHELL_TABLES = {
  Denied: BANS,
  "High risk": HIGH_RISK,
  Git: GIT,
  Changes: CHANGES,
  "Reads only": READ_ONLY,
} as const satisfies Readonly<Record<string, readonly ShellRule[]>>;

/** Other programs whose names a function of a script must not have. */
const OTHER_PROGRAMS = words("mktemp exit return set source . eval");

/** What the rules say about a script. */
export interface ShellJudgement {
  /** Strictest verdict of the rules that match: deny > ask > none. */
  readonly verdict: ShellRule["verdict"];
  /** Rules that match, without those for calls that only read. */
  readonly rules: readonly ShellRule[];
  readonly notes: readonly string[];
  readonly script: ShellScript;
}

const VERDICTS = ["deny", "ask"] as const;

interface Entry {
  readonly rule: ShellRule;
  readonly matches: CompiledTest;
  /** Programs that the test is about; empty for all. */
  readonly programs: readonly string[];
}

/** Compares scripts with a list of rules. Each rule is evaluated every time: none can hide another. */
export class ShellRules {
  readonly #rules: readonly ShellRule[];
  /** Programs that rules and wrappers are about: a function with such a name makes a script unclear. */
  readonly #programs: ReadonlySet<string>;
  /** Tests that name no program, and the others by program. */
  readonly #general: readonly Entry[];
  readonly #byProgram: ReadonlyMap<string, readonly Entry[]>;

  constructor(rules: readonly ShellRule[]) {
    this.#rules = rules;
    const entries = rules.flatMap((rule) =>
      rule.calls.map((test) => ({ rule, matches: compileTest(test, rule), programs: programsOf(test) })),
    );
    this.#general = entries.filter(({ programs }) => programs.length === 0);
    this.#byProgram = Map.groupBy(
      entries.flatMap((entry) => entry.programs.map((program) => ({ ...entry, program }))),
      ({ program }) => program,
    );
    this.#programs = new Set([...this.#byProgram.keys(), ...WRAPPER_NAMES, ...OTHER_PROGRAMS]);
  }

  read(command: string, directories: ShellDirectories): ShellScript {
    return readScript(command, directories, this.#programs);
  }

  /** Returns the rules that a script matches, and why it cannot be classified. */
  judge(command: string, directories: ShellDirectories): ShellJudgement {
    const script = this.read(command, directories);
    const found = this.#found(script);
    const rules = this.#rules.filter((rule) => found.has(rule) && !isOnlyRead(rule));
    const unclear = [...script.unclear].map((reason) => `Cannot be classified: ${reason}.`);
    const verdict = VERDICTS.find((strict) => rules.some((rule) => rule.verdict === strict)) ?? "none";
    return { verdict, rules, notes: [...rules.map((rule) => noteOf(rule, found.get(rule))), ...unclear], script };
  }

  matching(script: ShellScript): readonly ShellRule[] {
    const found = this.#found(script);
    return this.#rules.filter((rule) => found.has(rule));
  }

  /** Returns the rules that match, each with the first programs that it matches. */
  #found(script: ShellScript): ReadonlyMap<ShellRule, ReadonlySet<string>> {
    const isUnclear = script.unclear.size > 0;
    const found = new Map<ShellRule, Set<string>>(
      this.#rules.flatMap((rule) => (rule.unclear === true && isUnclear ? [[rule, new Set<string>()]] : [])),
    );
    for (const call of script.calls) {
      const entries = this.#entriesFor(call);
      let known: boolean | undefined;
      const reads = (): boolean => {
        known ??=
          call.program === "" ||
          call.isFunction ||
          entries.some(({ rule, matches }) => isOnlyRead(rule) && matches(facts));
        return known;
      };
      const facts = { call, script, reads };
      for (const { rule, matches } of entries) {
        const programs = found.get(rule);
        if (programs !== undefined && (isNamed(programs, call) || rule.risk !== "high")) continue;
        if (matches(facts)) found.set(rule, (programs ?? new Set()).add(call.program));
      }
    }
    return found;
  }

  #entriesFor({ program, family }: Call): readonly Entry[] {
    const own = this.#byProgram.get(program) ?? [];
    return [...this.#general, ...own, ...(family === program ? [] : (this.#byProgram.get(family) ?? []))];
  }

  /** Returns the rules and the code of their named tests as text, for the version of the rules. */
  text(): string {
    const tests = Object.entries({ ...CALL_TESTS, ...PATH_TESTS }).map(([name, test]) => [name, String(test)]);
    return JSON.stringify([this.#rules, tests], (_key, value: unknown) =>
      value instanceof RegExp ? String(value) : value,
    );
  }
}

const PROGRAMS_NAMED = 3;

/** Returns whether another call of the program leaves the rule's note unchanged. */
function isNamed(programs: ReadonlySet<string>, { program }: Call): boolean {
  return programs.size >= PROGRAMS_NAMED || programs.has(program);
}

/** Returns the note of a rule; of high risk with the programs that it matches, such as `Talks to the network (curl).` */
function noteOf({ note, risk }: ShellRule, programs: ReadonlySet<string> = new Set()): string {
  const named = [...programs].filter((program) => PROGRAM_NAME.test(program));
  return risk !== "high" || named.length === 0 ? note : `${note.replace(/\.$/, "")} (${named.join(", ")}).`;
}

/** Program names that notes may contain. No other text of a script is repeated: notes are not redacted. */
const PROGRAM_NAME = /^[a-z0-9][a-z0-9._+-]{0,23}$/;

function programsOf({ programs, git }: CallTest): readonly string[] {
  if (git !== undefined) return ["git"];
  return programs === undefined ? [] : words(programs);
}

function isOnlyRead({ risk }: ShellRule): boolean {
  return risk === "low";
}

/** The built-in rules. */
export const SHELL_RULES = new ShellRules(Object.values(SHELL_TABLES).flat());
