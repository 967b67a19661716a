import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { isTable } from "../../src/core/json.ts";
import { CombinedWorld, NEUTRAL, THEIRS } from "./combined-points-world.ts";

const world = new CombinedWorld();
const QUOTAS = [
  { name: "cost", per: ["caller"], cost: 1, window: "month" },
  { name: "calls", per: ["caller"], calls: 10_000, window: "month" },
  { name: "bytes", per: [], bytes: 1_000_000, window: "month" },
];
let token = "";
beforeAll(async () => {
  await world.start(false, { limits: { quotas: QUOTAS } });
  token = await world.agent({ permissions: ["deeds:do", "mail:read"] });
});
afterAll(() => world.end());

/** Created by whatever looks up fingerprints first. */
const KEY = "policy_flow_secret";

/** Returns every row of every table of the approvals' database, without the service's key of fingerprints. */
function rows(): Readonly<Record<string, readonly unknown[]>> {
  const database = new Database(join(world.folder, "approvals.sqlite"), { readonly: true });
  try {
    const tables = database.query("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").all();
    return Object.fromEntries(
      tables.flatMap((table) => {
        const { name } = table as { readonly name: string };
        if (name === KEY) return [];
        const found = database
          .query(`SELECT * FROM "${name}"`)
          .all()
          .map((row) => JSON.stringify(row));
        return [[name, found.sort()]];
      }),
    );
  } finally {
    database.close();
  }
}

const lines = (): number => world.entries().length + world.journal().length;

/** Makes a dry run. Expects that it writes its audit entry and nothing else. Returns its verdict. */
async function dryRun(tool: string, args: object, more: object = {}): Promise<string> {
  const [before, linesBefore, deeds] = [rows(), lines(), world.deeds.length];
  const { body } = await world.call(token, tool, args, { dryRun: true, ...more });
  expect(rows()).toEqual(before);
  expect(lines()).toBe(linesBefore + 1);
  expect(world.deeds.length).toBe(deeds);
  expect(world.entry(body.traceId)).toMatchObject({ decision: "DRY_RUN", dryRun: true });
  return isTable(body["error"]) ? String(body["error"]["code"]) : body.verdict;
}

const args = (more: object): object => ({ ...NEUTRAL, nonce: "x", ...more });

test("a dry run that is the first call of a service writes nothing but its audit entry", async () => {
  expect(await dryRun("deed", args({ waived: true }))).toBe("allow");
  expect(rows()["policy_quota_use"]).toEqual([]);
});

test.each([
  ["read_mail", {}, "allow"],
  ["deed", args({}), "ask"],
  ["deed_two", args({ rule: "asks" }), "ask"],
  ["deed", args({ rule: "denies" }), "POLICY_DENIED"],
  ["deed", args({ engine: "offers" }), "ask"],
  ["deed", args({ engine: "no json" }), "POLICY_DENIED"],
  ["deed", args({ cedar: "errs" }), "POLICY_DENIED"],
  ["deed_slow", args({}), "POLICY_DENIED"],
  ["deed_costly", args({ waived: true }), "QUOTA_EXCEEDED"],
  ["deed", args({ large: true }), "PERMISSION_DENIED"],
  ["deed", { to: 1 }, "INVALID_INPUT"],
  ["deeds", {}, "TOOL_NOT_FOUND"],
] as const)("a dry run of %s with %j writes nothing but its audit entry", async (tool, given, verdict) => {
  expect(await dryRun(tool, given)).toBe(verdict);
});

test("a dry run earns no label, uses no grant and no approval, and takes nothing of a quota", async () => {
  const asked = await world.call(token, "deed", args({ nonce: "granted" }));
  await world.decide(asked.body.approval.id, "approve", { scope: "bounded" });
  for (let each = 0; each < 3; each += 1)
    expect(await dryRun("deed", args({ nonce: `covered-${each}` }))).toBe("allow");
  const once = await world.call(token, "deed_two", args({ nonce: "approved" }));
  await world.decide(once.body.approval.id, "approve", {});
  await world.decide(once.body.approval.id, "approve", { token: await world.person({ sub: "bob" }) });
  expect(await dryRun("deed_two", args({ nonce: "approved" }))).toBe("allow");
  expect(await dryRun("read_mail", {})).toBe("allow");
  expect(await dryRun("deed", args({ to: THEIRS, nonce: "granted" }))).toBe("allow");
  expect((await world.call(token, "deed_two", args({ nonce: "approved" }))).body.status).toBe("success");
  await world.call(token, "read_mail", {});
  expect(await dryRun("deed", args({ to: THEIRS, nonce: "granted" }))).toBe("ask");
  expect(await dryRun("read_account", {})).toBe("allow");
  expect(await dryRun("deed", args({ nonce: "granted" }))).toBe("allow");
});

test("a dry run of a halted call writes nothing but its audit entry", async () => {
  const halt = await world.halt("agent-7");
  expect(await dryRun("deed", args({}))).toBe("HALTED");
  await world.lift(halt);
});
