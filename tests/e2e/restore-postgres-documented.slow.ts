import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { z } from "zod";
import { defineTool } from "../../src/index.ts";
import { ConsoleStand } from "../console/console-stand.ts";
import { blockNamed } from "../support/documented.ts";
import { issuers } from "../support/identity-service.ts";
import { findInstalledPostgres, type PostgresServer, startInstalledPostgres } from "../support/postgres.ts";
import { run, runStc } from "../support/stc.ts";
import { until } from "../support/until.ts";

/** The commands of the guide, run on a real server with its own tools (Debian: `postgresql`). */
const home = findInstalledPostgres();
const PAGE = "docs/operating.md: ";
const PERMISSIONS = ["approvals:decide", "approvals:read", "grants:manage", "halts:write"];

const ran: string[] = [];
const note = defineTool({
  name: "keep_note",
  description: "Keeps a note",
  classification: "write",
  category: "write",
  permissions: { required: ["notes:use"] },
  input: z.strictObject({ text: z.string().max(100) }),
  handler: ({ text }) => {
    ran.push(text);
    return { kept: true };
  },
  output: z.strictObject({ kept: z.boolean() }),
  outputPolicy: { kept: "allow" },
});

interface Answer {
  readonly status: number;
  readonly body: {
    readonly traceId: string;
    readonly approval?: { readonly id: string };
    readonly error?: { readonly code: string };
  };
}

describe.skipIf(home === undefined)("PostgreSQL, backed up and restored as the guide says", () => {
  let folder: string;
  let server: PostgresServer;
  let number = 0;
  let database: string;
  let url: string;
  const replicas: ConsoleStand[] = [];

  beforeAll(async () => {
    server = await startInstalledPostgres(home ?? "");
  });
  afterAll(async () => {
    await server.end();
  });
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "stc-restore-"));
    ran.length = 0;
    number += 1;
    await fill(`before_${number}`);
  });
  afterEach(async () => {
    await stop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function fill(name: string): Promise<void> {
    database = name;
    url = await server.createDatabase(name);
    for (const replica of ["one", "two"]) mkdirSync(join(folder, replica), { recursive: true });
  }

  /** Both replicas, each with a volume of its own, on the database; exporters fill the store in it. */
  async function start(): Promise<void> {
    for (const replica of ["one", "two"]) {
      writeFileSync(join(folder, replica, "url"), url);
      const exporter = { type: "postgres", name: "store", urlFile: "./url" };
      replicas.push(
        await ConsoleStand.start({
          folder: join(folder, replica),
          rest: {
            tools: [note],
            audit: { dir: "./audit", durability: "write", export: [exporter] },
            approvals: { storeUrlFile: "./url" },
            instance: replica,
          },
        }),
      );
    }
  }

  async function stop(): Promise<void> {
    for (const { identity } of replicas.splice(0)) await identity.service.drain();
  }

  function at(index: number): ConsoleStand {
    const replica = replicas[index];
    if (replica === undefined) throw new Error("it does not run");
    return replica;
  }

  async function call(
    text: string,
    more: { readonly approval?: string; readonly key?: string; readonly at?: number } = {},
  ) {
    const token = await issuers.token({ kind: "good", sub: "agent-7", permissions: ["notes:use"] });
    const response = await fetch(`${at(more.at ?? 0).identity.service.url}/call`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        ...(more.key !== undefined && { "idempotency-key": more.key }),
      },
      body: JSON.stringify({
        ...{ tool: "keep_note", args: { text } },
        ...(more.approval !== undefined && { approval: { id: more.approval } }),
      }),
    });
    return { status: response.status, body: await response.json() } as Answer;
  }

  async function refusal(text: string, more: Parameters<typeof call>[1]): Promise<string | undefined> {
    return (await call(text, more)).body.error?.code;
  }

  async function asked(text: string): Promise<string> {
    const { status, body } = await call(text);
    expect(status).toBe(202);
    return body.approval?.id ?? "";
  }

  async function operate(method: string, path: string, body?: unknown): Promise<number> {
    const token = await issuers.token({ kind: "operator", sub: "alice", permissions: PERMISSIONS });
    const response = await fetch(`${at(1).identity.service.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(body !== undefined && { "content-type": "application/json" }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return response.status;
  }

  const approve = (id: string): Promise<number> =>
    operate("POST", `/approvals/${id}/decisions`, { decision: "approve" });

  /** Runs a command of the guide, with the database's name, in the folder. */
  async function documented(begin: string): Promise<void> {
    const named = new URL(url);
    const password = decodeURIComponent(named.password);
    named.password = "";
    const env = {
      DATABASE: named.href,
      PGPASSWORD: password,
      PATH: [join(home ?? "", "bin"), process.env["PATH"]].join(delimiter),
    };
    const ended = await run(["sh", "-ec", blockNamed(`${PAGE}${begin}`).text], { cwd: folder, env });
    expect([ended.err, ended.code]).toEqual(["", 0]);
  }

  const backUp = () => documented("pg_dump");

  async function restore(): Promise<void> {
    await fill(`after_${number}`);
    await documented("pg_restore");
  }

  async function afterRestore(): Promise<void> {
    writeFileSync(join(folder, "after-restore.sql"), blockNamed(`${PAGE}UPDATE approvals`).text);
    await documented("psql");
  }

  test("a move: what was decided is used once, what was used is not used again, sessions go on", async () => {
    await start();
    const [used, given, open] = [await asked("used"), await asked("given"), await asked("open")];
    expect([await approve(used), await approve(given)]).toEqual([200, 200]);
    expect((await call("used", { approval: used })).status).toBe(200);
    const halves = await at(0).signIn();
    await stop();
    await backUp();
    await restore();
    await start();

    expect(await refusal("used", { approval: used, at: 1 })).toBe("APPROVAL_CONSUMED");
    expect((await call("given", { approval: given })).status).toBe(200);
    expect(await refusal("given", { approval: given, at: 1 })).toBe("APPROVAL_CONSUMED");
    expect(await approve(open)).toBe(200);
    expect((await call("open", { approval: open, at: 1 })).status).toBe(200);
    expect(ran).toEqual(["used", "given", "open"]);
    expect((await at(1).send("/approvals", { session: halves })).status).toBe(200);
  });

  test("a failure after the backup: no approval is used twice, all calls are halted, and the volumes know what ran", async () => {
    await start();
    const [used, later] = [await asked("used"), await asked("later")];
    await approve(used);
    await approve(later);
    await call("used", { approval: used });
    const halves = await at(0).signIn();
    await backUp();
    const backedUpAt = new Date().toISOString();
    const ranLater = await call("later", { approval: later });
    expect(ranLater.status).toBe(200);
    await stop();
    await restore();
    await afterRestore();
    await start();

    expect(await refusal("later", { approval: later, at: 1 })).toBe("HALTED");
    const changes = await runStc([
      ...["audit", "query", "--json", "--decision", "ALLOWED", "--classification", "write", "--from", backedUpAt],
      ...["--dir", join(folder, "one/audit"), "--dir", join(folder, "two/audit")],
    ]);
    expect(changes.out).toContain(ranLater.body.traceId);
    expect(await operate("DELETE", "/halts/restored")).toBe(200);
    for (const replica of [0, 1]) {
      await until(
        "the end of the halt",
        async () => (await refusal("other", { at: replica })) !== "HALTED" || undefined,
      );
      expect(await refusal("used", { approval: used, at: replica })).toBe("APPROVAL_CONSUMED");
      expect(await refusal("later", { approval: later, at: replica })).toBe("APPROVAL_EXPIRED");
    }
    expect(ran).toEqual(["used", "later"]);
    expect((await at(1).send("/approvals", { session: halves })).status).toBe(401);
  });

  test("without the statements, an approval and a key of after the backup are used again, as the guide says", async () => {
    await start();
    const later = await asked("later");
    await approve(later);
    await backUp();
    const again = { approval: later, key: "once" };
    expect([(await call("later", again)).status, (await call("later", again)).status]).toEqual([200, 200]);
    expect(ran).toEqual(["later"]);
    await stop();
    await restore();
    await start();
    expect((await call("later", again)).status).toBe(200);
    expect(ran).toEqual(["later", "later"]);
  });

  test("the audit store has every line again, once exporters begin from the start", async () => {
    await start();
    const stored = async (answer: Answer): Promise<boolean> => {
      const statement = `SELECT 1 FROM audit_lines WHERE stream = 'calls' AND line LIKE '%${answer.body.traceId}%'`;
      return (await server.send(statement, database).catch(() => [])).length === 1;
    };
    const isStored = (answer: Answer) =>
      until("the line in the store", async () => (await stored(answer)) || undefined);
    const before = await call("before");
    await isStored(before);
    await backUp();
    const after = await call("after");
    await isStored(after);
    await stop();
    await restore();
    expect([await stored(before), await stored(after)]).toEqual([true, false]);
    for (const replica of ["one", "two"]) {
      const exports = join(folder, replica, "audit/export");
      const positions = readdirSync(exports).filter((name) => /^store\..*\.json$/.test(name));
      expect(positions.length).toBeGreaterThan(0);
      for (const name of positions) rmSync(join(exports, name));
    }
    await start();
    await isStored(after);
    expect(await stored(before)).toBe(true);
  });
});
