import { expect, test } from "bun:test";
import { StartupError } from "../../../src/core/errors.ts";
import { protectingGlobals } from "../../../src/runtime/reload/shared-globals.ts";

const harms: readonly (readonly [string, () => void])[] = [
  ["Object.prototype.polluted", () => Reflect.set(Object.prototype, "polluted", 1)],
  [
    "Object.prototype.hidden",
    () => Reflect.defineProperty(Object.prototype, "hidden", { value: 1, configurable: true }),
  ],
  ["Array.prototype.last", () => Reflect.set(Array.prototype, "last", () => 1)],
  ["JSON.parse", () => Reflect.set(JSON, "parse", () => ({}))],
  ["Date.now", () => Reflect.set(Date, "now", () => 0)],
  ["globalThis.fetch", () => Reflect.set(globalThis, "fetch", () => 0)],
  ["Map.prototype.get", () => Reflect.deleteProperty(Map.prototype, "get")],
];

for (const outcome of ["succeeds", "fails"] as const) {
  test.each(harms)(`a change of %s is undone when the loading ${outcome}`, async (name, harm) => {
    const before = [JSON.parse, Date.now, globalThis.fetch, Map.prototype.get, process.exit];
    let isClosed = false;
    const close = async (): Promise<void> => {
      isClosed = true;
    };
    const error = await protectingGlobals(async () => {
      harm();
      if (outcome === "fails") throw new StartupError(["another"]);
      return { close };
    }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(StartupError);
    const problems = error instanceof StartupError ? error.problems : [];
    const told = `tools: a manifest changes ${name}, which is shared by the whole process`;
    expect(problems).toEqual(outcome === "fails" ? [told, "another"] : [told]);
    expect(isClosed).toBe(outcome === "succeeds");
    expect([JSON.parse, Date.now, globalThis.fetch, Map.prototype.get, process.exit]).toEqual(before);
    expect(["polluted" in {}, "hidden" in {}, "last" in []]).toEqual([false, false, false]);
  });
}

test("unrelated globals are left alone: a manifest's own, and those of a polyfill", async () => {
  const own = Symbol.for("tests of the surroundings");
  const made = { close: async () => {} };
  const kept = await protectingGlobals(async () => {
    Reflect.set(globalThis, own, 1);
    Reflect.defineProperty(Array.prototype, "polyfilled", { value: 1, configurable: true });
    return made;
  });
  expect(kept).toBe(made);
  expect([Reflect.get(globalThis, own), Reflect.get([], "polyfilled")]).toEqual([1, 1]);
  Reflect.deleteProperty(globalThis, own);
  Reflect.deleteProperty(Array.prototype, "polyfilled");
});

test("process.exit throws, during the loading and not after", async () => {
  const { exit } = process;
  const error = await protectingGlobals(async () => process.exit(3)).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ message: "process.exit() was called" });
  expect(process.exit).toBe(exit);
});
