import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Refusal } from "../../../src/core/errors.ts";
import { AttemptFailed, refusalOf, STATUS_MEANINGS, type StatusName } from "../../../src/targets/grpc/status.ts";

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
