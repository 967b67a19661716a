import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { AskingService, type CallExtras, type Loose, type Reply } from "../../support/asking-service.ts";
import { blocksOf } from "../../support/documented.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { RunningStc, runStc } from "../../support/stc.ts";
import { until } from "../../support/until.ts";

const blocks = blocksOf("docs/sql.md");
const yaml = blocks.filter(({ language }) => language === "yaml").map(({ text }) => text);
const [settings = ""] = yaml;
const [manifest = "", change = ""] = yaml.filter((text) => text.includes("classification:"));
const [role = ""] = blocks.filter(({ language }) => language === "sql").map(({ text }) => text);
const commands = blocks.filter(({ text }) => text.startsWith("stc import sql")).map(({ text }) => text.trim());

const TABLES = `CREATE TABLE customers (id bigint PRIMARY KEY, email text);
CREATE TABLE orders (id bigint PRIMARY KEY, customer_id bigint REFERENCES customers, status text NOT NULL,
  total numeric(12, 2) NOT NULL, placed_at timestamptz NOT NULL);
CREATE TABLE staff (id bigint PRIMARY KEY, salary integer);
INSERT INTO customers VALUES (7, 'ann@example.com'), (8, NULL);
INSERT INTO orders SELECT 9007199254740990 + n, 7, CASE n % 2 WHEN 0 THEN 'open' ELSE 'sent' END, n * 1.05, '2026-11-28 14:02:11.123456+01'
  FROM generate_series(1, 60) AS n;`;

/** The service of the guide, with the guide's database. */
class GuideService extends AskingService {
  server: PostgresServer | undefined;
  #systems: Loose;

  async start(native: string): Promise<void> {
    this.server = await startPostgres(native);
    await this.server.createDatabase("shop");
    await this.server.send(TABLES, "shop");
    await this.server.send(role, "shop");
    for (const folder of ["tools", "secrets"]) mkdirSync(join(this.folder, folder));
    writeFileSync(join(this.folder, "secrets/shop-reader"), "change-me\n");
    writeFileSync(join(this.folder, "secrets/shop-writer"), "change-me-too\n");
    writeFileSync(join(this.folder, "tools/orders.tool.yaml"), manifest);
    writeFileSync(join(this.folder, "tools/cancel.tool.yaml"), change);
    const write = { ...parse(change), name: "orders_set_cancelled", classification: "write" };
    writeFileSync(join(this.folder, "tools/set.tool.yaml"), stringify(write));
    const { systems } = parse(settings);
    expect(systems.shop.sql.url).toBe("postgres://db.internal:5432/shop");
    // The guide's database is in an internal network; this one is on this host.
    systems.shop.sql.url = `postgres://127.0.0.1:${this.server.port}/shop`;
    delete systems.shop.sql.tls;
    this.#systems = systems;
    await this.run({ tools: ["tools"], systems, approvals: { store: "sqlite://approvals.sqlite" } });
  }

  /** The guide's commands, and a folder where they can run: its systems, and no tools. */
  importing(): { readonly text: readonly string[]; readonly cwd: string } {
    const cwd = join(this.folder, "importing");
    for (const folder of ["tools", "queries"]) mkdirSync(join(cwd, folder), { recursive: true });
    writeFileSync(join(cwd, "queries/newest_orders.sql"), "select id, status from orders order by id desc");
    const systems = structuredClone(this.#systems);
    for (const user of ["read", "write"])
      systems.shop.sql[user].passwordFile = `../${systems.shop.sql[user].passwordFile}`;
    const issuer = {
      issuer: "https://issuer.test",
      audience: "stc",
      algorithms: ["EdDSA"],
      jwksUri: "https://issuer.test/jwks.json",
    };
    const others = {
      audit: { dir: "audit" },
      approvals: { store: "sqlite://approvals.sqlite" },
      jwt: { issuers: [issuer] },
    };
    writeFileSync(join(cwd, "stc.yaml"), stringify({ tools: ["tools"], systems, ...others }));
    return { text: commands, cwd };
  }

  async call(args: unknown, tool = "orders_of_customer", { approval }: CallExtras = {}): Promise<Reply> {
    const token = await this.agent({ permissions: ["orders:read", "orders:write"] });
    return this.send("POST", "/call", { token, body: { tool, args, ...(approval && { approval }) } });
  }

  override async end(): Promise<void> {
    await super.end();
    await this.server?.end();
  }
}

const native = findPostgres();

describe.skipIf(native === undefined)("the guide's database", () => {
  const service = new GuideService();
  beforeAll(() => service.start(native ?? ""));
  afterAll(() => service.end());

  test("answers with exact values, masked as the system's columns say", async () => {
    const { http, body } = await service.call({ customer: "7" });
    expect([http, body.result?.truncated, body.result?.rows?.length]).toEqual([200, true, 50]);
    expect(body.result.rows[0]).toEqual({
      ...{ id: "9007199254741050", status: "open", total: "63.00", placed_at: "2026-11-28 13:02:11.123456+00" },
      contact: expect.not.stringContaining("ann"),
    });
    expect(service.entry(body.traceId)).toMatchObject({ decision: "ALLOWED", tool: { targetSystem: "shop" } });
  });

  test("a change shows what it would change, runs when it is approved, and has its transaction in the journal", async () => {
    const asked = await service.call({ customer: "7" }, "orders_cancel_open");
    expect(asked.http).toBe(202);
    const { id } = asked.body.approval;
    const view = await service.send("GET", `/approvals/${id}`, { token: await service.person() });
    const shown = JSON.stringify(view.body);
    expect(shown).toContain('"matches":30');
    expect(shown).toContain("update orders set status");
    const { viewHash } = view.body;
    expect((await service.decide(id, "approve", { viewHash })).http).toBe(200);
    const { body } = await service.call({ customer: "7" }, "orders_cancel_open", { approval: { id } });
    expect(body.result).toMatchObject({ changed: 30 });
    expect(body.result.rows).toHaveLength(30);
    const lines = service.journal().filter(({ type }) => type === "change.prepared");
    expect(lines).toMatchObject([{ traceId: body.traceId, system: "shop", changed: 30 }]);
  });

  test("a change waits for a person, although its tool is not destructive", async () => {
    const { http, body } = await service.call({ customer: "8" }, "orders_set_cancelled");
    expect([http, body.status]).toEqual([202, "pending"]);
    expect(service.entry(body.traceId)).toMatchObject({ decision: "PENDING" });
  });

  test("a change that meets a conflict has not happened, as the audit says, and may be made again", async () => {
    const shop = (statement: string) => service.server?.send(statement, "shop");
    await shop(`CREATE FUNCTION conflicts() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION USING ERRCODE = ''40001''; END';
CREATE TRIGGER conflicts BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION conflicts();
INSERT INTO orders VALUES (1, 8, 'open', 1, now())`);
    const approved = async (): Promise<Reply> => {
      const { body } = await service.call({ customer: "8" }, "orders_set_cancelled");
      const { id } = body.approval;
      const { viewHash } = (await service.send("GET", `/approvals/${id}`, { token: await service.person() })).body;
      await service.decide(id, "approve", { viewHash });
      return service.call({ customer: "8" }, "orders_set_cancelled", { approval: { id } });
    };
    const { http, body } = await approved();
    expect([http, body.error]).toEqual([
      503,
      {
        ...{ code: "TARGET_UNAVAILABLE", stage: "EXECUTION", retryable: true, retryAfterMs: 1_000 },
        message: "Another transaction was in the way. Nothing was changed; call again.",
        details: { status: "ABORTED", outcome: "not_run" },
      },
    ]);
    expect(service.entry(body.traceId)).toMatchObject({ decision: "ERROR", error: { code: "TARGET_UNAVAILABLE" } });
    expect(
      service.journal().filter(({ type, traceId }) => type === "change.prepared" && traceId === body.traceId),
    ).toEqual([]);
    await shop("DROP TRIGGER conflicts ON orders");
    expect((await approved()).body.result).toMatchObject({ changed: 1 });
  });

  test("tables and statements are imported with the commands of the guide, and load", async () => {
    const { text, cwd } = service.importing();
    for (const command of text) {
      const { code, err } = await runStc([...command.split(" ").slice(1), "--config", "stc.yaml"], { cwd });
      expect([command, code, err]).toEqual([command, 0, ""]);
    }
    expect(readdirSync(join(cwd, "tools")).sort()).toEqual(
      ["customers_get", "newest_orders", "orders_get", "orders_update"].map((name) => `${name}.tool.yaml`),
    );
    const { code, out } = await runStc(["check", "--config", "stc.yaml"], { cwd });
    expect([code, out]).toEqual([0, expect.stringContaining("ok: 4 tools")]);
  });

  test("stc learn proposes a policy for the columns of a tool's answers", async () => {
    const file = join(service.folder, "operator.token");
    writeFileSync(file, await service.person({ permissions: ["tools:learn"] }));
    const running = new RunningStc(["learn", "orders_of_customer", "--answers", "1"], {
      env: { STC_URL: service.url, STC_TOKEN_FILE: file },
    });
    await until("that it observes", () => running.err.includes("observing orders_of_customer") || undefined);
    await service.call({ customer: "7", states: ["sent"] });
    expect(await running.child.exited).toBe(0);
    await until("the policy", () => running.out.includes("rows[].contact") || undefined);
    expect(parse(running.out).outputPolicy).toMatchObject({ "rows[].id": "allow", "rows[].contact": "mask" });
  });

  test("lists are values, whatever is in them", async () => {
    const { body } = await service.call({ customer: "7", states: ["sent"] });
    expect(body.result.rows.map(({ status }: { status: string }) => status)).toEqual(Array(30).fill("sent"));
  });
});
