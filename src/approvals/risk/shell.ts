import { BANS } from "./bans.ts";
import { type Call, type ShellDirectories, words } from "./call.ts";
import { GIT } from "./git.ts";
import { HIGH_RISK } from "./high-risk.ts";

import { CHANGES, READ_ONLY } from "./read-only.ts";
import { passes, type ShellRule } from "./rule.ts";
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

/** Reads a script. Never throws. */
export function scriptOf(command: string, directories: ShellDirectories): ShellScript {
  return readScript(command, directories, KNOWN_PROGRAMS);
}

/** Returns the rules that a script matches, and what cannot be told about it. */
export function judgeShell(command: string, directories: ShellDirectories): ShellFindings {
  const script = scriptOf(command, directories);
  const rules = rulesOf(script).filter(({ risk }) => risk !== "low");
  const unclear = [...script.unclear].map((reason) => `Cannot be classified: ${reason}.`);
  return { script, rules, notes: [...rules.map(({ note }) => note), ...unclear] };
}

/** Returns all rules that a script matches. */
export function rulesOf(script: ShellScript): readonly ShellRule[] {
  const known = new Map<Call, boolean>();
  const reads = (call: Call): boolean => {
    const before =
      known.get(call) ?? (call.program === "" || call.isFunction || READ_ONLY.some((rule) => matches(rule, call)));
    known.set(call, before);
    return before;
  };
  const matches = ({ calls, verdict, risk }: ShellRule, call: Call): boolean =>
    calls.some((test) => passes(test, { call, script, surely: verdict === "deny", isOnlyRead: risk === "low", reads }));
  return SHELL_RULES.filter(
    (rule) => (rule.unclear === true && script.unclear.size > 0) || script.calls.some((call) => matches(rule, call)),
  );
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
