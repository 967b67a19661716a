import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { alertRules, CHART, PROJECT } from "./documents.ts";
import { examine, exposedSeries } from "./promql.ts";

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets: readonly { readonly refId: string; readonly expr: string; readonly legendFormat: string }[];
}

const FOLDER = join(CHART, "files/dashboards");
const DASHBOARDS = readdirSync(FOLDER).map((file) => ({
  file,
  ...(JSON.parse(readFileSync(join(FOLDER, file), "utf8")) as {
    readonly uid: string;
    readonly panels: readonly Panel[];
    readonly templating: { readonly list: readonly { readonly name: string }[] };
  }),
}));
const OVERVIEW = "safe-tool-call-overview.json";
const series = exposedSeries();

/** Problems of a query, and labels that a text about its result names and the result does not have. */
function problemsOf(query: string, text: string, named: RegExp): readonly string[] {
  const { problems, labels } = examine(query, series);
  const missing = [...text.matchAll(named)].flatMap(([, label = ""]) => (labels.has(label) ? [] : [label]));
  return [...problems, ...missing.map((label) => `the result has no label ${label}`)];
}

describe("every query of a dashboard uses metrics, labels and values that exist", () => {
  test.each(DASHBOARDS.map((dashboard) => [dashboard.file, dashboard] as const))("%s", (file, dashboard) => {
    expect(file).toBe(`${dashboard.uid}.json`);
    expect(dashboard.panels.length).toBeGreaterThan(8);
    const problems = dashboard.panels.flatMap(({ title, targets }) =>
      targets.flatMap(({ expr, legendFormat }) =>
        problemsOf(expr, legendFormat, /\{\{(\w+)\}\}/g).map((problem) => `${title}: ${problem}`),
      ),
    );
    expect(problems).toEqual([]);
    const variables = new Set(dashboard.templating.list.map(({ name }) => name));
    const used = [...JSON.stringify(dashboard.panels).matchAll(/\$\{?(?!__)(\w+)/g)].map(([, name = ""]) => name);
    expect(used.filter((name) => !variables.has(name))).toEqual([]);
  });

  test("an overview is among them", () => {
    expect(DASHBOARDS.map(({ file }) => file)).toContain(OVERVIEW);
  });

  test("panels have ids and places of their own", () => {
    for (const { panels } of DASHBOARDS) {
      expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
      const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
        Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)} ${y + Math.floor(cell / w)}`),
      );
      expect(new Set(cells).size).toBe(cells.length);
    }
  });
});

test("every alert uses metrics, labels and values that exist", () => {
  const rules = alertRules();
  expect(rules.length).toBeGreaterThan(25);
  const problems = rules.flatMap(({ alert, expr, annotations }) =>
    problemsOf(expr, annotations.summary, /\$labels\.(\w+)/g).map((problem) => `${alert}: ${problem}`),
  );
  expect(problems).toEqual([]);
});

test.each([
  ["sum(rate(stc_cals_total[5m]))", "no metric stc_cals_total"],
  ['stc_calls_total{tol="x"}', "stc_calls_total has no label tol"],
  ['sum(rate(stc_calls_total{code=~"OK|TIMEOUT"}[5m]))', "code is never TIMEOUT"],
  ["sum by (exporter) (stc_calls_in_flight)", "no label exporter to group by"],
  ["histogram_quantile(0.9, sum by (pod) (rate(stc_audit_sync_seconds_bucket[5m])))", "histogram_quantile without le"],
  ["sum by (tool) (rate(stc_calls_total[5m])", "syntax error"],
  ["stc_audit_sync_seconds", "no metric stc_audit_sync_seconds"],
])("%s is refused", (query, problem) => {
  expect(examine(query, series).problems.join("\n")).toContain(problem);
});

test("a label that the aggregation has dropped is found in a summary", () => {
  expect(problemsOf("sum by (tool) (stc_calls_total)", "{{ $labels.pod }}", /\$labels\.(\w+)/g)).toEqual([
    "the result has no label pod",
  ]);
});

test("each alert leads to its runbook, which says what it means, what to look at and what to do", () => {
  const page = readFileSync(join(PROJECT, "docs/runbooks.md"), "utf8");
  const sections = new Map(
    page.split(/^### /m).flatMap((section) => {
      const [, title] = /^(SafeToolCall\w+)\n/.exec(section) ?? [];
      return title === undefined ? [] : [[title, section] as const];
    }),
  );
  const rules = alertRules();
  expect([...sections.keys()].sort()).toEqual(rules.map(({ alert }) => alert).sort());
  for (const { alert, annotations } of rules) {
    expect(annotations.runbook_url).toEndWith(`/docs/runbooks.md#${alert.toLowerCase()}`);
    const words = [...(sections.get(alert) ?? "").matchAll(/\*\*(\w[\w ]*)\*\*[:,]/g)].map(([, word]) => word);
    expect([alert, ...words.map((word) => word?.toLowerCase())]).toEqual([alert, "means", "look at", "do"]);
  }
});
