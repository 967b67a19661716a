import { describe, expect, test } from "bun:test";
import { Refusal } from "../../src/core/errors.ts";
import type { Verified } from "../../src/core/evidence.ts";
import { createAdmission } from "../../src/pipeline/admission.ts";

const caller = (subject: string, issuer = "i") => ({ caller: { issuer, subject } }) as Verified;

function stand(options: { total?: number; each?: number; auditReady?: () => boolean } = {}) {
  const admission = createAdmission({
    concurrentCallsMax: options.total ?? 4,
    concurrentCallsPerCallerMax: options.each ?? 2,
    auditReady: options.auditReady ?? (() => true),
  });
  const code = (verified: Verified): string => refusalOf(() => admission.admit(verified))?.code ?? "admitted";
  return { admission, code };
}

function refusalOf(admit: () => unknown): Refusal | undefined {
  try {
    admit();
    return undefined;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return error;
  }
}

test("each caller has its own limit", () => {
  const { code } = stand();
  expect([code(caller("a")), code(caller("a")), code(caller("a")), code(caller("b"))]).toEqual([
    ...["admitted", "admitted", "RATE_LIMITED", "admitted"],
  ]);
});

test("the same subject of another issuer is another caller", () => {
  const { code } = stand({ each: 1 });
  expect([code(caller("a", "one")), code(caller("a", "two")), code(caller("a", "one"))]).toEqual([
    ...["admitted", "admitted", "RATE_LIMITED"],
  ]);
});

test("all callers together have a limit", () => {
  const { code } = stand({ total: 2 });
  expect([code(caller("a")), code(caller("b")), code(caller("c"))]).toEqual(["admitted", "admitted", "OVERLOADED"]);
});

test("a finished call frees its slot, and its caller is forgotten", () => {
  const { admission, code } = stand({ each: 1 });
  const admitted = admission.admit(caller("a"));
  expect(code(caller("a"))).toBe("RATE_LIMITED");
  admission.leave(admitted);
  expect(admission.inFlight()).toBe(0);
  expect(code(caller("a"))).toBe("admitted");
});

test("nobody is admitted while the audit cannot take a line, or during the drain", () => {
  let ready = false;
  const { admission, code } = stand({ auditReady: () => ready });
  expect(code(caller("a"))).toBe("AUDIT_UNAVAILABLE");
  ready = true;
  expect(code(caller("a"))).toBe("admitted");
  admission.drain();
  expect(code(caller("a"))).toBe("SHUTTING_DOWN");
});

test("the audit's problem is reported to operators, and to nobody else", () => {
  const admission = createAdmission({
    concurrentCallsMax: 1,
    concurrentCallsPerCallerMax: 1,
    auditReady: () => false,
    auditProblem: () => "the disk is nearly full: free some of it",
  });
  const refusal = refusalOf(() => admission.admit(caller("a")));
  expect(refusal?.message).toBe("The call was not run: it could not be recorded.");
  expect(refusal?.details).toEqual({ outcome: "not_run" });
  expect(String(refusal?.cause)).toBe("Error: the disk is nearly full: free some of it");
});

describe("cancellations", () => {
  const MINUTE_MS = 60_000;
  const limited = (perMinuteMax: number) => {
    let now = 1_000_000;
    const admission = createAdmission({
      concurrentCallsMax: 100,
      concurrentCallsPerCallerMax: 100,
      auditReady: () => true,
      cancellations: { perMinuteMax, clock: () => now },
    });
    const abandon = (subject: string): void => admission.leave(admission.admit(caller(subject)), true);
    const refusal = (subject: string): Refusal | undefined => {
      try {
        admission.leave(admission.admit(caller(subject)));
        return undefined;
      } catch (error) {
        if (error instanceof Refusal) return error;
        throw error;
      }
    };
    return { abandon, refusal, pass: (ms: number) => (now += ms) };
  };

  test("many cancellations of one caller are refused with the time to wait, and affect nobody else", () => {
    const { abandon, refusal } = limited(10);
    for (let made = 0; made < 10; made += 1) abandon("stormy");
    const details = { limit: "cancellations", cancellationsPerMinuteMax: 10 };
    expect(refusal("stormy")).toMatchObject({ code: "RATE_LIMITED", details });
    expect(refusal("calm")).toBeUndefined();
  });

  test("the reported wait is exactly the necessary one", () => {
    const { abandon, refusal, pass } = limited(10);
    for (let made = 0; made < 10; made += 1) abandon("stormy");
    const waitMs = refusal("stormy")?.retryAfterMs ?? 0;
    expect(waitMs).toBeGreaterThan(0);
    expect(waitMs).toBeLessThanOrEqual(MINUTE_MS / 10);
    pass(waitMs - 1);
    expect(refusal("stormy")).toBeDefined();
    pass(1);
    expect(refusal("stormy")).toBeUndefined();
  });

  test("answered calls do not count, and a few abandoned ones expire", () => {
    const { abandon, refusal, pass } = limited(10);
    for (let made = 0; made < 100; made += 1) expect(refusal("calm")).toBeUndefined();
    for (let made = 0; made < 100; made += 1) {
      abandon("slow");
      pass(MINUTE_MS / 10);
    }
    expect(refusal("slow")).toBeUndefined();
  });

  test("concurrent calls together cannot cause a wait of more than two minutes", () => {
    let now = 0;
    const admission = createAdmission({
      concurrentCallsMax: 1_000,
      concurrentCallsPerCallerMax: 1_000,
      auditReady: () => true,
      cancellations: { perMinuteMax: 10, clock: () => now },
    });
    const admitted = Array.from({ length: 1_000 }, () => admission.admit(caller("stormy")));
    for (const one of admitted) admission.leave(one, true);
    expect(() => admission.admit(caller("stormy"))).toThrow(expect.objectContaining({ code: "RATE_LIMITED" }) as Error);
    now += 2 * MINUTE_MS;
    expect(admission.inFlight()).toBe(0);
    admission.leave(admission.admit(caller("stormy")));
  });

  test("a clock that goes back admits nobody, and callers beyond the maximum are forgotten, oldest first", () => {
    const { abandon, refusal, pass } = limited(1);
    abandon("first");
    pass(-MINUTE_MS);
    expect(refusal("first")).toBeDefined();
    for (let made = 0; made < 10_000; made += 1) abandon(`other ${made}`);
    expect(refusal("first")).toBeUndefined();
    expect(refusal("other 9999")).toBeDefined();
  });
});
