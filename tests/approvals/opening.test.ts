import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { dirname, join } from "node:path";
import { openApprovals } from "../../src/approvals/approvals.ts";
import type { Requirement } from "../../src/approvals/approver-policies/requirement.ts";
import { SQLITE_STEPS } from "../../src/database/schema.ts";
import { MODULES } from "../../src/modules.ts";
import { AGENT, type ApprovalWorld, askFor, createApprovalWorld, LIMITS, OPERATOR } from "../support/approvals.ts";

let world: ApprovalWorld;
beforeEach(() => {
  world = createApprovalWorld();
});
afterEach(() => world.end());

const modeOf = (path: string): string => (fs.statSync(path).mode & 0o777).toString(8);

async function sqlite(path: string, ...statements: readonly string[]): Promise<void> {
  const sql = new Bun.SQL({ adapter: "sqlite", filename: path });
  for (const statement of statements) await sql.unsafe(statement);
  await sql.close();
}

test("the file, the files next to it and its directory are accessible to us alone", async () => {
  const path = join(world.dir, "a", "b", "approvals.sqlite");
  const before = process.umask(0);
  const store = await openApprovals({ ...options(path) }).finally(() => process.umask(before));
  await askFor(store);
  expect(fs.readdirSync(dirname(path)).sort()).toEqual([
    "approvals.sqlite",
    "approvals.sqlite-shm",
    "approvals.sqlite-wal",
  ]);
  for (const name of fs.readdirSync(dirname(path))) expect(modeOf(join(dirname(path), name))).toBe("600");
  expect([modeOf(dirname(path)), modeOf(join(world.dir, "a"))]).toEqual(["700", "700"]);
  await store.close();
  expect(fs.readdirSync(dirname(path))).toEqual(["approvals.sqlite"]);
});

test("a file that others could read is no longer accessible to them", async () => {
  await (await world.open()).close();
  fs.chmodSync(world.path, 0o664);
  const store = await world.open();
  await askFor(store);
  expect([modeOf(world.path), modeOf(`${world.path}-wal`)]).toEqual(["600", "600"]);
});

test("it stores NUL like any other text", async () => {
  const store = await world.open();
  const { id } = await askFor(store, { requester: { ...AGENT, subject: "a\0b" } });
  expect(await store.get(id)).toMatchObject({ requester: { subject: "a\0b" } });
  expect((await store.list({ requester: { issuer: AGENT.issuer, subject: "a" }, limit: 5 })).approvals).toEqual([]);
});

test("it keeps a write-ahead log", async () => {
  const store = await world.open();
  await askFor(store);
  await store.close();
  // The write-ahead log is in the file's header: bytes 18 and 19 are 2.
  expect([...fs.readFileSync(world.path).subarray(18, 20)]).toEqual([2, 2]);
});

function options(path: string) {
  return {
    stores: MODULES.approvalStores,
    url: `sqlite://${path}`,
    now: () => world.now,
    newId: () => Bun.randomUUIDv7(),
    newToken: () => Bun.randomUUIDv7(),
    journal: async () => {},
    limits: LIMITS,
  };
}

test.each([
  ["mysql://user:secret@db/approvals"],
  ["sqlite://relative.sqlite"],
  ["sqlite://./relative.sqlite"],
  ["sqlite:///with?query"],
  ["sqlite:///with\0nul"],
  ["sqlite::memory:"],
  ["/a/path"],
  [""],
])("%j is not a store URL", async (url) => {
  const failed = openApprovals({ ...options(""), url });
  await expect(failed).rejects.toThrow("must be named as sqlite:///absolute/path.sqlite");
  await expect(failed).rejects.not.toThrow("secret");
});

const REFUSED: readonly (readonly [title: string, make: (path: string) => unknown, message: string])[] = [
  ["text", (path) => fs.writeFileSync(path, "not a database at all\n".repeat(100)), "is not a database: name another"],
  ["a directory", (path) => fs.mkdirSync(path), "is not a regular file"],
  ["a symbolic link", (path) => fs.symlinkSync("/etc/passwd", path), "is not a regular file"],
  ["somebody else's database", (path) => sqlite(path, "CREATE TABLE theirs (id TEXT)"), "database of another program"],
  ["a broken version", (path) => sqlite(path, "CREATE TABLE approval_schema (version TEXT)"), "is damaged"],
  [
    "a newer version",
    (path) => sqlite(path, "CREATE TABLE approval_schema (version INTEGER)", "INSERT INTO approval_schema VALUES (99)"),
    `newer version of this service (schema 99, for versions that know 99; this one knows ${SQLITE_STEPS.length})`,
  ],
];

describe.each(REFUSED)("%s", (_title, make, message) => {
  test("is refused with its name and a remedy, and stays unchanged", async () => {
    await make(world.path);
    const before = fs.statSync(world.path).isFile() ? fs.readFileSync(world.path) : undefined;
    const failed = world.open();
    await expect(failed).rejects.toThrow(message);
    await expect(failed).rejects.toThrow(`approvals store ${world.path}: `);
    if (before !== undefined) expect(fs.readFileSync(world.path)).toEqual(before);
  });
});

test.each([1, 2])("a file of version %d is migrated to the current one with its contents", async (version) => {
  await sqlite(world.path, ...SQLITE_STEPS.slice(0, version), `UPDATE approval_schema SET version = ${version}`);
  const columns = "id, state, version, issuer, subject, actors, session, tool, category, classification, risk, rules";
  const more = "plan_digest, view, view_digest, summary, scopes, trace_id, created_at, decide_by";
  await sqlite(
    world.path,
    `INSERT INTO approvals (${columns}, ${more}) VALUES ('old', 'pending', 1, '${AGENT.issuer}', '${AGENT.subject}', '[]', 'sid-1',
      'deploy', 'write', 'write', 'low', '[]', 'p', '{}', 'v', 's', '["once"]', 't', ${world.now}, ${world.now + 60_000})`,
  );
  const store = await world.open();
  expect(await store.get("old")).toMatchObject({ requirement: undefined, votes: [] });
  const claim = { id: "old", requester: AGENT, planDigest: "p" };
  expect((await store.decide({ id: "old", by: OPERATOR, decision: "approve" })).outcome).toBe("decided");
  // A policy that came with the release was not asked about.
  expect((await store.claim({ ...claim, requirementDigest: "f".repeat(64) })).outcome).toBe("mismatch");
  expect((await store.claim(claim)).outcome).toBe("claimed");
});

const NEEDS: Requirement = {
  ...{ digest: "d".repeat(64), reasonRequired: "never", scopes: ["once"], callback: false },
  policies: [{ name: "two", distinctPeople: true, stages: [{ name: "s", count: 2, deciders: { permissions: [] } }] }],
};

test.each([
  ["requirement = NULL"],
  ["requirement = '{}'"],
  ["requirement = 'no JSON'"],
  ["requirement = replace(requirement, '\"count\":2', '\"count\":0')"],
  ["requirement = replace(requirement, 'dddd', 'eeee')"],
  ["requirement_digest = ''"],
  ["votes = '[{}]'"],
  ["votes = 'no JSON'"],
])("APR-63: where %s nobody can approve, and nothing runs", async (damage) => {
  const store = await world.open();
  const { id, planDigest } = await askFor(store, { requirement: NEEDS });
  const [anna, bert] = [{ issuer: "i", subject: "anna" }, OPERATOR];
  await store.decide({ id, by: anna, decision: "approve" });
  await sqlite(world.path, `UPDATE approvals SET ${damage}`);
  await expect(store.decide({ id, by: bert, decision: "approve" })).rejects.toThrow();
  await sqlite(world.path, `UPDATE approvals SET state = 'approved', execute_by = ${world.now + 60_000}`);
  for (const requirementDigest of [NEEDS.digest, ""]) {
    const claiming = store.claim({ id, requester: AGENT, planDigest, requirementDigest });
    expect(await claiming.then(({ outcome }) => outcome, String)).not.toBe("claimed");
  }
});

test("APR-51: an approval that an older release gave by itself does not run", async () => {
  const store = await world.open();
  const { id, planDigest } = await askFor(store, { requirement: NEEDS });
  await store.decide({ id, by: OPERATOR, decision: "approve" });
  await sqlite(world.path, `UPDATE approvals SET state = 'approved', execute_by = ${world.now + 60_000}`);
  const claim = { id, requester: AGENT, planDigest, requirementDigest: NEEDS.digest };
  await expect(store.claim(claim)).rejects.toThrow("was approved by fewer people than its policies require");
  expect((await store.get(id))?.state).toBe("approved");
});

test.each([
  ["everywhere", 4],
  ["at its end", -8],
])("a file that is damaged %s is refused", async (_title, page) => {
  const store = await world.open({ pendingPerCallerMax: 1_000, pendingPerSessionMax: 1_000 });
  for (let index = 0; index < 100; index += 1) await askFor(store, { planDigest: `${index}` });
  await store.close();
  const bytes = fs.readFileSync(world.path);
  fs.writeFileSync(world.path, bytes.fill(0x5a, 4_096 * (page < 0 ? bytes.length / 4_096 + page : page)));
  await expect(world.open()).rejects.toThrow("is damaged: restore it from a backup");
});

test("an impossible path is refused", async () => {
  fs.writeFileSync(join(world.dir, "file"), "");
  const path = join(world.dir, "file", "approvals.sqlite");
  await expect(openApprovals(options(path))).rejects.toThrow(`approvals store ${path}: cannot be opened or written`);
});

test.skipIf(process.getuid?.() === 0)("a path without write permission is refused", async () => {
  fs.chmodSync(world.dir, 0o500);
  await expect(world.open()).rejects.toThrow("make the file and its directory writable");
  fs.chmodSync(world.dir, 0o700);
});

test("a failed opening because of the journal leaves nothing open", async () => {
  const store = await world.open();
  const { id, decideBy } = await askFor(store);
  await store.close();
  world.now = decideBy;
  world.journal = () => Promise.reject(new Error("disk full"));
  await expect(world.open()).rejects.toThrow("disk full");
  world.journal = undefined;
  expect((await (await world.open()).get(id))?.state).toBe("expired");
});

test("many processes open one new file at once", async () => {
  const stores = await Promise.all(Array.from({ length: 5 }, () => world.open()));
  const asked = await Promise.all(stores.map((store) => askFor(store)));
  expect(new Set(asked.map(({ id }) => id)).size).toBe(1);
});
