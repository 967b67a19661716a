import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { historyIn, readCallHistory } from "../../../src/audit/query/call-history.ts";
import { entryLine, writeDays } from "../../support/audit-lines.ts";

const ID = "0198d000-0000-7000-8000-000000000001";
const DAYS = ["2026-02-16", "2026-02-17"] as const;

let folder: string;
let logs = 0;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "stc-history-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A line of a log: its day, and the second at which it was written. */
type Written = readonly [day: 0 | 1, second: number];

/** Writes each log, reads them as one, and returns the lines as `log:number`, in the order of the history. */
async function historyOf(written: readonly (readonly Written[])[]): Promise<readonly string[]> {
  const dirs = written.map((lines, log) => {
    logs += 1;
    const dir = join(folder, `${logs}`);
    for (const [number, [day, second]] of lines.entries()) {
      const at = `${DAYS[day]}T10:00:${String(second).padStart(2, "0")}.000Z`;
      writeDays(dir, { [DAYS[day]]: [entryLine(at, { traceId: ID, request: requestOf(`${log}:${number}`) })] });
    }
    return { dir };
  });
  const { calls } = await readCallHistory(historyIn({ logs: dirs }), ID);
  return calls.map(({ line }) => (JSON.parse(line) as { request: { args: { id: string } } }).request.args.id);
}

function requestOf(id: string) {
  return { args: { id }, argsHash: "a".repeat(64), hashAlg: "sha256" as const };
}

test("lines of several logs are merged by time", async () => {
  const found = await historyOf([
    [
      [0, 1],
      [0, 5],
      [1, 2],
    ],
    [
      [0, 3],
      [1, 1],
      [1, 3],
    ],
  ]);
  expect(found).toEqual(["0:0", "1:0", "0:1", "1:1", "0:2", "1:2"]);
});

test("a log whose clock was set back keeps its own order, and the others fit in by its latest time", async () => {
  expect(
    await historyOf([
      [
        [0, 10],
        [0, 5],
      ],
      [[0, 7]],
    ]),
  ).toEqual(["1:0", "0:0", "0:1"]);
  expect(
    await historyOf([
      [[0, 7]],
      [
        [0, 10],
        [0, 5],
      ],
    ]),
  ).toEqual(["0:0", "1:0", "1:1"]);
});

test("calls and the journal are one order after the clock was set back too", async () => {
  const at = (second: number): string => `${DAYS[0]}T10:00:${String(second).padStart(2, "0")}.000Z`;
  writeDays(folder, { [DAYS[0]]: [10, 5].map((second) => entryLine(at(second), { traceId: ID })) });
  const journal = [7, 6].map((second) => ({ type: "call.started", timestamp: at(second), traceId: ID }));
  writeDays(join(folder, "journal"), { [DAYS[0]]: journal.map((line) => JSON.stringify(line)) });
  const { lines } = await readCallHistory(historyIn({ logs: [{ dir: folder }] }), ID);
  const timeOf = ({ line }: { readonly line: string }) => (JSON.parse(line) as { timestamp: string }).timestamp;
  expect(lines.map(timeOf)).toEqual([at(7), at(6), at(10), at(5)]);
});

const line = fc.tuple(fc.constantFrom(0 as const, 1 as const), fc.integer({ min: 0, max: 59 }));
const log = fc.array(line, { minLength: 1, maxLength: 12 }).map((lines) => [...lines].sort(([a], [b]) => a - b));

test("whatever the clocks did, each log keeps its own order, and so do the days", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(log, { minLength: 2, maxLength: 3 }), async (written) => {
      const found = await historyOf(written);
      const dayOf = (id: string): number => {
        const [index = 0, number = 0] = id.split(":").map(Number);
        return written[index]?.[number]?.[0] ?? -1;
      };
      for (const [index, lines] of written.entries()) {
        const own = found.filter((id) => id.startsWith(`${index}:`));
        expect(own).toEqual(lines.map((_, number) => `${index}:${number}`));
      }
      expect(found.map(dayOf)).toEqual(found.map(dayOf).sort());
    }),
    { seed: 20_261_129, numRuns: 60 },
  );
});
