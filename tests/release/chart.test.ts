import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { packChart } from "../../deploy/release/chart.ts";
import { CASES, HELM, rendered } from "../deploy/helm.ts";
import { run } from "../support/stc.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-chart-")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const first = await packChart(join(folder, "first"));

test("the chart of a release has the same bytes twice, and no cases of the tests", async () => {
  const second = await packChart(join(folder, "second"));
  expect(readFileSync(first).equals(readFileSync(second))).toBe(true);
  const files = (await run(["tar", "--list", "--file", first])).out.split("\n");
  expect(files).toContain("safe-tool-call/Chart.yaml");
  expect(files).toContain("safe-tool-call/LICENSE");
  expect(files.filter((file) => file.startsWith("safe-tool-call/ci"))).toEqual([]);
});

test.skipIf(HELM === undefined)("Helm renders it as the folder", async () => {
  expect(CASES.length).toBeGreaterThan(3);
  for (const name of CASES.slice(0, 2)) {
    expect(await rendered({ case: name, chart: first })).toEqual([...(await rendered({ case: name }))]);
  }
});
