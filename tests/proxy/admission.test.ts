import { expect, test } from "bun:test";
import { Refusal } from "../../src/core/errors.ts";
import type { Verified } from "../../src/core/evidence.ts";
import { createAdmission } from "../../src/proxy/admission.ts";

const caller = (subject: string, issuer = "i") => ({ caller: { issuer, subject } }) as Verified;

function stand(options: { total?: number; each?: number; auditReady?: () => boolean } = {}) {
  const admission = createAdmission({
    concurrentCallsMax: options.total ?? 4,
    concurrentCallsPerCallerMax: options.each ?? 2,
    auditReady: options.auditReady ?? (() => true),
  });
  const code = (verified: Verified): string => {
    try {
      admission.admit(verified);
      return "admitted";
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return error.code;
    }
  };
  return { admission, code };
}

test("a caller has its share, another its own", () => {
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

test("all together have a limit", () => {
  const { code } = stand({ total: 2 });
  expect([code(caller("a")), code(caller("b")), code(caller("c"))]).toEqual(["admitted", "admitted", "OVERLOADED"]);
});

test("who leaves makes room, and is forgotten", () => {
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
