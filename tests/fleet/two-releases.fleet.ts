import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { POSTGRES_STEPS } from "../../src/database/schema.ts";
import { cookieIn, type Halves } from "../console/console-stand.ts";
import { journalEntries } from "../support/audit-files.ts";
import { EndingWorld } from "../support/ending-world.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { manifest } from "../support/reload-service.ts";
import { runStc, SIGNATURES_NOT_CHECKED, STC } from "../support/stc.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

/** A commit of this repository before the last change of the tables; the service of its code runs next to the one of this code. */
const OLDER = process.env["STC_OLDER_COMMIT"] ?? "2a0d6607db049786fa30ee0afddd9df4ba2dffc0";
const native = findPostgres();
const git = (...argv: readonly string[]) => spawnSync("git", ["-C", PROJECT, ...argv], { maxBuffer: 1 << 28 });
const hasHistory = git("cat-file", "-e", `${OLDER}^{commit}`).status === 0;
const reason = native === undefined ? "no PostgreSQL for this machine" : `a clone without the commit ${OLDER}`;
const isSkipped = native === undefined || !hasHistory;

/** JSON of which the tests say what they expect. */
type Loose = ReturnType<typeof JSON.parse>;
const PEOPLE = ["approvals:decide", "approvals:read", "audit:read", "halts:write"];

if (isSkipped) test.skip(`two releases on one database: ${reason}`, () => {});
else describe("two releases on one database", twoReleases);

/** One test after the other on one database: the older release makes its tables, and the newer one changes them while it runs. */
function twoReleases(): void {
  const folder = mkdtempSync(join(tmpdir(), "stc-older-"));
  const olderStc = [
    ...STC.slice(0, 2),
    `--config=${join(folder, "bunfig.toml")}`,
    STC[3],
    join(folder, "src/cli/main.ts"),
  ];
  const changes = {
    server: { port: 0, console: { port: 0 }, drainTimeoutMs: 5_000 },
    approvals: { storeUrlFile: "./url" },
  };
  const older = new EndingWorld(changes);
  const newer = new EndingWorld({ ...changes, jwt: { issuers: older.world.issuers.profiles() } });
  const both = [
    ["older", "newer", older, newer],
    ["newer", "older", newer, older],
  ] as const;
  let server: PostgresServer;
  let olderVersion: number;

  beforeAll(async () => {
    const archive = git("archive", OLDER);
    expect(spawnSync("tar", ["-x", "-C", folder], { input: archive.stdout }).status).toBe(0);
    symlinkSync(join(PROJECT, "node_modules"), join(folder, "node_modules"));
    server = await startPostgres(native ?? "");
    const url = await server.createDatabase("releases");
    for (const { world } of [older, newer]) {
      world.write("url", `${url}\n`);
      world.write(
        "tools/who.ts",
        manifest({ name: "who", classification: "write", body: "return { said: String(process.pid) };" }),
      );
    }
    await older.start(olderStc);
    olderVersion = (await schema()).version;
    await newer.start();
  });
  afterAll(async () => {
    await Promise.all([older.remove(), newer.remove()]);
    await server?.end();
    rmSync(folder, { recursive: true, force: true });
  });

  const schema = async (): Promise<Loose> => {
    const [row] = await server.send("SELECT version, min_reader FROM approval_schema", "releases");
    return Object.fromEntries(Object.entries(row ?? {}).map(([name, value]) => [name, Number(value)]));
  };
  const pidOf = (at: EndingWorld): string => String(at.child.pid);
  const consoleOf = (at: EndingWorld): string => /"consoleUrl":"([^"]+)"/.exec(at.log())?.[1] ?? "";
  const person = () => older.world.operator(PEOPLE);

  async function send(
    url: string,
    line: string,
    headers: Readonly<Record<string, string>>,
    body?: object,
  ): Promise<Loose> {
    const [method = "", path = ""] = line.split(" ");
    const response = await fetch(url + path, {
      method,
      headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { http: response.status, response, body: text.startsWith("{") ? JSON.parse(text) : undefined };
  }

  async function call(at: EndingWorld, tool: string, more: object = {}, headers = {}): Promise<Loose> {
    const authorization = `Bearer ${await older.world.agent()}`;
    return (await send(at.url, "POST /call", { authorization, ...headers }, { tool, args: {}, ...more })).body;
  }

  async function asked(at: EndingWorld): Promise<string> {
    return (await call(at, "who", { approval: "new" })).approval.id;
  }

  async function approve(at: EndingWorld, id: string): Promise<void> {
    const headers = { authorization: `Bearer ${await person()}` };
    expect((await send(consoleOf(at), `POST /approvals/${id}/decisions`, headers, { decision: "approve" })).http).toBe(
      200,
    );
  }

  test("the newer one has changed the tables, and allows the older one to use them", async () => {
    const { version, min_reader } = await schema();
    expect(version).toBe(POSTGRES_STEPS.length);
    expect(version).toBeGreaterThan(olderVersion);
    expect(min_reader).toBeLessThanOrEqual(olderVersion);
  });

  test.each(both)("asked at the %s, decided at the %s, claimed at either, once", async (_one, _other, one, other) => {
    for (const claimer of [one, other]) {
      const id = await asked(one);
      await approve(other, id);
      expect((await call(claimer, "who", { approval: { id } })).result.said).toBe(pidOf(claimer));
      for (const at of [one, other])
        expect((await call(at, "who", { approval: { id } })).error.code).toBe("APPROVAL_CONSUMED");
    }
  });

  test.each(both)("an Idempotency-Key of the %s gets its answer at the %s", async (name, _other, one, other) => {
    const key = { "idempotency-key": `of-the-${name}` };
    const { approval } = await call(one, "who", {}, key);
    await approve(one, approval.id);
    for (const at of [one, other]) expect((await call(at, "who", {}, key)).result.said).toBe(pidOf(one));
  });

  test.each(both)(
    "a halt that is set at the %s is in force at the %s, and lifted there",
    async (_one, _other, one, other) => {
      const headers = { authorization: `Bearer ${await person()}` };
      const set = await send(consoleOf(one), "POST /halts", headers, { kind: "tool", tool: "hello", reason: "drill" });
      expect(set.http).toBe(201);
      const code = async (at: EndingWorld) => (await call(at, "hello")).error?.code;
      await until("the halt", async () => ((await code(other)) === "HALTED" ? true : undefined));
      expect((await send(consoleOf(other), `DELETE /halts/${set.body.halt.id}`, headers)).http).toBe(200);
      await until("the end of the halt", async () => ((await code(one)) === undefined ? true : undefined));
    },
  );

  test.each(both)(
    "a console session that was opened at the %s is one at the %s, which ends it",
    async (_one, _other, one, other) => {
      const { cookie, key } = await signIn(one);
      const status = async (at: EndingWorld, method = "GET") => {
        const own = method === "GET" ? {} : { origin: consoleOf(at) };
        const headers = {
          "sec-fetch-site": "same-origin",
          cookie: `stc_console=${cookie}`,
          "stc-console-key": key,
          ...own,
        };
        return (await send(consoleOf(at), `${method} /console/session`, headers)).http;
      };
      for (const at of [one, other]) expect(await status(at)).toBe(200);
      expect(await status(other, "DELETE")).toBeLessThan(300);
      for (const at of [one, other]) expect(await status(at)).toBe(401);
    },
  );

  async function signIn(at: EndingWorld): Promise<Halves> {
    const headers = { "sec-fetch-site": "same-origin", origin: consoleOf(at) };
    const { response, body } = await send(consoleOf(at), "POST /console/session", headers, { token: await person() });
    return { key: body.key, cookie: cookieIn(response, "stc_console") };
  }

  test("the older one starts again on the changed tables, as after a rollback, and continues what both have", async () => {
    const approved = await asked(older);
    await approve(newer, approved);
    const pending = await asked(newer);
    expect((await older.end("SIGTERM")).code).toBe(0);
    await older.start(olderStc);
    await approve(older, pending);
    for (const id of [approved, pending]) {
      expect((await call(older, "who", { approval: { id } })).result.said).toBe(pidOf(older));
    }
  });

  test("a call that the older one was running when it was killed is in doubt when the newer one has its audit", async () => {
    const key = { "idempotency-key": "killed" };
    const stuck = call(older, "stuck_write", {}, key).catch(() => undefined);
    await until("the change to run", () =>
      journalEntries(older.auditDir).some(({ type, tool }) => type === "intent" && tool === "stuck_write")
        ? true
        : undefined,
    );
    await older.end("SIGKILL");
    await stuck;
    await older.start();
    for (const at of [older, newer])
      expect((await call(at, "stuck_write", {}, key)).error.code).toBe("OUTCOME_UNKNOWN");
    for (const { auditDir } of [older, newer]) {
      const { code, err } = await runStc(["audit", "verify", "--dir", auditDir]);
      expect({ code, err }).toEqual({ code: SIGNATURES_NOT_CHECKED, err: "" });
    }
  });
}
