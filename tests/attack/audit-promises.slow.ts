import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { type RunningService, startService } from "../../src/cli/service.ts";
import { defineTool } from "../../src/index.ts";
import { keys } from "../audit/support/chained-log.ts";
import { createWorld, draftOf, errorWith, MIDNIGHT, outcomes, playDisk } from "../audit/support/open.ts";
import { auditEntries, dayFilesText, journalEntries, parseLines } from "../support/audit-files.ts";
import { readConfig } from "../support/build.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { runStc } from "../support/stc.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

/** What docs/audit.md promises, by how each promise begins. */
const PROMISES = [
  "No result before its entry is on disk",
  "One line per call",
  "Nothing acknowledged is lost",
  "Tampering is found",
  "No secret is in it",
] as const;

test("docs/audit.md promises what is tested here, and nothing else", () => {
  const page = fs.readFileSync(join(PROJECT, "docs/audit.md"), "utf8");
  const [, section = ""] = /\n## What is promised\n(.*?)\n## /s.exec(page) ?? [];
  const bullets = section.split("\n").filter((line) => line.startsWith("- "));
  expect(bullets.map((line) => PROMISES.find((promise) => line.startsWith(`- ${promise}`)) ?? line)).toEqual([
    ...PROMISES,
  ]);
});

/** A running service whose one tool looks at the audit from within. */
class Stand {
  readonly folder = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "stc-promises-")));
  readonly dir = join(this.folder, "audit");
  readonly issuers = new LiveIssuers();
  /** For each run of the tool: the intents in the journal at that moment. */
  readonly seen: number[] = [];
  #service: RunningService | undefined;

  get url(): string {
    return this.#service?.url ?? "";
  }

  async start(): Promise<void> {
    const change = defineTool({
      name: "case_change",
      description: "Looks at the journal while it runs",
      classification: "write",
      category: "network",
      permissions: { required: ["case:run"] },
      approval: { needsApproval: () => false },
      input: z.strictObject({ text: z.string().max(100) }),
      handler: ({ text }) => {
        this.seen.push(journalEntries(this.dir).filter(({ type }) => type === "intent").length);
        return Promise.resolve({ said: text });
      },
      output: z.strictObject({ said: z.string() }),
      outputPolicy: { said: "allow" },
    });
    const keyFile = join(this.folder, "checkpoints.pem");
    fs.writeFileSync(keyFile, keys.privateKey.export({ type: "pkcs8", format: "pem" }), { mode: 0o600 });
    const written = {
      server: { port: 0, drainTimeoutMs: 50 },
      tools: [change],
      audit: { dir: this.dir, checkpointKeyFile: keyFile },
      jwt: { issuers: this.issuers.profiles() },
      log: { level: "silent" },
    };
    this.#service = await startService(readConfig(written, { folder: this.folder, environment: {}, origin: "test" }));
  }

  async call(body: string, kind: "good" | "none" = "good"): Promise<{ status: number; traceId: string }> {
    const authorization = await this.issuers.authorization({ kind, sub: "agent-7", permissions: ["case:run"] });
    const headers = { "content-type": "application/json", ...(authorization !== undefined && { authorization }) };
    const answer = await fetch(`${this.url}/call`, { method: "POST", headers, body });
    return { status: answer.status, traceId: ((await answer.json()) as { traceId: string }).traceId };
  }

  async stop(): Promise<void> {
    await this.#service?.drain();
    this.#service = undefined;
  }
}

const GOOD = '{"tool":"case_change","args":{"text":"hello"}}';

let stand: Stand;
beforeEach(async () => {
  stand = new Stand();
  await stand.start();
});
afterEach(async () => {
  await stand.stop();
  fs.rmSync(stand.folder, { recursive: true, force: true });
});

describe(PROMISES[0], () => {
  test("No result before its entry is on disk; no change before its intent is", async () => {
    for (let call = 1; call <= 20; call += 1) {
      const { status, traceId } = await stand.call(GOOD);
      expect([status, auditEntries(stand.dir).at(-1)?.traceId]).toEqual([200, traceId]);
      expect(stand.seen).toHaveLength(call);
      expect(stand.seen.at(-1)).toBe(call);
    }
  });

  test("When a line cannot be written, calls are refused before they run and /readyz says so", async () => {
    expect((await fetch(`${stand.url}/readyz`)).status).toBe(200);
    await stand.call(GOOD);
    for (const name of fs.readdirSync(stand.dir)) if (name.endsWith(".jsonl")) fs.rmSync(join(stand.dir, name));
    await until("a refusal", async () => ((await stand.call(GOOD)).status === 503 ? true : undefined));
    const runs = stand.seen.length;
    for (let call = 0; call < 5; call += 1) expect((await stand.call(GOOD)).status).toBe(503);
    expect(stand.seen).toHaveLength(runs);
    expect((await fetch(`${stand.url}/readyz`)).status).toBe(503);
  });
});

describe(PROMISES[1], () => {
  test("One line per call, numbered without gaps (seq)", async () => {
    const bodies = [GOOD, "{", '{"tool":"nobody","args":{}}', '{"tool":"case_change","args":{"text":7}}'];
    const calls = Array.from({ length: 80 }, (_, index) => stand.call(bodies[index % bodies.length] ?? ""));
    const traceIds = (await Promise.all(calls)).map(({ traceId }) => traceId);
    const entries = auditEntries(stand.dir);
    expect(entries.map(({ traceId }) => traceId).sort()).toEqual(traceIds.sort());
    expect(entries.map(({ seq }) => seq)).toEqual(entries.map((_, index) => index));
  });

  test("Unauthenticated refusals beyond 60 a minute from one source are summed into one line with a count", async () => {
    await Promise.all(Array.from({ length: 150 }, () => stand.call(GOOD, "none")));
    await stand.stop();
    const entries = auditEntries(stand.dir);
    expect(entries.length).toBeLessThan(125);
    expect(entries.reduce((sum, { count = 1 }) => sum + count, 0)).toBe(150);
    expect(entries.every(({ caller }) => caller.sub === "anonymous")).toBe(true);
  });
});

describe(PROMISES[2], () => {
  test("Nothing acknowledged is lost: not by kill -9. A call that a crash cut off gets its line at the next start", async () => {
    const world = createWorld();
    const child = Bun.spawn([process.execPath, join(PROJECT, "tests/audit/support/append-forever.ts"), world.dir], {
      stdout: "pipe",
    });
    let text = "";
    for await (const chunk of child.stdout) {
      text += new TextDecoder().decode(chunk);
      if (text.length > 2_000) child.kill("SIGKILL");
    }
    const log = world.open();
    await log.journal({ type: "intent", traceId: "t-cut", tool: "bash" });
    // As after a kill: the directory at this moment.
    const after = createWorld();
    fs.cpSync(world.dir, after.dir, { recursive: true });
    after.open();
    await after.stop();
    const lines = parseLines(dayFilesText(after.dir)) as readonly { traceId: string; error?: { code: string } }[];
    const written = new Set(lines.map(({ traceId }) => traceId));
    const acknowledged = text.split("\n").slice(0, -1);
    expect(acknowledged.length).toBeGreaterThan(10);
    expect(acknowledged.filter((traceId) => !written.has(traceId))).toEqual([]);
    expect(lines.at(-1)).toMatchObject({ traceId: "t-cut", error: { code: "OUTCOME_UNKNOWN" } });
    await Promise.all([world.end(), after.end()]);
  });

  test("Nothing acknowledged is lost: not by a full disk", async () => {
    const world = createWorld();
    let room = 4_000;
    const write = (fd: number, bytes: Uint8Array, offset: number): number => {
      const count = Math.min(room, bytes.length - offset);
      if (count === 0) throw errorWith("ENOSPC");
      room -= count;
      return fs.writeSync(fd, bytes, offset, count);
    };
    const log = world.open(playDisk({ write }));
    const ids = Array.from({ length: 30 }, (_, call) => `t-${call}`);
    const answers: string[] = [];
    for (const id of ids) answers.push(...(await outcomes([log.append(draftOf(id))])));
    await world.stop();
    const acknowledged = ids.filter((_, index) => answers[index] === "ok");
    expect(acknowledged.length).toBeGreaterThan(1);
    expect(acknowledged.length).toBeLessThan(ids.length);
    expect(world.lines("2026-02-16.jsonl").map((line) => line["traceId"])).toEqual(acknowledged);
    await world.end();
  });

  test("Nothing acknowledged is lost: not over midnight, nor by a clock that goes back", async () => {
    const world = createWorld();
    const log = world.open();
    const appended: Promise<unknown>[] = [];
    for (const [index, ms] of [-2, -1, 0, 1, -3_600_000, 2, 86_400_000 * 400].entries()) {
      world.now = MIDNIGHT + ms;
      appended.push(log.append(draftOf(`t-${index}`)));
    }
    await Promise.all(appended);
    await world.stop();
    const files = fs
      .readdirSync(world.dir)
      .filter((name) => name.endsWith(".jsonl"))
      .sort();
    expect(files).toEqual(["2026-02-16.jsonl", "2026-02-17.jsonl", "2027-03-24.jsonl"]);
    const lines = files.flatMap((name) => world.lines(name));
    expect(lines.map((line) => line["traceId"])).toEqual(appended.map((_, index) => `t-${index}`));
    const stamps = lines.map((line) => String(line["timestamp"]));
    expect(stamps).toEqual(stamps.toSorted());
    await world.end();
  });
});

describe(PROMISES[3], () => {
  test("Tampering is found, offline, with the directory and the public key alone", async () => {
    for (let call = 0; call < 5; call += 1) await stand.call(GOOD);
    await stand.stop();
    const copy = join(stand.folder, "copy");
    fs.cpSync(stand.dir, copy, { recursive: true });
    fs.rmSync(join(copy, ".state"), { recursive: true });
    const publicKey = join(stand.folder, "public.pem");
    fs.writeFileSync(publicKey, keys.publicKey.export({ type: "spki", format: "pem" }));
    const verify = () => runStc(["audit", "verify", "--dir", copy, "--key", publicKey], { cwd: copy });
    expect(await verify()).toMatchObject({ code: 0, out: expect.stringMatching(/ok\n$/) });
    const [name = ""] = fs.readdirSync(copy).filter((file) => file.endsWith(".jsonl"));
    const text = fs.readFileSync(join(copy, name), "utf8");
    fs.writeFileSync(join(copy, name), text.replace("agent-7", "agent-8"));
    expect(await verify()).toMatchObject({ code: 1, out: expect.stringContaining(`changed: ${name}, line 1 (seq 0)`) });
    fs.writeFileSync(join(copy, name), text.split("\n").slice(0, -2).join("\n").concat("\n"));
    expect(await verify()).toMatchObject({ code: 3, out: expect.stringContaining(`cut off: ${name}, line 4`) });
  });
});

describe(PROMISES[4], () => {
  test("No secret is in it: nothing of a target's answer, and no argument that no policy names", async () => {
    await stand.call('{"tool":"case_change","args":{"text":"said by nobody else"}}');
    await stand.stop();
    for (const name of fs.readdirSync(stand.dir, { recursive: true })) {
      const path = join(stand.dir, String(name));
      if (fs.statSync(path).isFile()) expect(fs.readFileSync(path, "utf8")).not.toContain("said by nobody else");
    }
  });
});
