import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { MODULES } from "../../../src/modules.ts";
import { DoctorStand, nextIn, seenIn } from "../../support/doctor.ts";
import { freePorts } from "../../support/ports.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../../support/postgres.ts";

const native = findPostgres();

describe.skipIf(native === undefined)("the database of replicas", () => {
  const stand = new DoctorStand();
  let server: PostgresServer;
  let url: string;
  beforeAll(async () => {
    server = await startPostgres(native ?? "");
    url = await server.createDatabase("doctor");
  });
  afterAll(async () => {
    await server.end();
    stand.end();
  });

  function useUrl(text: string, workers = 1): void {
    stand.configure({ server: { workers }, approvals: { storeUrlFile: stand.file("url", text) } });
  }

  const tables = () => server.send("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", "doctor");

  test("without tables it is ok, and none are made; its clock is compared", async () => {
    useUrl(url);
    const result = await stand.check("database");
    expect(result.status).toBe("ok");
    expect(seenIn(result)).toContain("there are no tables yet");
    expect(seenIn(result)).toMatch(/PostgreSQL 1\d\S*, a question takes \d+ ms, \d+ connections are left, without TLS/);
    expect(await tables()).toEqual([]);
    expect(seenIn(await stand.check("clocks"))).toBe("the database: less than 1 s off");
  });

  test("with tables their version is named, also through a pooler's settings", async () => {
    const store = MODULES.approvalStores.find(({ accepts }) => accepts.test(url));
    await (await store?.open(url, { now: () => 0, log: () => {} }))?.close();
    useUrl(`${url}&pgbouncer=true`);
    const result = await stand.check("database");
    expect([result.status, seenIn(result)]).toEqual([
      "ok",
      expect.stringMatching(/tables of version \d+[\s\S]*through a pooler/),
    ]);
  });

  test("a wrong password fails, and no message has a password", async () => {
    const wrong = url.replace(/:[^:@/]+@/, ":wrong-password-of-tests@");
    useUrl(wrong);
    const result = await stand.check("database");
    expect([result.status, seenIn(result)]).toEqual([
      "failed",
      expect.stringContaining("refuses this user or password"),
    ]);
    expect(JSON.stringify(result)).not.toContain("wrong-password-of-tests");
  });

  test.each([
    [1, 8],
    [3, 32],
  ])("one that few connections are left of is a warning: %d workers, and their parent", async (workers, needed) => {
    await server.send("ALTER ROLE tester CONNECTION LIMIT -1");
    useUrl(url, workers);
    await server.stop();
    await server.start(["max_connections=6", "superuser_reserved_connections=0"]);
    const result = await stand.check("database");
    expect([result.status, seenIn(result)]).toEqual([
      "warning",
      expect.stringContaining(`needs up to ${needed} connections`),
    ]);
  });

  test("one that is stopped fails with what to do, and hides no other check", async () => {
    useUrl(url.replace(/:\d+\//, `:${freePorts()}/`));
    const result = await stand.check("database");
    expect([result.status, nextIn(result)]).toEqual([
      "failed",
      expect.stringContaining("docs/runbooks.md#safetoolcallapprovalsunavailable"),
    ]);
    expect(await stand.check("clocks")).toMatchObject({ status: "not applicable" });
  });

  test("one that accepts connections and answers nothing fails within the limit of a check", async () => {
    useUrl(url);
    server.freeze();
    try {
      const result = await stand.check("database");
      expect([result.status, seenIn(result)]).toEqual(["failed", "no answer within 4.5 s"]);
    } finally {
      server.thaw();
    }
  });
});
