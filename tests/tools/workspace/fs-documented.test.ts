import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { FILE_REFUSALS } from "../../../src/targets/files/refusals.ts";

const PROJECT = join(import.meta.dir, "../../..");
const text = readFileSync(join(PROJECT, "docs/workspace.md"), "utf8");

test("the document's table of refusals is the code's", () => {
  const rows = [...text.matchAll(/^\| ((?:`E\w+` ?)+) \| (\w+) \|/gm)].flatMap(([, codes = "", status]) =>
    [...codes.matchAll(/`(\w+)`/g)].map(([, code = ""]) => [code, status] as const),
  );
  expect(Object.fromEntries(rows)).toEqual(
    Object.fromEntries(Object.entries(FILE_REFUSALS).map(([code, row]) => [code, row.status])),
  );
});
