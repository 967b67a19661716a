import { expect, test } from "bun:test";
import { Upkeep } from "../../../src/audit/store/upkeep.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

test("upkeep runs hourly, a minute after a failure, and every step whatever becomes of another", async () => {
  const upkeep = new Upkeep((error) => (error instanceof Error ? error.message : "unknown"));
  const ran: string[] = [];
  let failing: readonly string[] = [];
  const run = async (nowMs: number): Promise<string> => {
    ran.length = 0;
    const step = (name: string) => async () => {
      ran.push(name);
      if (failing.includes(name)) throw new Error(`${name} failed`);
    };
    await upkeep.run(nowMs, [step("prepare"), step("drop"), step("thin")]);
    return ran.join();
  };
  const all = "prepare,drop,thin";
  const start = 7 * HOUR_MS;
  expect(await run(start)).toBe(all);
  expect(await run(start + HOUR_MS - 1)).toBe("");
  failing = ["prepare", "drop"];
  expect(await run(start + HOUR_MS)).toBe(all);
  expect(upkeep.state).toEqual({ failures: 1, problem: "prepare failed" });
  expect(await run(start + HOUR_MS + MINUTE_MS - 1)).toBe("");
  expect(await run(start + HOUR_MS + MINUTE_MS)).toBe(all);
  expect(upkeep.state).toEqual({ failures: 2, problem: "prepare failed" });
  failing = [];
  expect(await run(start + HOUR_MS + 2 * MINUTE_MS)).toBe(all);
  expect(upkeep.state).toEqual({ failures: 2, problem: undefined });
  expect(await run(start + HOUR_MS + 3 * MINUTE_MS)).toBe("");
});
