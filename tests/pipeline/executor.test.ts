import { describe, expect, test } from "bun:test";
import { Refusal } from "../../src/core/errors.ts";
import type { Approved } from "../../src/core/evidence.ts";
import type { RunContext } from "../../src/core/types.ts";
import { DETECTOR } from "../../src/detection/sensitive.ts";
import { CallScopes, type Disconnect } from "../../src/pipeline/call-scope.ts";
import { createExecutor } from "../../src/pipeline/executor.ts";

class Client implements Disconnect {
  disconnected = false;
  readonly #listeners = new Set<() => void>();

  get listeners(): number {
    return this.#listeners.size;
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  leave(): void {
    this.disconnected = true;
    for (const listener of this.#listeners) listener();
  }
}

interface Given {
  readonly classification?: "read" | "write";
  readonly callsBegin?: boolean;
  readonly run: (context: RunContext) => Promise<unknown>;
  readonly timeoutMs?: number;
  readonly intend?: () => Promise<void>;
  readonly client?: Client;
  readonly concurrentCallsMax?: number;
}

function stand({
  classification = "read",
  callsBegin = false,
  run,
  timeoutMs = 5_000,
  intend = async () => {},
  client,
  concurrentCallsMax = 8,
}: Given) {
  const executor = createExecutor({ intend });
  const tool = { name: "t", classification, limits: { concurrentCallsMax } };
  const binding = { callsBegin, run: (_plan: unknown, context: RunContext) => run(context) };
  const approved = { tool, binding, plan: { kind: "inline" }, caller: {}, digest: "d", by: "b" } as unknown as Approved;
  return async (): Promise<unknown> => {
    const scope = new CallScopes({ clock: () => 0, monotonic: () => performance.now() }).open({
      timeoutMs,
      disconnect: client,
    });
    try {
      const execution = {
        scope,
        traceId: "t",
        traceparent: undefined,
        detector: DETECTOR,
        announced: () => ({}) as never,
      };
      return (await executor.execute(approved, execution)).raw;
    } catch (error) {
      return error instanceof Refusal ? error.code : error;
    } finally {
      scope.close();
    }
  };
}

function hang(): Promise<unknown> {
  return new Promise<unknown>(() => {});
}
const fail = (code: "TARGET_FAILED" | "OUTPUT_TOO_LARGE" | "CANCELLED") => async () => {
  throw new Refusal(code, "x");
};

describe("results", () => {
  const rows: readonly (readonly [string, Given, unknown])[] = [
    ["an answer", { run: async () => 42 }, 42],
    ["a read past its deadline", { run: hang, timeoutMs: 5 }, "DEADLINE_EXCEEDED"],
    ["a change past its deadline", { run: hang, timeoutMs: 500, classification: "write" }, "OUTCOME_UNKNOWN"],
    ["a target's own no", { run: fail("TARGET_FAILED"), classification: "write" }, "TARGET_FAILED"],
    ["a read's output bound", { run: fail("OUTPUT_TOO_LARGE") }, "OUTPUT_TOO_LARGE"],
    ["a change's output bound", { run: fail("OUTPUT_TOO_LARGE"), classification: "write" }, "OUTCOME_UNKNOWN"],
  ];

  test.each(rows)("%s", async (_title, given, want) => {
    expect(await stand(given)()).toBe(want);
  });

  test("a change that fails unexpectedly has an unknown outcome", async () => {
    const run = async () => {
      throw new TypeError("x");
    };
    expect(await stand({ run, classification: "write" })()).toBe("OUTCOME_UNKNOWN");
    expect(await stand({ run })()).toBeInstanceOf(TypeError);
  });
});

describe("a change of a binding that says when it begins", () => {
  const change = { classification: "write", callsBegin: true } as const;

  test("past its deadline, is TARGET_UNAVAILABLE before it began and OUTCOME_UNKNOWN afterwards", async () => {
    expect(await stand({ ...change, run: hang, timeoutMs: 5 })()).toBe("TARGET_UNAVAILABLE");
    const begun = (context: RunContext) => {
      context.begin?.();
      return hang();
    };
    expect(await stand({ ...change, run: begun, timeoutMs: 5 })()).toBe("OUTCOME_UNKNOWN");
  });

  test("cannot begin after its deadline", async () => {
    const late = Promise.withResolvers<unknown>();
    const run = (context: RunContext) =>
      new Promise<never>(() => {
        const begin = () => {
          try {
            context.begin?.();
            late.resolve("begun");
          } catch (error) {
            late.resolve(error instanceof Refusal ? error.code : error);
          }
        };
        context.signal.addEventListener("abort", () => setTimeout(begin, 1));
      });
    expect(await stand({ ...change, run, timeoutMs: 5 })()).toBe("TARGET_UNAVAILABLE");
    expect(await late.promise).toBe("DEADLINE_EXCEEDED");
  });

  test("that fails unexpectedly has an unknown outcome only once it began", async () => {
    const run = (begins: boolean) => async (context: RunContext) => {
      if (begins) context.begin?.();
      throw new TypeError("x");
    };
    expect(await stand({ ...change, run: run(false) })()).toBeInstanceOf(TypeError);
    expect(await stand({ ...change, run: run(true) })()).toBe("OUTCOME_UNKNOWN");
  });
});

describe("intents", () => {
  test("a change waits for its intent", async () => {
    const order: string[] = [];
    const intend = async () => void order.push("intent");
    await stand({ classification: "write", intend, run: async () => order.push("run") })();
    expect(order).toEqual(["intent", "run"]);
  });

  test("without its intent nothing runs", async () => {
    let ran = false;
    const intend = () => Promise.reject(new Refusal("AUDIT_UNAVAILABLE", "x"));
    const run = async () => {
      ran = true;
    };
    expect(await stand({ classification: "write", intend, run })()).toBe("AUDIT_UNAVAILABLE");
    expect(ran).toBe(false);
  });

  test("a read has none", async () => {
    const intend = () => Promise.reject(new Error("asked"));
    expect(await stand({ intend, run: async () => "read" })()).toBe("read");
  });

  test("a change whose time is over before it begins does not run, and that is definite", async () => {
    let ran = false;
    const intend = () => new Promise<void>((resolve) => setTimeout(resolve, 20));
    const run = async () => {
      ran = true;
    };
    expect(await stand({ classification: "write", intend, run, timeoutMs: 5 })()).toBe("DEADLINE_EXCEEDED");
    expect(ran).toBe(false);
  });
});

describe("a client that disconnects", () => {
  test("ends a read", async () => {
    const client = new Client();
    const ended = stand({ client, run: hang })();
    client.leave();
    expect(await ended).toBe("CANCELLED");
    expect(client.listeners).toBe(0);
  });

  test("does not end a change in progress", async () => {
    const client = new Client();
    let finish = (_value: unknown): void => {};
    const started = Promise.withResolvers<void>();
    const run = () => {
      started.resolve();
      return new Promise((resolve) => {
        finish = resolve;
      });
    };
    const ended = stand({ client, classification: "write", run })();
    await started.promise;
    client.leave();
    finish("done");
    expect(await ended).toBe("done");
  });

  test("is reported to the handler", async () => {
    const client = new Client();
    const heard = Promise.withResolvers<unknown>();
    const run = ({ signal }: RunContext) => {
      signal.addEventListener("abort", () => heard.resolve(signal.reason));
      client.leave();
      return hang();
    };
    await stand({ client, run })();
    expect(await heard.promise).toMatchObject({ name: "AbortError" });
  });
});

test("a tool runs at most its limit of calls, and hanging ones still count", async () => {
  const call = stand({ run: hang, timeoutMs: 5, concurrentCallsMax: 2 });
  expect(await Promise.all([call(), call(), call()])).toEqual(["DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", "OVERLOADED"]);
  expect(await call()).toBe("OVERLOADED");
});

test("a late failure of an abandoned call disturbs nobody", async () => {
  const run = () => new Promise((_resolve, reject) => setTimeout(() => reject(new Error("late")), 15));
  expect(await stand({ run, timeoutMs: 3 })()).toBe("DEADLINE_EXCEEDED");
  await new Promise((resolve) => setTimeout(resolve, 25));
});
