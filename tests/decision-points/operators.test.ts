import { afterAll, afterEach, beforeEach, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { MODULES } from "../../src/modules.ts";
import { ModuleWorld } from "../modules/module-world.ts";
import { RawServer } from "../support/raw-server.ts";
import { decision, pointAt } from "./authzen-service.ts";

const world = new ModuleWorld();
let pdp: RawServer;
beforeEach(async () => {
  pdp = await RawServer.start();
  pdp.answer = () => decision(true);
});
afterEach(async () => {
  await world.stop();
  pdp.close();
});
afterAll(() => world.end());

const operator = () => world.person({ permissions: ["metrics:read", "configuration:read"] });

function rules(name: string, text: string): object {
  writeFileSync(join(world.folder, `${name}.cedar`), text);
  return { name, cedar: { policiesFile: `./${name}.cedar` } };
}

test("operators read the state of each point, and metrics count its verdicts", async () => {
  const local = rules("rules", 'permit(principal, action, resource == Tool::"pay");');
  await world.start(MODULES, { decisionPoints: [pointAt(pdp, { timeoutMs: 20_000 }), local] });
  await world.call("pay", { amount: 1 });
  await world.call("refund", { amount: 1 });
  pdp.answer = ({ socket }) => void socket.resetAndDestroy();
  await world.call("pay", { amount: 1 });
  const token = await operator();
  const { body: ready } = await world.send("GET", "/readyz", { token });
  expect(ready.decisionPoints).toEqual([
    {
      ...{ name: "pdp", kind: "authzen", circuit: "closed", calls: { inFlight: 0, max: 256 } },
      ...{ verdicts: { allow: 2, deny: 1, ask: 0 }, errors: 1 },
      lastError: {
        at: expect.stringMatching(/Z$/),
        reason: expect.stringMatching(/^no usable answer: the connection/),
      },
    },
    {
      ...{ name: "rules", kind: "cedar", facts: { policies: 1, entities: 0 } },
      ...{ verdicts: { allow: 2, deny: 1, ask: 0 }, errors: 0, lastError: null },
    },
  ]);
  const { body: systems } = await world.send("GET", "/systems", { token });
  expect(systems.decisionPoints.map(({ name }: { readonly name: string }) => name)).toEqual(["pdp", "rules"]);
  const { body: anonymous } = await world.send("GET", "/readyz", {});
  expect(anonymous).toEqual({ status: "ready" });
  const metrics = await (await fetch(`${world.url}/metrics`, { headers: { authorization: `Bearer ${token}` } })).text();
  for (const line of [
    'stc_decision_point_verdicts_total{point="pdp",verdict="allow"} 2',
    'stc_decision_point_verdicts_total{point="rules",verdict="deny"} 1',
    'stc_decision_point_errors_total{point="pdp"} 1',
    'stc_decision_point_circuit_open{point="pdp"} 0',
    'stc_decision_point_seconds_count{point="rules"} 3',
  ])
    expect(metrics).toContain(line);
});

test("both points deny, and the audit names both", async () => {
  const local = rules(
    "rules",
    'permit(principal, action, resource); @id("frozen") forbid(principal, action, resource);',
  );
  pdp.answer = () => decision(false, { reason_admin: { en: "not today" } });
  await world.start(MODULES, { decisionPoints: [pointAt(pdp), local] });
  const { http, body } = await world.call("pay", { amount: 1 });
  expect([http, body.error.code]).toEqual([403, "POLICY_DENIED"]);
  expect(world.entry(body.traceId)?.decisionReasons).toEqual([
    { point: "pdp", verdict: "deny", reason: "not today" },
    { point: "rules", verdict: "deny", reason: "forbidden by policy frozen" },
  ]);
});

test("arguments decide in Cedar, where they are all seen, and the agent learns nothing about the policies", async () => {
  const local = rules("rules", '@id("small") permit(principal, action, resource) when { context.arg_amount <= 100 };');
  await world.start(MODULES, { decisionPoints: [local] });
  expect((await world.call("pay", { amount: 100 })).http).toBe(200);
  const { http, body } = await world.call("pay", { amount: 101 });
  expect([http, body.error.message]).toEqual([403, "A policy of the service's operators forbids this call."]);
  expect(JSON.stringify(body)).not.toMatch(/small|cedar/i);
});

test("a configuration whose policies cannot be parsed does not start, and names every problem", async () => {
  const broken = [rules("one", "permit(principal);"), rules("two", "nonsense")];
  const error: unknown = await world.start(MODULES, { decisionPoints: broken }).catch((thrown: unknown) => thrown);
  expect(String(error)).toMatch(/decisionPoints\[0\]\.cedar\.policiesFile: \.\/one\.cedar: line 1/);
  expect(String(error)).toMatch(/decisionPoints\[1\]\.cedar\.policiesFile: \.\/two\.cedar: line 1/);
});

test.each<readonly [object, RegExp]>([
  [{ name: "x" }, /decisionPoints\[0\]: needs exactly one of authzen, cedar/],
  [
    { name: "x", cedar: { policiesFile: "p" }, authzen: { url: "https://pdp.test" } },
    /decisionPoints\[0\]: needs exactly one of authzen, cedar/,
  ],
  [{ name: "risk", cedar: { policiesFile: "p" } }, /decisionPoints\[0\]\.name: is the name of a built-in/],
  [{ name: "x", cedar: { policiesFile: "p" }, cacheSeconds: 5 }, /cacheSeconds: is not for cedar/],
  [{ name: "x", cedar: { policiesFile: "p" }, onAccessRequest: "ask" }, /onAccessRequest: is not for cedar/],
  [{ name: "x", authzen: { url: "http://pdp.test" } }, /authzen\.url: is not https/],
  [{ name: "x", authzen: { url: "https://169.254.169.254" } }, /authzen\.url: its address is/],
  [
    {
      name: "x",
      authzen: {
        url: "https://p.test",
        auth: { tokenExchange: { tokenUrl: "https://i.test", clientId: "c", clientSecretFile: "s" } },
      },
    },
    /authzen\.auth\.tokenExchange: is (?:unknown|not)/,
  ],
  [{ name: "x", cedar: { policiesFile: "./missing.cedar" } }, /cedar\.policiesFile: \.\/missing\.cedar cannot be read/],
])("%j is refused", async (point, expected) => {
  const error: unknown = await world.start(MODULES, { decisionPoints: [point] }).catch((thrown: unknown) => thrown);
  expect(String(error)).toMatch(expected);
});
