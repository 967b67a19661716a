import { afterAll, beforeAll, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { runToEnd } from "../../../src/audit/chain/chain-walk.ts";
import { checkCalls } from "../../../src/audit/verify/unverified-lines.ts";
import { hashIn, linesOf, rehashed, temporaryDirectory, writeLines, writeLog } from "../support/chained-log.ts";

const RUNS = 150;
const dir = temporaryDirectory();
const files = ["2026-02-16", "2026-02-17", "2026-02-19"].map((day) => ({ day, path: join(dir, `${day}.jsonl`) }));
let written: readonly (readonly string[])[];
beforeAll(async () => {
  await writeLog(dir);
  written = files.map(({ path }) => linesOf(path));
});
afterAll(() => fs.rmSync(dir, { recursive: true }));

/** Returns the lines that a reader may rely on. */
function reliable(): readonly string[] {
  const { unverified } = runToEnd(checkCalls(dir, {}));
  return files.flatMap(({ day, path }) => {
    let offset = 0;
    return linesOf(path).filter((line) => {
      const place = { day, offset };
      offset += Buffer.byteLength(line) + 1;
      return !unverified.has(place);
    });
  });
}

/** Each changes the lines of one day; `n` is a line of it. */
const HARMS: Readonly<Record<string, (lines: readonly string[], n: number, text: string) => readonly string[]>> = {
  nothing: (lines) => lines,
  replaced: (lines, n, text) => lines.with(n, text),
  "part replaced": (lines, n, text) => lines.with(n, `${lines[n]?.slice(0, text.length)}${text}${lines[n]?.slice(40)}`),
  removed: (lines, n) => lines.toSpliced(n, 1),
  added: (lines, n, text) => lines.toSpliced(n, 0, text),
  repeated: (lines, n) => lines.toSpliced(n, 0, lines[n] ?? ""),
  moved: (lines, n) => [...lines.toSpliced(n, 1), lines[n] ?? ""],
  "changed, with its own hash": (lines, n) => lines.with(n, rehashed((lines[n] ?? "").replace("agent-1", "agent-2"))),
  "added, with its own hash": (lines, n) => {
    const forged = rehashed((lines[n] ?? "").replace("agent-1", "agent-2"), { prev: hashIn(lines[n - 1] ?? "") });
    return lines.toSpliced(n, 0, forged);
  },
};

test("whatever is done to the lines of a day, only lines that the log wrote are relied on, and most of them", () => {
  const genuine = new Set(written.flat());
  const harm = fc.constantFrom(...Object.keys(HARMS));
  const text = fc.string({ maxLength: 30 }).map((each) => each.replaceAll("\n", " "));
  const property = fc.property(harm, fc.nat({ max: 2 }), fc.nat({ max: 4 }), text, (name, day, n, inserted) => {
    for (const [index, { path }] of files.entries()) {
      const lines = written[index] ?? [];
      writeLines(path, index === day ? (HARMS[name]?.(lines, n, inserted) ?? []) : lines);
    }
    const relied = reliable();
    expect(relied.filter((line) => !genuine.has(line))).toEqual([]);
    const rest = name === "changed, with its own hash" || name === "added, with its own hash" ? 0 : genuine.size - 4;
    expect(relied.length).toBeGreaterThanOrEqual(name === "nothing" ? genuine.size : rest);
  });
  fc.assert(property, { seed: 7, numRuns: RUNS });
});
