import { afterAll, afterEach, expect, test } from "bun:test";
import { MODULES } from "../../src/modules.ts";
import { ModuleWorld } from "./module-world.ts";
import { ceiling } from "./toy-decision-point.ts";

const world = new ModuleWorld();
afterEach(() => world.stop());
afterAll(() => world.end());

const modules = { ...MODULES, decisionPoints: [...MODULES.decisionPoints, ceiling] };

test("a kind of decision point that one line of the build registers is configured, asked and recorded", async () => {
  await world.start(modules, { decisionPoints: [{ name: "limit", ceiling: { max: 10 } }] });
  expect((await world.call("pay", { amount: 10 })).http).toBe(200);
  const { http, body } = await world.call("pay", { amount: 11 });
  expect([http, body.error.code]).toEqual([403, "POLICY_DENIED"]);
  expect(world.entry(body.traceId)?.decisionReasons).toEqual([{ point: "limit", verdict: "deny", reason: "above 10" }]);
});

test("its settings are checked, and the other kinds stay", async () => {
  const wrong = [{ name: "a", ceiling: { max: "x" } }, { name: "b" }];
  const error: unknown = await world.start(modules, { decisionPoints: wrong }).catch((thrown: unknown) => thrown);
  expect(String(error)).toMatch(/decisionPoints\[0\]\.ceiling\.max: must be a number/);
  expect(String(error)).toMatch(/decisionPoints\[1\]: needs exactly one of authzen, cedar, ceiling/);
});
