import { HIDDEN } from "../../approvals/operator-rules.ts";
import type { DryRunVerdict } from "../../core/call-result.ts";
import type { CallerContext, Tool } from "../../core/types.ts";
import type { DataFlowPolicy, FlowJudgement, FlowRule } from "../../data-flow/flow.ts";
import type { Parts } from "../composition/assembly.ts";
import { flowContextOf, flowRulesOf, isDataFlowOn } from "../composition/data-flow.ts";
import type { Config } from "../config/config.ts";

/** What data flow says about a call: every verdict that is possible by what is known, and why. */
export interface FlowVerdict {
  readonly verdicts: ReadonlySet<DryRunVerdict>;
  readonly reasons: readonly string[];
}

interface FlowCall {
  readonly tool: Tool;
  readonly caller: CallerContext;
  /** `HIDDEN` or the parsed arguments. */
  readonly input: unknown;
}

/** Judges a call by what its caller has read; undefined when that does not matter to the tool. */
export type FlowJudge = (call: FlowCall) => FlowVerdict | undefined | Promise<FlowVerdict | undefined>;

/** What an audit entry says of data flow. */
export interface RecordedFlow {
  /** Labels that the call carried; undefined when the entry names none. */
  readonly before: readonly string[] | undefined;
  readonly sources: readonly RecordedSource[];
}

interface RecordedSource {
  readonly argument: string;
  readonly labels: readonly string[];
  readonly isTrusted: boolean;
  readonly isWhole: boolean;
}

/** Entries name at most this many sources of one argument, so that there may have been others. */
const SOURCES_MAX = 3;

/**
 * Returns what judges calls by what their callers have read until now, as a running service remembers it. `seen` receives what was
 * found.
 */
export function liveFlowJudge(
  policy: Pick<DataFlowPolicy, "judges" | "preview">,
  seen: (judgement: FlowJudgement) => void,
): FlowJudge {
  return async (call) => {
    if (!policy.judges(call.tool)) return undefined;
    const judgement = await policy.preview(call);
    seen(judgement);
    const { findings } = judgement;
    const asks = findings.length > 0 ? "ask" : "allow";
    const verdict = findings.some((finding) => finding.verdict === "deny") ? "deny" : asks;
    return { verdicts: new Set([verdict]), reasons: findings.map(({ reason }) => reason) };
  };
}

type Applies = "yes" | "no" | "maybe";

/**
 * Returns what judges calls by the labels and sources that were recorded, by the rules of a configuration; undefined when its data
 * flow is off. What recorded facts leave open stays open.
 */
export async function recordedFlowJudge(
  config: Pick<Config, "dataFlow" | "commands" | "systems">,
  { loaded, targetKinds }: Pick<Parts, "loaded" | "targetKinds">,
): Promise<((recorded: RecordedFlow) => FlowJudge) | undefined> {
  if (!isDataFlowOn(config, loaded.tools)) return undefined;
  const [{ DEFAULT_RULES, mattersTo }, { toolFlow }, { Fingerprints }, { needlesOf, originsOf }] = await Promise.all([
    import("../../data-flow/flow.ts"),
    import("../../data-flow/declarations.ts"),
    import("../../data-flow/fingerprints.ts"),
    import("../../data-flow/origins.ts"),
  ]);
  const rules = flowRulesOf(config, DEFAULT_RULES);
  // Nothing is compared with these fingerprints: they only tell which arguments have a value that can be looked up.
  const fingerprints = new Fingerprints(new Uint8Array(32));
  const flows = new Map<Tool, ReturnType<typeof toolFlow>>();
  return (recorded) =>
    ({ tool, input }) => {
      const flow = flows.get(tool) ?? toolFlow(tool, flowContextOf(config, targetKinds));
      flows.set(tool, flow);
      if (!mattersTo(flow, rules)) return undefined;
      const isHidden = input === HIDDEN;
      const needles = isHidden ? undefined : needlesOf(fingerprints, input, flow.destinations);
      const origins = needles === undefined ? [] : originsOf(needles, []);
      const destinations = origins.filter(({ isDestination }) => isDestination).map(({ argument }) => argument);
      return verdictOf(rules, {
        ...recorded,
        isHidden,
        destinations,
        changes: flow.changes,
        sendsOutside: flow.sendsOutside,
        mayBeNobody: flow.mayBeNobody,
        looksUp: flow.looksUp,
        hasDestinations: flow.hasDestinations,
        isCut: needles?.isCut === true,
      });
    };
}

interface Facts extends RecordedFlow {
  readonly isHidden: boolean;
  /** Arguments that say where something goes and have a value. */
  readonly destinations: readonly string[];
  readonly changes: boolean;
  readonly sendsOutside: boolean;
  readonly mayBeNobody: boolean;
  readonly looksUp: boolean;
  readonly hasDestinations: boolean;
  readonly isCut: boolean;
}

function verdictOf(rules: readonly FlowRule[], facts: Facts): FlowVerdict {
  const found = rules.map((rule) => ({ rule, applies: "before" in rule ? after(rule, facts) : from(rule, facts) }));
  const has = (verdict: FlowRule["verdict"], applies: Applies): boolean =>
    found.some((one) => one.rule.verdict === verdict && one.applies === applies);
  const reasons = found.flatMap(({ rule, applies }) => (applies === "no" ? [] : [ruleText(rule, applies)]));
  if (has("deny", "yes")) return { verdicts: new Set(["deny"]), reasons };
  const verdicts = new Set<DryRunVerdict>();
  if (has("deny", "maybe")) verdicts.add("deny");
  if (has("ask", "yes") || has("ask", "maybe")) verdicts.add("ask");
  if (!has("ask", "yes")) verdicts.add("allow");
  return { verdicts, reasons };
}

function sends({ sendsOutside, mayBeNobody, isHidden, isCut, destinations }: Facts): Applies {
  if (!sendsOutside) return "no";
  if (!mayBeNobody || isCut || destinations.length > 0) return "yes";
  return isHidden ? "maybe" : "no";
}

function after(rule: Extract<FlowRule, { before: unknown }>, facts: Facts): Applies {
  const { before, destinations, isHidden } = facts;
  const changing = facts.changes ? "yes" : "no";
  const sending = rule.before === "change" ? changing : sends(facts);
  if (sending === "no" || (before !== undefined && !rule.after.every((label) => before.includes(label)))) return "no";
  const mayBeVouched = rule.unless !== undefined && (isHidden || destinations.length > 0);
  return before === undefined || sending === "maybe" || mayBeVouched ? "maybe" : "yes";
}

function from(
  { argument, from: label, after: carried = [] }: Extract<FlowRule, { argument: unknown }>,
  facts: Facts,
): Applies {
  const { before, sources, destinations, isHidden, isCut, hasDestinations } = facts;
  if (isCut) return "yes";
  const takesLookups = argument === "any" || argument === "lookups";
  const leaves = (argument !== "lookups" && sends(facts) !== "no") || (takesLookups && facts.looksUp);
  const isConcerned = argument === "destinations" ? hasDestinations && (isHidden || destinations.length > 0) : leaves;
  const isCarried = before === undefined || [label, ...carried].every((one) => before.includes(one));
  if (!isConcerned || !isCarried) return "no";
  if (argument !== "destinations" || label !== "untrusted") return "maybe";
  const isCertain = destinations.some((destination) => {
    const named = sources.filter((source) => source.argument === destination);
    const isTold = named.some(({ labels, isWhole }) => isWhole && labels.includes("untrusted"));
    return isTold && named.length < SOURCES_MAX && named.every(({ isTrusted }) => !isTrusted);
  });
  return isCertain ? "yes" : "maybe";
}

function ruleText(rule: FlowRule, applies: Applies): string {
  const begin = applies === "maybe" ? "depends on what the caller has read: " : "";
  return "before" in rule
    ? `${begin}${rule.after.join(" and ")} data before ${rule.before === "change" ? "a change" : rule.before}`
    : `${begin}${rule.argument} from ${rule.from} ${rule.from === "private" ? "data" : "text"}`;
}
