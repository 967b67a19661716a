import { afterEach, beforeEach, expect, test } from "bun:test";
import type { AuditLog } from "../../../src/audit/audit-log.ts";
import { UnauthenticatedLimit } from "../../../src/audit/unauthenticated.ts";
import { UnauthenticatedSums } from "../../../src/runtime/composition/recording.ts";
import { createWorld, errorWith, playDisk, type World } from "../../audit/support/open.ts";

const MINUTE_MS = 60_000;
const CODE = "UNAUTHENTICATED" as const;

let world: World;
let limit: UnauthenticatedLimit;

beforeEach(() => {
  world = createWorld();
  limit = new UnauthenticatedLimit({ linesPerMinuteMax: 0 });
});
afterEach(() => world.end());

function sumsInto(audit: AuditLog): UnauthenticatedSums {
  return new UnauthenticatedSums({ limit, audit, ids: () => Bun.randomUUIDv7(), clock: () => world.now });
}

/** Each source as often as its place in the row says. */
function knock(sources: number): void {
  for (let source = 1; source <= sources; source += 1) {
    for (let time = 0; time < source; time += 1) {
      limit.sumUp({ source: `source ${source}`, code: CODE, traceId: "t" }, world.now);
    }
  }
}

function counts(): readonly number[] {
  return world.lines("2026-02-16.jsonl").map(({ count }) => Number(count));
}

const total = (numbers: readonly number[]): number => numbers.reduce((sum, count) => sum + count, 0);

test("a round writes the ten largest sums of the current minute, and all of the minutes before", async () => {
  const sums = sumsInto(world.open());
  knock(25);
  await sums.write();
  expect(counts()).toEqual([25, 24, 23, 22, 21, 20, 19, 18, 17, 16]);
  await sums.write();
  expect(counts()).toHaveLength(20);
  world.now += MINUTE_MS;
  await sums.write();
  expect(counts()).toHaveLength(25);
  await sums.write();
  await sums.stop();
  expect([counts().length, total(counts())]).toEqual([25, 325]);
});

test("more sums than the audit takes at once are all written, in rounds and at the end", async () => {
  const sums = sumsInto(world.open({ queueEntriesMax: 8 }));
  knock(100);
  world.now += MINUTE_MS;
  for (let round = 0; round < 20; round += 1) await sums.write();
  expect(total(counts())).toBe(5_050);
  knock(100);
  await sums.stop();
  expect(total(counts())).toBe(10_100);
});

test("a round delayed by the disk is not overtaken", async () => {
  const sums = sumsInto(world.open());
  knock(3);
  const first = sums.write();
  knock(3);
  expect(sums.write()).toBe(first);
  await first;
  expect(total(counts())).toBe(6);
});

test("a disk that takes nothing any more does not delay the end", async () => {
  const { files } = playDisk({
    fdatasync: () => {
      throw errorWith("EIO");
    },
  });
  const sums = sumsInto(world.open({ files }));
  knock(5);
  await sums.write();
  await sums.stop();
});
