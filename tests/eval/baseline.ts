import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DETECTOR } from "../../src/detection/sensitive.ts";
import { SHELL_RULES, SHELL_TABLES } from "../../src/shell-rules/shell-rules.ts";
import { CASE_FILES, casesOf } from "../shell-rules/cases.ts";
import { evasionScores, falseAlarms, scores } from "./measure.ts";

/**
 * Counts what the detectors and the shell rules find today in every text that the test suites contain, and writes the counts to
 * `baseline.json`: `bun run eval:baseline`. A change of the rules is compared with them.
 */
const TESTS = join(import.meta.dir, "..");
const FILE = join(import.meta.dir, "baseline.json");
const DETECTION = ["detection", "attack", "benign"];
const SHELL = /^(?:approvals\/(?:shell|risk)|shell-rules\/|attack\/command-line|benign\/commands|tools\/workspace)/;
const LEVELS = ["secrets", "balanced", "strict"] as const;
const DIRECTORIES = { cwd: "/work", home: "/home/agent" };
const PER_KIND = 5_000;
const PER_PAIR = 200;
const MACHINE_CHARS = 8 * 2 ** 20;

const files = readdirSync(TESTS, { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".ts"))
  .sort();
const texts = textsOf(files.filter((path) => DETECTION.includes(path.split("/")[0] ?? "")));
const commands = [
  ...textsOf(files.filter((path) => SHELL.test(path))),
  ...CASE_FILES.flatMap(casesOf),
  ...Object.values(SHELL_TABLES)
    .flat()
    .flatMap(({ matches, misses }) => [...matches, ...misses]),
];

const judged = commands.map((command) => SHELL_RULES.judge(command, DIRECTORIES));
const baseline = {
  detection: {
    texts: texts.length,
    sha256: digestOf(texts),
    findings: Object.fromEntries(
      LEVELS.map((level) => [
        level,
        tally(texts.flatMap((text) => DETECTOR.findOrWhole(text, level).map(({ rule }) => rule))),
      ]),
    ),
  },
  planted: { perKind: PER_KIND, kinds: scores(PER_KIND) },
  writtenOtherwise: { perPair: PER_PAIR, scores: evasionScores(PER_PAIR) },
  falseAlarms: falseAlarms(MACHINE_CHARS),
  shell: {
    commands: commands.length,
    sha256: digestOf(commands),
    verdicts: tally(judged.map(({ rules }) => (rules.some(({ verdict }) => verdict === "deny") ? "deny" : "ask"))),
    rememberable: judged.filter(({ rules }) => rules.every(({ rememberable }) => rememberable)).length,
    rules: tally(judged.flatMap(({ rules }) => rules.map(({ id }) => id))),
    unclassified: judged.filter(({ notes }) => notes.some((note) => note.startsWith("Cannot be classified"))).length,
  },
};
writeFileSync(FILE, `${JSON.stringify(baseline, undefined, 2)}\n`);

/** The strings that stand in these files, each once. */
function textsOf(paths: readonly string[]): readonly string[] {
  const found = new Set<string>();
  for (const path of paths) {
    const source = readFileSync(join(TESTS, path), "utf8");
    for (const [literal, quoted, raw] of source.matchAll(/"((?:[^"\\\n]|\\.)*)"|String\.raw`([^`$]*)`|`[^`$\\]*`/g)) {
      const text = quoted === undefined ? (raw ?? literal.slice(1, -1)) : unescaped(literal);
      if (text !== undefined && text.length > 1) found.add(text);
    }
  }
  return [...found];
}

/** JSON knows the escapes of TypeScript but for a few, whose texts are left out. */
function unescaped(literal: string): string | undefined {
  try {
    return JSON.parse(literal) as string;
  } catch {
    return undefined;
  }
}

function tally(names: readonly string[]): Readonly<Record<string, number>> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return Object.fromEntries([...counts].sort(([one], [other]) => (one < other ? -1 : 1)));
}

function digestOf(all: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(all)).digest("hex");
}
