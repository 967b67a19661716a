import { parser } from "@prometheus-io/lezer-promql";
import { Registry } from "prom-client";
import { LINE_DECISIONS } from "../../src/core/audit-fields.ts";
import { REFUSALS } from "../../src/core/refusals.ts";
import { createMetrics } from "../../src/http/metrics.ts";

type Node = ReturnType<typeof parser.parse>["topNode"];
type Labels = ReadonlySet<string>;

/** Labels that Prometheus and the chart's monitors add to every series, and `tenant`, which those of a tenant have. */
const TARGET_LABELS = ["job", "namespace", "pod", "instance", "tenant"];
/** Labels whose values are known. */
const VALUES: Readonly<Record<string, ReadonlySet<string>>> = {
  code: new Set(["OK", ...Object.keys(REFUSALS)]),
  decision: new Set([...LINE_DECISIONS, "approve", "deny"]),
};

/** Returns the series that the service defines, with their labels, as a scraper stores them. */
export function exposedSeries(): ReadonlyMap<string, Labels> {
  const register = new Registry();
  const metrics = createMetrics({ register });
  metrics.watch({});
  metrics.load.watchConnections(() => 0);
  const defined = register.getMetricsAsArray() as unknown as readonly Defined[];
  const rows = defined.flatMap(({ name, type, labelNames }) => {
    const labels = [...TARGET_LABELS, ...labelNames];
    if (type !== "histogram") return [[name, new Set(labels)] as const];
    const parts = ["_sum", "_count"].map((part) => [name + part, new Set(labels)] as const);
    return [...parts, [`${name}_bucket`, new Set([...labels, "le"])] as const];
  });
  return new Map([...rows, ["up", new Set(TARGET_LABELS)]]);
}

interface Defined {
  readonly name: string;
  readonly type: string;
  readonly labelNames: readonly string[];
}

export interface Examined {
  readonly problems: readonly string[];
  /** Labels of the result. */
  readonly labels: Labels;
}

/** Parses a query with Prometheus' own grammar, and compares its metrics, labels and values with those that exist. */
export function examine(query: string, series: ReadonlyMap<string, Labels>): Examined {
  const problems: string[] = [];
  // Grafana's variables for a range.
  const text = query.replaceAll(/\$__(?:rate_interval|interval|range)\b/g, "5m");
  const textOf = ({ from, to }: Node): string => text.slice(from, to);
  const tree = parser.parse(text);
  tree.iterate({
    enter({ type, from }) {
      if (type.isError) problems.push(`syntax error at ${from}: ${text.slice(from, from + 20)}`);
    },
  });

  const labelsOf = (node: Node): Labels => {
    if (node.name === "VectorSelector") return selectorLabels(node);
    const inner = childrenOf(node).filter(({ name }) => !CLAUSES.has(name));
    const [first = new Set<string>()] = inner.map(labelsOf).filter(({ size }) => size > 0);
    if (node.name === "BinaryExpr") {
      checkGrouping(node.getChild("MatchingModifierClause"), first);
      return first;
    }
    if (node.name === "FunctionCall" && node.getChild("FunctionIdentifier") !== null) {
      const isQuantile = textOf(node).startsWith("histogram_quantile");
      if (isQuantile && !first.has("le")) problems.push(`histogram_quantile without le: ${textOf(node)}`);
      return isQuantile ? new Set([...first].filter((label) => label !== "le")) : first;
    }
    if (node.name !== "AggregateExpr" || /^(?:top|bottom)k\b/.test(textOf(node))) return first;
    const grouped = checkGrouping(node.getChild("AggregateModifier"), first);
    return new Set(grouped);
  };

  const checkGrouping = (clause: Node | null, known: Labels): readonly string[] => {
    const names = clause?.getChildren("GroupingLabels").flatMap((each) => each.getChildren("LabelName").map(textOf));
    for (const name of names ?? []) if (!known.has(name)) problems.push(`no label ${name} to group by`);
    return names ?? [];
  };

  const selectorLabels = (node: Node): Labels => {
    const identifier = node.getChild("Identifier");
    const name = identifier === null ? "" : textOf(identifier);
    const labels = series.get(name);
    if (labels === undefined) {
      problems.push(`no metric ${name}`);
      return new Set(TARGET_LABELS);
    }
    for (const matcher of node.getChild("LabelMatchers")?.getChildren("UnquotedLabelMatcher") ?? []) {
      const [label = "", value = ""] = ["LabelName", "StringLiteral"].map((part) => {
        const found = matcher.getChild(part);
        return found === null ? "" : textOf(found);
      });
      if (!labels.has(label)) problems.push(`${name} has no label ${label}`);
      const known = VALUES[label];
      const unknown = value
        .slice(1, -1)
        .split("|")
        .filter((each) => known !== undefined && !known.has(each));
      for (const each of unknown) problems.push(`${label} is never ${each}`);
    }
    return labels;
  };

  return { labels: labelsOf(tree.topNode), problems };
}

/** Parts of an expression that have no labels of their own. */
const CLAUSES = new Set(["AggregateModifier", "MatchingModifierClause", "LabelMatchers", "AggregateOp"]);

function childrenOf(node: Node): readonly Node[] {
  const children: Node[] = [];
  for (let child = node.firstChild; child !== null; child = child.nextSibling) children.push(child);
  return children;
}
