import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import type { AuditLog } from "../../src/audit/audit-log.ts";
import { readPublicKey } from "../../src/audit/chain/signed-note.ts";
import type { JournalLine } from "../../src/audit/journal/journal.ts";
import { LogVerifier } from "../../src/audit/verify/log-verifier.ts";
import { createServer } from "../../src/http/server.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import { keys, linesOf, rehashed, writeLines } from "../audit/support/chained-log.ts";
import { createWorld, draftOf, type World } from "../audit/support/open.ts";
import { OPERATORS_AUDIENCE, OPERATORS_ISSUER } from "../support/live-tokens.ts";
import { agentsProfile, goodClaims, issueToken, makeSigningKey, NOW_SECONDS } from "../support/tokens.ts";
import { endpointsWith, serverParts } from "./server-parts.ts";

const DAY = "2026-02-16.jsonl";
const operators = makeSigningKey("ES256", "operators-1");

let world: World;
let log: AuditLog;
beforeEach(async () => {
  world = createWorld();
  log = open();
  await write("t", 20);
});
afterEach(() => world.end());

const open = (): AuditLog => world.open({ checkpointKey: keys.privateKey, checkpointIntervalMs: 1 });

async function write(name: string, count: number): Promise<void> {
  for (let call = 0; call < count; call += 1) {
    await log.journal({ type: "intent", traceId: `${name}-${call}`, tool: "bash" });
    await log.append(draftOf(`${name}-${call}`));
  }
}

function edit(file: string, change: (lines: string[]) => readonly string[]): void {
  const path = join(world.dir, file);
  const before = fs.readFileSync(path);
  const lines = linesOf(path);
  writeLines(path, change(lines));
  if (fs.readFileSync(path).equals(before)) throw new Error("nothing was changed");
}

const verifierOf = (): LogVerifier =>
  new LogVerifier({ dir: world.dir, keys: [keys.publicKey], clock: () => world.now });
const always = (): boolean => true;
const never = (): boolean => false;

describe("the log of a running service", () => {
  test("verifies while it is written, and later lines are read as well", async () => {
    const verifier = verifierOf();
    expect(await verifier.status(always)).toMatchObject({ ok: true, more: false, streams: [{ lines: 20 }, {}] });
    await write("u", 5);
    fs.appendFileSync(join(world.dir, DAY), '{"timestamp"');
    expect(await verifier.status(always)).toMatchObject({ ok: true, streams: [{ lines: 25, tornBytes: 12 }, {}] });
  });

  test.each<readonly [string, () => void, string]>([
    [
      "a changed line",
      () => edit(DAY, (lines) => lines.with(3, lines[3]?.replace("agent-1", "agent-2") ?? "")),
      "changed",
    ],
    ["a line that is gone", () => edit(DAY, (lines) => lines.toSpliced(5, 1)), "removed"],
    ["a line put in", () => edit(DAY, (lines) => lines.toSpliced(5, 0, "{}")), "inserted"],
    ["an end that is gone", () => edit(DAY, (lines) => lines.slice(0, 4)), "cut off"],
    ["a file that is gone", () => fs.rmSync(join(world.dir, DAY)), "cut off"],
    [
      "the last line made anew",
      () => edit(DAY, (lines) => lines.with(-1, rehashed(lines.at(-1)?.replace("agent-1", "agent-2") ?? ""))),
      "checkpoint mismatch",
    ],
  ])("%s is found, though all of it was valid before", async (_name, harm, kind) => {
    await world.stop();
    const verifier = verifierOf();
    expect(await verifier.status(always)).toMatchObject({ ok: true });
    harm();
    const { ok, streams = [] } = await verifier.status(always);
    expect([ok, streams[0]?.damage?.kind]).toEqual([false, kind as "gap"]);
  });

  test("a forged signature is found", async () => {
    const other = new LogVerifier({ dir: world.dir, keys: [], clock: () => world.now });
    await world.stop();
    const notes = join(world.dir, "checkpoints/2026-02-16.txt");
    fs.writeFileSync(notes, fs.readFileSync(notes, "utf8").replace(/[^ ]{3}=\n\n$/, "AAA=\n\n"));
    expect(await verifierOf().status(always)).toMatchObject({
      ok: false,
      checkpoints: { damage: { kind: "bad signature" } },
    });
    expect(await other.status(always)).toMatchObject({ ok: true, checkpoints: { signed: 0 } });
  });

  test("work beyond one request's limit continues in the next; new lines come first", async () => {
    const verifier = verifierOf();
    let status = await verifier.status(never);
    expect(status).toMatchObject({ more: true, progress: { bytesInAll: expect.any(Number) } });
    expect(status.ok).toBeUndefined();
    for (let request = 0; request < 50 && status.ok === undefined; request += 1) status = await verifier.status(never);
    expect(status).toMatchObject({ ok: true, verifiedAt: new Date(world.now).toISOString() });
    await write("u", 3);
    await world.stop();
    edit(DAY, (lines) => lines.with(22, lines[22]?.replace("agent-1", "agent-2") ?? ""));
    for (let request = 0; request < 50 && status.ok === true; request += 1) status = await verifier.status(never);
    expect(status).toMatchObject({ ok: false, streams: [{ lines: 20, damage: undefined }, {}] });
    expect(status.since?.streams[0]?.damage).toMatchObject({ kind: "changed", file: DAY, line: 23 });
  });

  test("many concurrent requests share one result", async () => {
    const verifier = verifierOf();
    let pauses = 0;
    const count = (): boolean => {
      pauses += 1;
      return true;
    };
    const alone = await verifier.status(count);
    const once = pauses;
    pauses = 0;
    const answers = await Promise.all(Array.from({ length: 50 }, () => verifier.status(count)));
    expect(pauses).toBeLessThanOrEqual(once * 2);
    expect(answers.every((answer) => answer === answers[0])).toBe(true);
    expect(alone.ok).toBe(true);
  });

  test("an unreadable file is reported, without the log's path", async () => {
    await world.stop();
    fs.renameSync(join(world.dir, DAY), join(world.dir, "elsewhere"));
    fs.mkdirSync(join(world.dir, DAY));
    const { ok, fault } = await verifierOf().status(always);
    expect([ok, fault]).toEqual([false, expect.stringContaining(DAY)]);
    expect(fault).not.toContain(world.dir);
  });

  test("an empty directory, and one from before the chain", async () => {
    const empty = createWorld();
    const status = () => new LogVerifier({ dir: empty.dir, keys: [], clock: () => 0 }).status(always);
    expect(await status()).toMatchObject({ ok: true, more: false });
    writeLines(join(empty.dir, DAY), ['{"timestamp":"2026-02-16T00:00:00.000Z"}']);
    expect(await status()).toMatchObject({ ok: true, streams: [{ lines: 0, linesBefore: 1 }, {}] });
    await empty.end();
  });
});

describe("GET /audit/verify", () => {
  const journal: JournalLine[] = [];
  let app: FastifyInstance;
  let isDiskFull: boolean;
  beforeEach(async () => {
    journal.length = 0;
    isDiskFull = false;
    const clock = (): number => NOW_SECONDS * 1_000;
    const profile = { issuer: OPERATORS_ISSUER, audience: OPERATORS_AUDIENCE, operators: true };
    const parts = serverParts({
      auditDir: world.dir,
      checkpointKey: keys.publicKey,
      clock,
      callers: createCallerVerifier({ issuers: [agentsProfile([operators], profile)], clock }),
      journal: async (line) => {
        if (isDiskFull) throw new Error("disk full");
        journal.push(line);
      },
    });
    app = createServer(parts, await endpointsWith(parts));
  });
  afterEach(() => app.close());

  async function get(path: string, permissions = ["audit:read"]) {
    const claims = goodClaims({ iss: OPERATORS_ISSUER, aud: OPERATORS_AUDIENCE, sub: "auditor", permissions });
    const authorization = `Bearer ${await issueToken(operators, claims)}`;
    const answer = await app.inject({ url: path, headers: { authorization, host: "127.0.0.1" } });
    return { status: answer.statusCode, json: answer.json() };
  }

  test("operators who may read the audit get the public key, in both forms that the command line takes", async () => {
    const { status, json } = await get("/audit/keys");
    expect(status).toBe(200);
    const [{ verifierKey, publicKey, sha256 }] = json.keys;
    for (const text of [verifierKey, publicKey]) expect(readPublicKey(text).equals(keys.publicKey)).toBe(true);
    const [, base64 = ""] = /-----\n([\s\S]*)\n-----/.exec(publicKey) ?? [];
    expect(sha256).toBe(new Bun.CryptoHasher("sha256").update(base64, "base64").digest("hex"));
    expect(JSON.stringify(json)).not.toContain("PRIVATE");
    expect(journal).toMatchObject([{ type: "audit.queried", sub: "auditor" }]);
    expect((await get("/audit/keys", ["metrics:read"])).status).toBe(403);
  });

  test("answers like the command line, after a journal line", async () => {
    const { status, json } = await get("/audit/verify");
    expect(status).toBe(200);
    expect(json).toMatchObject({
      ok: true,
      more: false,
      streams: [{ stream: "calls", lines: 20 }, { stream: "journal" }],
    });
    expect(json["checkpoints"]["signed"]).toBe(json["checkpoints"]["checkpoints"]);
    expect(journal).toEqual([
      { type: "audit.queried", sub: "auditor", iss: OPERATORS_ISSUER, route: "verify", filters: {} },
    ]);
  });

  test.each<readonly [string, readonly string[], number]>([
    ["/audit/verify?from=today", ["audit:read"], 400],
    ["/audit/verify?dir=/etc", ["audit:read"], 400],
    ["/audit/verify", ["approvals:decide"], 403],
  ])("%s with %j is %d, and in no journal", async (path, permissions, status) => {
    expect((await get(path, [...permissions])).status).toBe(status);
    expect(journal).toEqual([]);
  });

  test("a query that cannot be recorded is not answered", async () => {
    isDiskFull = true;
    expect(await get("/audit/verify")).toMatchObject({ status: 503, json: { error: { code: "AUDIT_UNAVAILABLE" } } });
  });
});
