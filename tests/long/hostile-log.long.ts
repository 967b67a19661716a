import { afterAll, expect, test } from "bun:test";
import fs from "node:fs";
import { openAuditLog } from "../../src/audit/audit-log.ts";
import { prove } from "../../src/audit/chain/proof.ts";
import type { Chunk } from "../../src/audit/journal/day-files.ts";
import { findIn, Matcher } from "../../src/audit/query/filter.ts";
import { verifyLog } from "../../src/audit/verify/verify.ts";
import { keys, temporaryDirectory } from "../audit/support/chained-log.ts";
import { draftOf } from "../audit/support/open.ts";
import { entryLine } from "../support/audit-lines.ts";
import { timesAsLong } from "../support/processor-time.ts";

const BYTES = 1_048_576;
const CALLS = 10_000;
const dir = temporaryDirectory();
afterAll(() => fs.rmSync(dir, { recursive: true }));

function chunkOf(line: string): Chunk {
  const bytes = Buffer.from(`${line}\n`.repeat(Math.floor(BYTES / (line.length + 1))));
  return { day: "2026-02-16", bytes, base: 0, first: 0, last: bytes.length };
}

test.each([
  ["line ends alone", ""],
  ["a character a line", "x"],
])("%s are skipped", (_title, line) => {
  const scan = (chunk: Chunk) => () => findIn(chunk, new Matcher({ exact: {} }));
  const ordinary = scan(chunkOf(entryLine("2026-02-16T10:00:00.000Z")));
  expect(timesAsLong(scan(chunkOf(line)), ordinary, 50)).toBeLessThan(50);
});

test("finding a call takes about as long as reading its log", async () => {
  const log = openAuditLog({
    ...{ dir, instance: "test", clock: () => Date.parse("2026-02-16T12:00:00.000Z"), durability: "write" },
    ...{ queueEntriesMax: CALLS, ids: () => "id", checkpointKey: keys.privateKey },
  });
  await Promise.all(Array.from({ length: CALLS }, (_, call) => log.append(draftOf(`t-${call}`))));
  await log.close();
  const look = (): unknown => expect(() => prove(dir, "nobody")).toThrow("no call in");
  const read = (): unknown => verifyLog({ dir, keys: [keys.publicKey] });
  expect(timesAsLong(look, read, 1.5)).toBeLessThan(1.5);
});
