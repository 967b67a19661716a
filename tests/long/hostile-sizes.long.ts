import { describe, expect, test } from "bun:test";
import { extractApprovalDecisions } from "../../src/approvals/messages/decisions.ts";
import { renderView } from "../../src/approvals/view.ts";
import type { Json, Tool } from "../../src/core/types.ts";
import { redact } from "../../src/detection/redact.ts";
import { namesSecret } from "../../src/detection/sanitize-args.ts";
import { filterSecrets } from "../../src/detection/sensitive.ts";
import { withoutFrames, withoutPathsAndAddresses } from "../../src/pipeline/target-text.ts";
import { namedFiles } from "../../src/targets/command/shell.ts";
import { readIgnoreRules } from "../../src/targets/files/gitignore.ts";
import { compilePattern } from "../../src/targets/files/search.ts";
import { unifiedDiff } from "../../src/targets/files/write-plan.ts";
import { inlineHandler } from "../../src/targets/function/kind.ts";
import { timesAsLong } from "../support/processor-time.ts";

const TIMEOUT_MS = 120_000;
/** Sixteen times would be a square. */
const FOURFOLD_TIMES_MAX = 10;

const table = (count: number, entry: (at: number) => readonly [string, Json]): Json =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => entry(at)));

function shown(input: Json): unknown {
  const said = { name: "x", description: "x", classification: "write", category: "write", approval: {} };
  const tool = { ...said, target: { system: "inline" } } as unknown as Tool;
  return renderView({
    tool,
    binding: inlineHandler.bind(tool),
    plan: { kind: "inline", input },
    planDigest: "",
    input,
    requester: { issuer: "i", subject: "s", actors: [], session: undefined },
    reason: undefined,
    risk: "low",
    rules: [],
    notes: [],
    filterSecrets: (text) => filterSecrets(text).text,
    findSecrets: (text) => filterSecrets(text).findings,
    namesSecret,
  });
}

/** Results and, behind them, questions: all of one id. */
function alikeCalls(count: number): Json {
  const asked = { approvalId: "a", originalToolCall: { name: "x", args: {} } };
  const result = { type: "tool_result", tool_use_id: "x", content: "{}" };
  const call = { type: "tool_use", id: "x", name: "client_request_approval", input: asked };
  return [
    { role: "user", content: Array.from({ length: count }, () => result) },
    { role: "assistant", content: Array.from({ length: count }, () => call) },
  ];
}

describe("four times the size takes about four times as long", () => {
  const balanced = (value: Json): unknown => redact(value, { level: "balanced" });
  const rows: readonly (readonly [string, number, (count: number) => Json, (value: Json) => unknown])[] = [
    [
      "values with a name beside them, in one another",
      5_000,
      (n) => table(n, (at) => [`x${at}value`, { value: "a" }]),
      balanced,
    ],
    ["lists of them", 1_000, (n) => table(n, (at) => [`x${at}value`, [{ value: "a" }]]), balanced],
    [
      "findings below a long key",
      1_000,
      (n) => ({ ["k".repeat(n * 50)]: table(n, (at) => [`k${at}`, "joe@example.com"]) }),
      (value) => new Set(redact(value, { level: "balanced" }).findings.map(({ path }) => path)),
    ],
    [
      "a list below a long key, as a decider sees it",
      1_000,
      (n) => ({ ['"'.repeat(n * 10)]: Array.from({ length: n }, (_, at) => `v${at}`) }),
      shown,
    ],
    [
      "calls and results of one id",
      4_000,
      alikeCalls,
      (messages) => extractApprovalDecisions(messages as unknown as object[], { format: "anthropic" }),
    ],
  ];

  test.each(rows)(
    "%s",
    (_title, count, make, work) => {
      work(make(count));
      const [once, often] = [make(count), make(4 * count)];
      const times = timesAsLong(
        () => work(often),
        () => work(once),
        FOURFOLD_TIMES_MAX,
      );
      expect(times).toBeLessThan(FOURFOLD_TIMES_MAX);
    },
    TIMEOUT_MS,
  );
});

describe("hostile text takes only a few times as long as ordinary text", () => {
  const lines = (line: string, count: number): string => `${line}\n`.repeat(count);
  const periodic = (mark: string, offset: number): string =>
    [
      mark,
      ...Array.from({ length: 500_000 }, (_, at) => ((at + offset) % 5_000 === 0 ? "!" : "abcd"[at % 4])),
      mark,
    ].join("\n");
  const [before, after] = [periodic("x", 0), periodic("y", 2)];
  const literal = compilePattern({
    pattern: `${"a".repeat(500)}b${"a".repeat(499)}`,
    literal: true,
    ignoreCase: false,
  });
  const said = (text: string) => (): unknown => withoutPathsAndAddresses(text);
  const frames = (line: string) => (): unknown => withoutFrames(Array.from({ length: 100 }, () => line));
  const script = (text: string) => (): unknown => namedFiles(text, { workspace: "/nowhere", cwd: "/nowhere" });

  const rows: readonly (readonly [string, number, () => unknown, () => unknown])[] = [
    [
      "a diff of lines that are all alike",
      60,
      () => unifiedDiff("x", before, after),
      () => unifiedDiff("x", lines("one line of text", 60_000), lines("one line of text!", 60_000)),
    ],
    [
      "a literal that nearly stands everywhere",
      200,
      () => literal.matches("a".repeat(4_000_000)),
      () => literal.matches("lorem ipsum ".repeat(333_333)),
    ],
    [
      "brackets that do not close, in rules",
      20,
      () => readIgnoreRules(lines("[".repeat(255), 256)),
      () => readIgnoreRules(lines("a".repeat(255), 256)),
    ],
    [
      "an address that does not end",
      40,
      said(`[${":".repeat(16_000)}`),
      said("cannot reach the order service ".repeat(516)),
    ],
    ["calls within calls", 100, frames("({".repeat(511)), frames("cannot reach the order service ".repeat(33))],
    [
      "scripts within scripts",
      25,
      script("<(".repeat(4_096)),
      script("cat file.txt | grep foo > out.txt; ".repeat(234)),
    ],
  ];

  test.each(rows)(
    "%s",
    (_title, timesMax, hostile, ordinary) => {
      hostile();
      ordinary();
      expect(timesAsLong(hostile, ordinary, timesMax)).toBeLessThan(timesMax);
    },
    TIMEOUT_MS,
  );
});
