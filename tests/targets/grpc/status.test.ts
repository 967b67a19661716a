import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { status as codes, Metadata } from "@grpc/grpc-js";
import fc from "fast-check";
import { Refusal } from "../../../src/core/errors.ts";
import { AttemptFailed, attemptFailed, type StatusName } from "../../../src/egress/grpc/attempt.ts";
import { RESILIENCE_DEFAULTS, Resilience } from "../../../src/egress/resilience.ts";
import { refusalOf, STATUS_MEANINGS } from "../../../src/targets/grpc/status.ts";

const README = readFileSync(join(import.meta.dir, "../../../tools/README.md"), "utf8");

function codeFor(status: StatusName, safe: boolean): string {
  const failed = new AttemptFailed({ origin: "service", status, answerStarted: false, sent: true });
  return refusalOf(failed, { system: "s", path: "/p", safe, signal: new AbortController().signal }).code;
}

test.each<[string, "withheld" | "filtered" | undefined, StatusName, "service" | "transport", string | undefined]>([
  ["by default nothing", undefined, "FAILED_PRECONDITION", "service", undefined],
  ["nothing where the manifest withholds it", "withheld", "FAILED_PRECONDITION", "service", undefined],
  ["a no of the service", "filtered", "FAILED_PRECONDITION", "service", "words"],
  ["a failure of the service", "filtered", "INTERNAL", "service", "words"],
  ["nothing of the connection's faults", "filtered", "INTERNAL", "transport", undefined],
  ["nothing of an ending that is neither", "filtered", "UNAVAILABLE", "service", undefined],
])("the part of a service's message that is kept: %s", (_title, errors, status, origin, want) => {
  const failed = new AttemptFailed({ origin, status, answerStarted: true, sent: true, text: "words" });
  const refusal = refusalOf(failed, {
    system: "s",
    path: "/p",
    safe: true,
    signal: new AbortController().signal,
    errors,
  });
  expect(Refusal.targetTextOf(refusal)).toBe(want);
  expect(Bun.inspect(refusal) + JSON.stringify(refusal)).not.toContain("words");
});

const documented = [...README.matchAll(/^\| ([A-Z_]+) +\| ([A-Z_]+) +\| ([A-Z_]+) +\|/gm)].map(
  ([, status = "", safe = "", change = ""]) => ({ status, safe, change }),
);

test("the documented table of statuses matches the code", () => {
  const real = Object.keys(STATUS_MEANINGS)
    .filter((status): status is StatusName => status !== "OK")
    .map((status) => ({ status, safe: codeFor(status, true), change: codeFor(status, false) }));
  expect(documented).toEqual(real);
});

describe("a service that says how long to wait", () => {
  /** A field of a message: its number and length come first. */
  const field = (number: number, content: Uint8Array | string): Buffer => {
    const bytes = Buffer.from(content);
    return Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes]);
  };
  const varint = (value: number): readonly number[] =>
    value < 128 ? [value] : [(value % 128) + 128, ...varint(Math.floor(value / 128))];
  const detail = (type: string, message: Uint8Array): Buffer =>
    field(3, Buffer.concat([field(1, `type.googleapis.com/google.rpc.${type}`), field(2, message)]));
  const retryInfo = (seconds: number, nanos = 0): Buffer => {
    const duration = Buffer.from([8, ...varint(seconds), ...(nanos > 0 ? [16, ...varint(nanos)] : [])]);
    return detail("RetryInfo", field(1, duration));
  };
  const failedWith = (name: "UNAVAILABLE" | "RESOURCE_EXHAUSTED" | "INTERNAL", details: Uint8Array): AttemptFailed => {
    const metadata = new Metadata();
    metadata.set("grpc-status-details-bin", Buffer.from(details));
    metadata.set("content-type", "application/grpc");
    return attemptFailed({ code: codes[name], details: "", metadata }, "none");
  };
  const call = (safe: boolean) => ({ system: "s", path: "/p", safe, signal: new AbortController().signal });
  const help = detail("Help", field(1, field(1, "see the page")));

  test.each([
    ["RESOURCE_EXHAUSTED", true, retryInfo(30), "TARGET_UNAVAILABLE", 30_000],
    ["RESOURCE_EXHAUSTED", false, retryInfo(30), "TARGET_UNAVAILABLE", 30_000],
    ["UNAVAILABLE", true, Buffer.concat([help, retryInfo(30, 500_000_000)]), "TARGET_UNAVAILABLE", 30_500],
    ["UNAVAILABLE", true, retryInfo(86_400), "TARGET_UNAVAILABLE", 3_600_000],
    ["UNAVAILABLE", false, retryInfo(30), "OUTCOME_UNKNOWN", undefined],
    ["RESOURCE_EXHAUSTED", true, help, "TARGET_FAILED", undefined],
    ["RESOURCE_EXHAUSTED", true, retryInfo(0), "TARGET_FAILED", undefined],
    ["INTERNAL", true, retryInfo(30), "TARGET_FAILED", undefined],
  ] as const)("%s, safe to repeat: %p", (name, safe, details, code, ms) => {
    const refused = refusalOf(failedWith(name, details), call(safe));
    expect([refused.code, refused.retryAfterMs]).toEqual([code, ms]);
  });

  test("is called once when that is longer than a call waits", async () => {
    const resilience = new Resilience(RESILIENCE_DEFAULTS, () => 0);
    let attempts = 0;
    const attempt = (): Promise<never> => {
      attempts += 1;
      return Promise.reject(failedWith("UNAVAILABLE", retryInfo(30)));
    };
    const run = resilience.run({ ...call(true), attempt, connected: () => true });
    expect(await run.catch((error: AttemptFailed) => error.waitMs)).toBe(30_000);
    expect(attempts).toBe(1);
  });

  test("details that are not valid say nothing", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), fc.nat(40), (bytes, cut) => {
        for (const details of [bytes, retryInfo(30).subarray(0, cut), Buffer.concat([retryInfo(30), bytes])]) {
          const { waitMs } = failedWith("RESOURCE_EXHAUSTED", details);
          expect(Number.isInteger(waitMs) && waitMs >= 0 && waitMs <= 3_600_000).toBe(true);
        }
      }),
    );
  });
});
