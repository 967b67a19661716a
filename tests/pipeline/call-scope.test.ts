import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { Refusal } from "../../src/core/errors.ts";
import { type CallScope, CallScopes } from "../../src/pipeline/call-scope.ts";

const scopes = () => new CallScopes({ clock: () => 1_000, monotonic: () => performance.now() });

/** Waits for work that never ends. Returns the code of the refusal, and notes the name of the scope when it ends. */
async function ending(scope: CallScope, name: string, ended: string[]): Promise<string> {
  try {
    await scope.within(new Promise(() => {}));
    return "";
  } catch (error) {
    ended.push(name);
    return error instanceof Refusal ? error.code : String(error);
  }
}

describe("deadlines", () => {
  test("each call ends at its own deadline, in whatever order the calls began", async () => {
    let now = 0;
    const open = new CallScopes({ clock: () => 0, monotonic: () => now });
    const ended: string[] = [];
    const [third, first, second] = [3, 1, 2].map((timeoutMs) =>
      ending(open.open({ timeoutMs }), `after ${timeoutMs} ms`, ended),
    );
    const order: string[][] = [];
    for (const call of [first, second, third]) {
      now += 1;
      expect(await call).toBe("DEADLINE_EXCEEDED");
      order.push([...ended]);
    }
    expect(order.map((so) => so.at(-1))).toEqual(["after 1 ms", "after 2 ms", "after 3 ms"]);
    expect(order.map((so) => so.length)).toEqual([1, 2, 3]);
  });

  test("a call never ends before its deadline", async () => {
    const startedAt = performance.now();
    expect(await ending(scopes().open({ timeoutMs: 20 }), "call", [])).toBe("DEADLINE_EXCEEDED");
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(20);
  });

  test("the deadline of a call that has ended leaves the others alone", async () => {
    const open = scopes();
    const short = open.open({ timeoutMs: 5 });
    const long = ending(open.open({ timeoutMs: 30 }), "long", []);
    short.close();
    expect(await long).toBe("DEADLINE_EXCEEDED");
  });

  test("a deadline is paused while an approver decides, and what was left of it is left afterwards", async () => {
    const scope = scopes().open({ timeoutMs: 300 });
    expect(scope.deadline).toBe(1_300);
    const held = scope.hold(async (signal) => {
      await Bun.sleep(400);
      return signal.aborted;
    });
    expect(await held).toBe(false);
    expect(() => scope.assertOpen()).not.toThrow();
    expect(await ending(scope, "call", [])).toBe("DEADLINE_EXCEEDED");
  });

  test("a clock that is set meanwhile neither shortens nor lengthens what is left of a paused deadline", async () => {
    for (const setTo of [-3_600_000, 3_600_000]) {
      let clock = 1_000;
      const scope = new CallScopes({ clock: () => clock, monotonic: () => performance.now() }).open({
        timeoutMs: 20_000,
      });
      clock = setTo;
      await scope.hold(async () => {});
      expect(() => scope.assertOpen()).not.toThrow();
      expect(scope.deadline - clock).toBeGreaterThan(0);
      expect(scope.deadline - clock).toBeLessThanOrEqual(20_000);
      scope.close();
    }
  });

  test("the signal reports the deadline", async () => {
    const { signal } = scopes().open({ timeoutMs: 5 });
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    expect(signal.reason).toMatchObject({ name: "TimeoutError" });
  });
});

test("a shutdown ends all calls, and their deadlines no longer matter", async () => {
  const open = scopes();
  const ended: string[] = [];
  const all = ["one", "two"].map((name) => ending(open.open({ timeoutMs: 60_000 }), name, ended));
  open.shutDown();
  expect(await Promise.all(all)).toEqual(["SHUTTING_DOWN", "SHUTTING_DOWN"]);
});

test("no timer keeps the process running when no call is under way", () => {
  const module = JSON.stringify(join(import.meta.dir, "../../src/pipeline/call-scope.ts"));
  const script = `
    const { CallScopes } = await import(${module});
    const scopes = new CallScopes({ clock: Date.now, monotonic: () => performance.now() });
    const [one, two] = [scopes.open({ timeoutMs: 600_000 }), scopes.open({ timeoutMs: 300_000 })];
    one.close();
    two.close();
  `;
  const { exitCode } = Bun.spawnSync([process.execPath, "--no-env-file", "--no-install", "-e", script]);
  expect(exitCode).toBe(0);
});
