import { approvingOf, reasonMeanings, ruleMeanings } from "../../../core/decision-words.ts";
import { asString, asStrings, isTable } from "../../../core/json.ts";
import { refusalSentence } from "../../../core/refusal-words.ts";
import { SHELL_RULE_NOTES } from "../../../core/shell-rule-notes.ts";
import { members } from "../api.ts";

/** The rules in force, in words, and which of them decided about a call. */

export interface RuleShown {
  /** As stories name it in links. */
  readonly rule: string;
  readonly does: "allows" | "asks" | "decides" | "denies" | "matches";
  readonly text: string;
  /** The setting that has it. */
  readonly setting: string;
  /** Lines of calls do not say that it had a part in them. */
  readonly isUncounted?: true;
  /** Filter of the calls that it decided alone, or first; undefined where no filter finds them. */
  readonly filter?: readonly [param: string, value: string];
}

export interface RuleGroup {
  readonly title: string;
  readonly rules: readonly RuleShown[];
  /** Long, and the same everywhere. */
  readonly isFolded?: true;
}

type Values = Readonly<Record<string, unknown>>;

export function rulesInForce(values: Values): readonly RuleGroup[] {
  const approvals = members(values["approvals"]);
  const groups: readonly RuleGroup[] = [
    {
      title: "Rules of the operators",
      rules: [...tablesIn(approvals["rules"]).map(operatorRule), ...pointRules(values), ...flowRules(values)],
    },
    { title: "Who approves", rules: tablesIn(approvals["policies"]).map(approverRule) },
    { title: "Calls that need a permission", rules: PERMISSIONS },
    { title: "Calls about which a person decides", rules: ASKING },
    { title: "Calls that run without asking", rules: passing(asString(approvals["mode"]) ?? "default") },
    { title: "What scripts of shells do", rules: SCRIPTS, isFolded: true },
  ];
  return groups.filter(({ rules }) => rules.length > 0);
}

const PERMISSIONS: readonly RuleShown[] = [
  {
    rule: "permissions",
    does: "denies",
    text: "The caller's token lacks a permission that the tool requires.",
    setting: "permissions.required of the tool",
    filter: ["reason", "permissions"],
  },
  {
    rule: "elevation",
    does: "denies",
    text: "With these arguments the tool requires more permissions.",
    setting: "permissions.elevatedIf of the tool",
    filter: ["reason", "elevation"],
  },
  {
    rule: "halts",
    does: "denies",
    text: refusalSentence("HALTED") ?? "",
    setting: "stc halt, or Limits",
    filter: ["reason", "halts"],
  },
];

const ASKING: readonly RuleShown[] = [
  ...(
    [
      ["destructive", "classification of the tool"],
      ["approval.required", "approval.required of the tool"],
      ["category", "category of the tool"],
      ["risk:high", "approval.risk of the tool, or a rule"],
      ["risk:critical", "approval.risk of the tool, or a rule"],
    ] as const
  ).map(([rule, setting]): RuleShown => ({ ...asking(rule), setting, filter: ["reason", `floor:${rule}`] })),
  { ...asking("default"), setting: "approvals.mode" },
];

function asking(rule: string): RuleShown {
  const text = ruleMeanings([rule])[0]?.text ?? rule;
  return { rule, does: "asks", text, setting: "" };
}

function passing(mode: string): readonly RuleShown[] {
  const rows = [
    ["category:read", "category of the tool"],
    ["needsApproval", "approval.needsApproval of the tool"],
    ["mode:autoEdit", `approvals.mode, now ${mode}, or the mode of a session`],
    ["mode:yolo", `approvals.mode, now ${mode}, or the mode of a session`],
  ] as const;
  return rows.map(([rule, setting]) => ({
    rule,
    does: "allows",
    text: approvingOf(rule)?.text ?? rule,
    setting,
    filter: ["approver", rule],
  }));
}

const SCRIPTS: readonly RuleShown[] = Object.entries(SHELL_RULE_NOTES).map(([rule, text]) => ({
  rule,
  does: "matches",
  text,
  setting: "built in",
}));

function operatorRule(rule: Values, at: number): RuleShown {
  const name = asString(rule["name"]) ?? "";
  const verdict = rule["verdict"] === "deny" ? "denies" : "asks";
  const risk = asString(rule["risk"]);
  return {
    rule: `operator:${name}`,
    does: verdict,
    text: `${name}: calls ${conditionWords(rule["when"])}${risk === undefined ? "" : `; their risk is at least ${risk}`}`,
    setting: `approvals.rules[${at}]`,
    filter: ["reason", `floor:operator:${name}`],
  };
}

function approverRule(policy: Values, at: number): RuleShown {
  const name = asString(policy["name"]) ?? "";
  const required = members(policy["require"]);
  const stages = tablesIn(required["stages"]);
  const who = (stages.length === 0 ? [required] : stages).map(stageWords).join(", then ");
  return {
    rule: `approvals:${name}`,
    does: "asks",
    text: `${name}: calls ${conditionWords(policy["when"])} need ${who}`,
    setting: `approvals.policies[${at}]`,
    isUncounted: true,
  };
}

function stageWords({ count, deciders }: Values): string {
  const { permissions, subjects } = members(deciders);
  const people = tablesIn(subjects).flatMap(({ subject }) => asString(subject) ?? []);
  const who =
    people.length > 0
      ? `of ${people.join(", ")}`
      : `with ${["approvals:decide", ...asStrings(permissions)].join(" and ")}`;
  const needed = typeof count === "number" ? count : 1;
  return `${needed === 1 ? "one person" : `${needed} people`} ${who}`;
}

function pointRules({ decisionPoints }: Values): readonly RuleShown[] {
  return tablesIn(decisionPoints).map((point, at) => {
    const name = asString(point["name"]) ?? "";
    const kind = Object.keys(point).find((key) => key === "cedar" || key === "authzen") ?? "another system";
    const calls = point["when"] === undefined ? "all calls" : `calls ${conditionWords(point["when"])}`;
    const text = `${name}: ${kind} decides about ${calls}`;
    return {
      rule: `policy:${name}`,
      does: "decides",
      text,
      setting: `decisionPoints[${at}]`,
      filter: ["reason", name],
    };
  });
}

function flowRules({ dataFlow }: Values): readonly RuleShown[] {
  if (!isTable(dataFlow)) return [];
  const found = { rule: "policy:data-flow", filter: ["reason", "data-flow"] } as const;
  const rules = tablesIn(dataFlow["rules"]).map((rule, at): RuleShown => {
    const does = rule["verdict"] === "deny" ? "denies" : "asks";
    return { ...found, does, text: `Data flow: ${flowWords(rule)}`, setting: `dataFlow.rules[${at}]` };
  });
  if (dataFlow["default"] !== "on") return rules;
  const text =
    "Data flow, by default: a caller that has read untrusted and private data sends outside; a destination appeared in untrusted text; a caller that has read untrusted text looks up private data elsewhere.";
  return [{ ...found, does: "asks", text, setting: "dataFlow.default" }, ...rules];
}

function flowWords({ after, before, unless, argument, from }: Values): string {
  const read = asStrings(after).join(" and ");
  const whom = read === "" ? "" : ` of a caller that has read ${read} data`;
  if (typeof argument === "string")
    return `calls${whom} in which a value of ${argument} appeared in ${String(from)} data`;
  const calls = before === "change" ? "calls that change something" : "calls that send outside";
  return `${calls}${whom}${unless === undefined ? "" : `, unless every destination is ${String(unless)}`}`;
}

/** Returns the conditions (`when`) of a rule in words. */
export function conditionWords(when: unknown): string {
  const words = Object.entries(members(when)).map(([name, wanted]) => {
    if (name === "args" && isTable(wanted))
      return Object.entries(wanted)
        .map(([field, value]) => `argument ${field} is ${oneOf(value)}`)
        .join(" and ");
    if (name === "shell" && isTable(wanted))
      return `a script calls ${Object.entries(wanted)
        .map(([part, value]) => `${part} ${oneOf(value)}`)
        .join(", ")}`;
    return name === "risk" ? `risk is at least ${oneOf(wanted)}` : `${SINGULAR[name] ?? name} is ${oneOf(wanted)}`;
  });
  return words.length === 0 ? "of every kind" : `where ${words.join(" and ")}`;
}

const SINGULAR: Readonly<Record<string, string>> = {
  tools: "tool",
  categories: "category",
  systems: "system",
  permissions: "a required permission",
  classifications: "classification",
};

function oneOf(value: unknown): string {
  return (Array.isArray(value) ? value : [value]).map(String).join(" or ");
}

function tablesIn(value: unknown): readonly Values[] {
  return Array.isArray(value) ? value.filter(isTable) : [];
}

/** Returns the rules that decided about a call, or had a part in it. */
export function rulesThatDecided(line: Values): readonly string[] {
  const reasons = Array.isArray(line["decisionReasons"]) ? line["decisionReasons"].map(members) : [];
  const text = (value: unknown): string => asString(value) ?? "";
  const found = reasons.flatMap(({ point, verdict, reason }) =>
    reasonMeanings({ point: text(point), verdict: text(verdict), reason: text(reason) }).map(({ rule }) => rule),
  );
  const by = asString(members(line["approval"])["by"]);
  const approving = approvingOf(by);
  if (approving !== undefined && approving.people.length === 0 && approving.grant === undefined && by !== undefined)
    return [...new Set([...found, by])];
  const isAsked = (approving?.people.length ?? 0) > 0 || members(line["error"])["code"] === "APPROVAL_REQUIRED";
  return found.length === 0 && isAsked ? ["default"] : [...new Set(found)];
}
