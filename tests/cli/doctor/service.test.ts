import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { RunningService } from "../../../src/cli/service.ts";
import { DoctorStand, nextIn, seenIn } from "../../support/doctor.ts";
import { issuers, startIdentityService } from "../../support/identity-service.ts";

const stand = new DoctorStand();
let running: RunningService | undefined;
afterAll(() => stand.end());
afterEach(async () => {
  await running?.drain();
  running = undefined;
});
beforeEach(() => stand.configure());

async function start(rest: Readonly<Record<string, unknown>> = {}): Promise<{ readonly url: string }> {
  const { service } = await startIdentityService({ folder: stand.folder, rest });
  running = service;
  stand.configure({ server: { port: Number(new URL(service.url).port) } });
  return { url: service.url };
}

async function tokenFile(): Promise<string> {
  const token = await issuers.token({ kind: "operator", sub: "op", permissions: ["metrics:read", "halts:write"] });
  stand.file("token", token);
  return stand.path("token");
}

describe("service", () => {
  test("none runs: the check does not apply", async () => {
    const result = await stand.check("service");
    expect([result.status, seenIn(result)]).toEqual([
      "not applicable",
      expect.stringMatching(/^no service runs here: no answer from http:\/\/127\.0\.0\.1:1 \(/),
    ]);
  });

  test("one that is ready is found by its configuration, with and without a token", async () => {
    await start();
    expect(await stand.check("service")).toMatchObject({ status: "ok" });
    expect(await stand.check("service", { tokenFile: await tokenFile() })).toMatchObject({ status: "ok" });
  });

  test("one that has the audit log open and does not answer fails", async () => {
    await start();
    stand.configure({ server: { port: 1 } });
    const result = await stand.check("service");
    expect([result.status, seenIn(result)]).toEqual([
      "failed",
      expect.stringContaining(`process ${process.pid} has the audit log open`),
    ]);
    expect(nextIn(result)).toContain("--url");
  });

  test("something else at its address fails", async () => {
    await using other = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("", { status: 404 }) });
    stand.configure({ server: { port: other.port } });
    const result = await stand.check("service");
    expect([result.status, seenIn(result)]).toEqual(["failed", expect.stringContaining("/readyz answers 404")]);
  });

  test.each([
    ["audit_unavailable", "docs/runbooks.md#safetoolcallauditunavailable"],
    ["workers_unavailable", "docs/runbooks.md#safetoolcallworkersreplaced"],
    ["of another release", "docs/runbooks.md#safetoolcallnotready"],
  ])("one that is not ready fails: %s", async (reason, next) => {
    const body = { status: "not_ready", reasons: [reason] };
    await using other = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: () => Response.json(body, { status: 503 }),
    });
    const result = await stand.check("service", { url: `http://127.0.0.1:${other.port}` });
    expect([result.status, nextIn(result)]).toEqual(["failed", next]);
  });

  test("its clock is compared", async () => {
    await start();
    expect(seenIn(await stand.check("clocks"))).toContain("the service: less than 1 s off");
  });
});

describe("what a running service knows", () => {
  const DETAILS = { status: "ready", audit: { status: "ok" } };
  const known = async (name: string, state: object) => {
    await using other = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: () => Response.json({ ...DETAILS, ...state }),
    });
    return await stand.check(name, { url: `http://127.0.0.1:${other.port}`, tokenFile: await tokenFile() });
  };

  test("without a token it is not known, and the check says what is missing", async () => {
    await start();
    const result = await stand.check("halts");
    expect([result.status, seenIn(result)]).toEqual(["not applicable", expect.stringContaining("--token-file")]);
  });

  test("of a real service: no halts, one process, no decision points", async () => {
    await start();
    const options = { tokenFile: await tokenFile() };
    expect(await stand.check("halts", options)).toMatchObject({ status: "ok" });
    expect(await stand.check("workers", options)).toMatchObject({ status: "not applicable" });
    expect(await stand.check("decision points", options)).toMatchObject({ status: "not applicable" });
  });

  test("a halt in force is a warning", async () => {
    const { url } = await start();
    const authorization = `Bearer ${await Bun.file(await tokenFile()).text()}`;
    const headers = { authorization, "content-type": "application/json" };
    const body = JSON.stringify({ kind: "all", reason: "test" });
    expect((await fetch(`${url}/halts`, { method: "POST", headers, body })).status).toBe(201);
    expect(await stand.check("halts", { tokenFile: await tokenFile() })).toMatchObject({ status: "warning" });
  });

  test.each([
    ["halts", { halts: { status: "unknown", active: 0 } }, "failed"],
    ["workers", { workers: [{ status: "ready" }, { status: "starting" }] }, "failed"],
    ["workers", { workers: [{ status: "ready" }, { status: "ready" }] }, "ok"],
    ["decision points", { decisionPoints: [{ name: "p", circuit: "open", lastError: null }] }, "failed"],
    ["decision points", { decisionPoints: [{ name: "p", circuit: "closed", lastError: { reason: "x" } }] }, "warning"],
    ["decision points", { decisionPoints: [{ name: "p", circuit: "closed", lastError: null }] }, "ok"],
    ["service", { systems: { api: { circuit: "open" } } }, "failed"],
    ["service", { systems: { api: { circuit: "closed", state: "IDLE" } } }, "ok"],
    ["service", { configuration: { lastRefused: { at: "x", problems: 2 } } }, "warning"],
  ] as const)("%s: %j", async (name, state, status) => {
    expect(await known(name, state)).toMatchObject({ status });
  });
});
