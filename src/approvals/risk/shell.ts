import { BANS } from "./bans.ts";
import { type Call, type ShellDirectories, words } from "./call.ts";
import { GIT } from "./git.ts";
import { HIGH_RISK } from "./high-risk.ts";
import { CHANGES, READ_ONLY } from "./read-only.ts";
import { type CallTest, passes, type ShellRule } from "./rule.ts";
import { readScript, type ShellScript } from "./script.ts";
import { CALL_TESTS, PATH_TESTS } from "./tests.ts";
import { WRAPPER_NAMES } from "./wrappers.ts";

/** All rules that a script is compared with. Each is evaluated every time: none can hide another. */
export const SHELL_RULES: readonly ShellRule[] = [...BANS, ...HIGH_RISK, ...GIT, ...CHANGES, ...READ_ONLY];

/** Programs that a function must not have the name of: rules, wrappers and the reading itself are about them. */
const KNOWN_PROGRAMS = new Set([
  ...SHELL_RULES.flatMap(({ calls }) =>
    calls.flatMap(({ programs }) => (programs === undefined ? [] : words(programs))),
  ),
  ...WRAPPER_NAMES,
  ...words("mktemp exit return set source . eval"),
]);

export interface ShellFindings {
  readonly script: ShellScript;
  /** Rules that match, without those that say that a call only reads. */
  readonly rules: readonly ShellRule[];
  readonly notes: readonly string[];
}

export function scriptOf(command: string, directories: ShellDirectories): ShellScript {
  return readScript(command, directories, KNOWN_PROGRAMS);
}

/** Returns the rules that a script matches, and why it cannot be classified. */
export function assessShell(command: string, directories: ShellDirectories): ShellFindings {
  const script = scriptOf(command, directories);
  const rules = rulesOf(script).filter((rule) => !isOnlyRead(rule));
  const unclear = [...script.unclear].map((reason) => `Cannot be classified: ${reason}.`);
  return { script, rules, notes: [...rules.map(({ note }) => note), ...unclear] };
}

interface Entry {
  readonly rule: ShellRule;
  readonly test: CallTest;
}

/** Tests by the programs that they name, and those that name none. */
const ENTRIES: readonly Entry[] = SHELL_RULES.flatMap((rule) => rule.calls.map((test) => ({ rule, test })));
const programsOf = ({ programs, git }: CallTest) => (git === undefined ? (programs ?? "") : "git");
const GENERAL = ENTRIES.filter(({ test }) => programsOf(test) === "");
const BY_PROGRAM: ReadonlyMap<string, readonly Entry[]> = Map.groupBy(
  ENTRIES.flatMap((entry) => words(programsOf(entry.test)).map((program) => ({ ...entry, program }))),
  ({ program }) => program,
);

function entriesFor({ program, family }: Call): readonly Entry[] {
  const own = BY_PROGRAM.get(program) ?? [];
  return [...GENERAL, ...own, ...(family === program ? [] : (BY_PROGRAM.get(family) ?? []))];
}

export function rulesOf(script: ShellScript): readonly ShellRule[] {
  const found = new Set(SHELL_RULES.filter(({ unclear }) => unclear === true && script.unclear.size > 0));
  for (const call of script.calls) {
    const entries = entriesFor(call);
    const check = ({ rule, test }: Entry): boolean =>
      passes(test, { call, script, surely: rule.verdict === "deny", isOnlyRead: isOnlyRead(rule), reads });
    let known: boolean | undefined;
    const reads = (): boolean => {
      known ??=
        call.program === "" || call.isFunction || entries.some((entry) => isOnlyRead(entry.rule) && check(entry));
      return known;
    };
    for (const entry of entries) {
      if (!found.has(entry.rule) && check(entry)) found.add(entry.rule);
    }
  }
  return SHELL_RULES.filter((rule) => found.has(rule));
}

function isOnlyRead({ risk }: ShellRule): boolean {
  return risk === "low";
}

/** Returns the tables and the code of their named tests as text, for the version of the rules. */
export function shellRulesText(): string {
  const tests = [...Object.entries(CALL_TESTS), ...Object.entries(PATH_TESTS)].map(([name, test]) => [
    name,
    String(test),
  ]);
  return JSON.stringify([SHELL_RULES, tests], (_key, value: unknown) =>
    value instanceof RegExp ? String(value) : value,
  );
}
