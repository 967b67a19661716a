import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { MODULES } from "../../src/modules.ts";
import { ModuleWorld } from "../modules/module-world.ts";
import type { Loose, Reply } from "../support/asking-service.ts";
import { PROJECT } from "../support/world.ts";

/**
 * OPA's own engine, built from its Go module, behind a small adapter that speaks AuthZEN (`tests/fleet/opa`). It needs Go: without it,
 * this suite fails and says so. The first run downloads and builds it below `var/`.
 */
const SOURCE = join(PROJECT, "tests/fleet/opa");
const BINARY = join(PROJECT, "var/fleet/opa-authzen");
const BUILD_MS = 1_200_000;

const world = new ModuleWorld();
let engine: Bun.Subprocess<"ignore", "pipe", "inherit"> | undefined;

beforeAll(async () => {
  const go = Bun.which("go") ?? Bun.which("go", { PATH: "/usr/local/go/bin" });
  if (go === null) throw new Error("this suite builds OPA: install Go 1.26 or later");
  mkdirSync(join(PROJECT, "var/fleet"), { recursive: true });
  const build = Bun.spawn([go, "build", "-o", BINARY, "."], { cwd: SOURCE, stdout: "inherit", stderr: "inherit" });
  expect(await build.exited).toBe(0);
  engine = Bun.spawn([BINARY, join(SOURCE, "policy.rego")], { stdin: "ignore", stdout: "pipe", stderr: "inherit" });
  const { value = new Uint8Array() } = await engine.stdout.getReader().read();
  const url = `http://${new TextDecoder().decode(value).trim()}`;
  const authzen = { url, addresses: ["loopback"] };
  const shared = { claims: ["department"], arguments: "all", timeoutMs: 20_000, onAccessRequest: "ask" };
  await world.start(MODULES, { decisionPoints: [{ name: "opa", ...shared, authzen }] });
}, BUILD_MS);
afterAll(async () => {
  engine?.kill();
  await engine?.exited;
  await world.end();
});

async function pay(amount: number, department: string, more: Loose = {}): Promise<Reply> {
  const token = await world.agent({ permissions: ["money:send"], claims: { department } });
  return world.send("POST", "/call", { token, body: { tool: "pay", args: { amount }, ...more } });
}

test("OPA allows and denies by claims and arguments, and its reason is recorded", async () => {
  expect((await pay(100, "finance")).body.result).toEqual({ paid: 100 });
  const { http, body } = await pay(100, "sales");
  expect([http, body.error.code]).toEqual([403, "POLICY_DENIED"]);
  expect(JSON.stringify(body)).not.toContain("finance");
  expect(world.entry(body.traceId)?.decisionReasons).toEqual([
    { point: "opa", verdict: "deny", reason: "only the finance department pays" },
  ]);
});

test("OPA offers to request access, and allows the call once it hears of the approval", async () => {
  const asked = await pay(500, "finance");
  expect([asked.http, asked.body.status]).toEqual([202, "pending"]);
  const { id } = asked.body.approval;
  await world.decide(id, "approve");
  expect((await pay(500, "finance", { approval: { id } })).body.result).toEqual({ paid: 500 });
});

test("a query of OPA without a result denies", async () => {
  const { http, body } = await pay(13, "finance");
  expect([http, body.error.message]).toEqual([
    403,
    "A policy of the service's operators could not be decided, so the call was not run.",
  ]);
  expect(world.entry(body.traceId)?.decisionReasons?.[0]?.reason).toBe("could not decide: the answer has status 500");
});
