import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { AttemptFailed, refusalOf, STATUS_MEANINGS, type StatusName } from "../../../src/handlers/grpc/status.ts";

const README = readFileSync(join(import.meta.dir, "../../../tools/README.md"), "utf8");

function codeFor(status: StatusName, safe: boolean): string {
  const failed = new AttemptFailed({ origin: "service", status, begun: false, sent: true });
  return refusalOf(failed, { system: "s", path: "/p", safe, signal: new AbortController().signal }).code;
}

const documented = [...README.matchAll(/^\| ([A-Z_]+) +\| ([A-Z_]+) +\| ([A-Z_]+) +\|/gm)].map(
  ([, status = "", safe = "", change = ""]) => ({ status, safe, change }),
);

test("the documented table of statuses is the code's", () => {
  const real = Object.keys(STATUS_MEANINGS)
    .filter((status): status is StatusName => status !== "OK")
    .map((status) => ({ status, safe: codeFor(status, true), change: codeFor(status, false) }));
  expect(documented).toEqual(real);
});
