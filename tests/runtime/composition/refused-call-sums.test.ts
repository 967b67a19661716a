import { afterEach, beforeEach, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import type { AuditLog } from "../../../src/audit/audit-log.ts";
import { diskFiles } from "../../../src/audit/journal/file-operations.ts";
import {
  callerSumEntry,
  createCallerLimit,
  UnauthenticatedLimit as Limit,
  type UnauthenticatedLimit,
} from "../../../src/audit/unauthenticated.ts";
import { record, UnauthenticatedSums } from "../../../src/runtime/composition/recording.ts";
import { createWorld, draftOf, type World } from "../../audit/support/open.ts";

const CALLS = "2026-02-16.jsonl";
const MINUTE_MS = 60_000;

let world: World;
let audit: AuditLog;
let callers: UnauthenticatedLimit;
let sums: UnauthenticatedSums;
beforeEach(() => {
  world = createWorld();
  // The disk is below its reserve.
  const files = { ...diskFiles, space: () => ({ free: 1, total: 1e12 }) };
  audit = world.open({ files, durability: "write", queueEntriesMax: 5_000 });
  callers = createCallerLimit();
  const clock = () => world.now;
  sums = new UnauthenticatedSums({ limit: callers, audit, ids: () => "t-sum", clock, entryOf: callerSumEntry });
});
afterEach(async () => {
  await sums.stop();
  await world.end();
});

const refusal = {
  decision: "ERROR",
  response: undefined,
  error: { code: "AUDIT_UNAVAILABLE" },
  denial: { reason: "The call was not run: it could not be recorded.", stage: "AUDIT" },
} as const;

function refuse(sub: string, more: Parameters<typeof draftOf>[1] = {}) {
  const caller = { sub, iss: "https://idp.example", permissions: [] };
  const entry = draftOf(`t-${sub}`, { caller, ...refusal, ...more });
  const parts = { unauthenticated: new Limit(), callers };
  return record(audit, parts, { entry, request: { source: "192.0.2.1" }, clock: () => world.now });
}

const lines = () => world.lines(CALLS) as readonly { readonly caller: { sub: string; iss?: string }; count?: number }[];
const counted = () => lines().reduce((total, { count = 1 }) => total + count, 0);

test("callers that keep calling below the disk reserve get ten lines a minute, then a sum, each with a receipt", async () => {
  expect(audit.hasRoom()).toBe(false);
  const receipts = await Promise.all(Array.from({ length: 4_800 }, (_, call) => refuse(`agent-${call % 16}`)));
  expect(receipts.every((receipt) => String(receipt.traceId).startsWith("t-agent-"))).toBe(true);
  expect(lines()).toHaveLength(160);
  world.now += MINUTE_MS;
  await sums.write();
  expect(lines().slice(160)).toHaveLength(16);
  expect(lines()[160]).toMatchObject({
    traceId: "t-sum",
    caller: { sub: "agent-0", iss: "https://idp.example", permissions: [] },
    decision: "ERROR",
    denial: { stage: "AUDIT", reason: "refused while the audit could take no calls, too often for a line each" },
    error: { code: "AUDIT_UNAVAILABLE" },
    count: 290,
  });
  expect(counted()).toBe(4_800);
  // A minute of 16 connections that retry has used less than a quarter of a megabyte.
  expect(fs.statSync(join(world.dir, CALLS)).size).toBeLessThan(250_000);
});

test("callers beyond the limit share a sum, and no refusal is lost", async () => {
  await Promise.all(Array.from({ length: 4_000 }, (_, call) => refuse(`agent-${call % 200}`)));
  await sums.stop();
  expect(lines().some(({ caller }) => caller.sub === "(further callers)")).toBe(true);
  expect(counted()).toBe(4_000);
  expect(lines().length).toBeLessThanOrEqual(101 * 11);
});

test("a call that used an approval, and a refusal for anything else, keep their lines", async () => {
  const denial = { reason: "no", stage: "PERMISSION" } as const;
  for (let call = 0; call < 20; call += 1) {
    await refuse("agent-1", { approval: { by: "bob", id: "a-1" } });
    await refuse("agent-1", { decision: "DENIED", error: { code: "PERMISSION_DENIED" }, denial });
  }
  await sums.stop();
  expect(lines()).toHaveLength(40);
});
