import { BANNED } from "../banned.ts";
import { GIT_RULES } from "../git.ts";
import { HIGH } from "../high.ts";
import { PROGRAMS } from "../programs.ts";
import { isReading, isVersion } from "../reads.ts";
import { medium, type ShellRule } from "../rule.ts";
import { isOne } from "./invocation.ts";
import { INTERPRETERS, isShell } from "./network.ts";
import type { ShellDirectories } from "./place.ts";
import { reachOf } from "./place.ts";
import { readScript, type ShellScript } from "./script.ts";
import { writtenBy } from "./writes.ts";

/** What is neither forbidden nor always asked about; what matches no row at all only looks. */
const MEDIUM: readonly ShellRule[] = [
  medium({
    name: "changes",
    note: "Changes files of the workspace, or is a program that nobody here knows.",
    when: (run, { functions }) =>
      !isReading(run, functions) || writtenBy(run).some((path) => reachOf(path, run.standing) !== "harmless"),
    matches: [
      "rm file.txt",
      "mv a b",
      "mkdir x",
      "sed -i s/a/b/ f",
      "echo x > f",
      "tee f",
      "git commit -m x",
      "frobnicate",
      "sort -o f f",
    ],
    misses: [
      "ls -la",
      "cat f",
      "git status",
      "grep -r x .",
      "find . -name '*.ts'",
      "wc -l f 2>/dev/null",
      "f() { ls; }; f",
    ],
  }),
  {
    ...medium({
      name: "shell-in-shell",
      note: "Starts another shell; what that one runs was judged too.",
      when: (run) =>
        (isShell(run) && run.args.length > 0 && !isVersion(run) && !/^(?:\.|source)$/.test(run.program)) ||
        (isOne(run, INTERPRETERS) && !isVersion(run)),
      matches: ["bash -c 'ls'", "sh -c ls", "busybox ls"],
      misses: ["ls", "echo bash"],
    }),
    rememberable: false,
  },
];

/** Every row there is. They are all asked, each time: none can keep another from being heard. */
export const SHELL_RULES: readonly ShellRule[] = [...BANNED, ...HIGH, ...PROGRAMS, ...GIT_RULES, ...MEDIUM];

export interface ShellFindings {
  readonly rules: readonly ShellRule[];
  readonly notes: readonly string[];
}

/** All rows that a command matches, with what cannot be told about it. */
export function judgeShell(command: string, standing: ShellDirectories): ShellFindings {
  const script = readScript(command, standing);
  const rules = SHELL_RULES.filter((rule) => applies(rule, script));
  const opaque = [...script.opaque].map((reason) => `Cannot be classified: ${reason}.`);
  return { rules, notes: [...rules.map(({ note }) => note), ...opaque] };
}

function applies({ when, of }: ShellRule, script: ShellScript): boolean {
  return of?.(script) === true || (when !== undefined && script.invocations.some((run) => when(run, script)));
}
