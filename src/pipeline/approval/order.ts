import { type Grant, MODES, type Mode, type Prior, type PriorApproval } from "../../approvals/types.ts";
import type { PolicyFinding, Refusal } from "../../core/errors.ts";
import type { Tool } from "../../core/types.ts";
import { inProgress, nobodyToAsk } from "./refusals.ts";

/** What the rules read of a call. What costs a lookup is a method, which is called when a rule needs it. */
export interface OrderFacts {
  readonly tool: Pick<Tool, "category">;
  /** The approval that the call names. */
  readonly approvalId: string | undefined;
  /** Names of the rules for which policy points require an approval. */
  readonly requiring: readonly string[];
  /** Whether the library's callback may decide. */
  readonly mayUseCallback: boolean;
  /** Whether the manifest passes the call in every mode that the session may have. False where no store could know a mode. */
  passesInEveryMode(): Promise<boolean>;
  /**
   * Returns the mode of the call's session.
   * @throws {Refusal} APPROVAL_REVOKED for a session that has ended, APPROVAL_UNAVAILABLE
   */
  mode(): Promise<Mode>;
  /** Whether the manifest passes the call in its session's mode. */
  passesByManifest(): Promise<boolean>;
  /** Returns the session's grant for exactly this call. */
  exactGrant(): Promise<Grant | undefined>;
  /** Returns the grants that cover the call within bounds and have runs left. */
  boundedGrants(): Promise<readonly Grant[]>;
  /** Returns the earlier approvals of the same call; undefined without a store, where no person can be asked. */
  prior(): Promise<Prior | undefined>;
}

/** What happens to the call by a rule. `by` names the rule, or the grant, for the audit. */
export type ApprovalStep =
  | { readonly does: "pass"; readonly by: string }
  | { readonly does: "claim"; readonly id: string }
  | { readonly does: "useGrant"; readonly grants: readonly Grant[] }
  | { readonly does: "askCallback" }
  | { readonly does: "useApproval"; readonly id: string }
  /** `earlier`: the approvals of the same call that the approver is told of. */
  | { readonly does: "askPeople"; readonly earlier: readonly PriorApproval[] }
  | { readonly does: "refuse"; readonly refusal: Refusal };

/** What one rule says: undefined about a call that the next rules decide. */
type Said = ApprovalStep | undefined;

type Rule =
  /** Lets calls pass for which no policy point requires an approval. */
  | { readonly pass: ApprovalStep; when(facts: OrderFacts): boolean | Promise<boolean> }
  | { decide(facts: OrderFacts): Said | Promise<Said> };

/** Refuses a call of a session that has ended. The rules before it need no lookup: the store may be slow or unavailable. */
const SESSION: Rule = {
  async decide(facts) {
    await facts.mode();
    return undefined;
  },
};

/** Which tools' calls a mode passes. */
const PASSED_BY: Readonly<Record<Mode, (tool: OrderFacts["tool"]) => boolean>> = {
  default: () => false,
  autoEdit: ({ category }) => category === "write",
  yolo: () => true,
};

async function passesByMode(mode: Mode, facts: OrderFacts): Promise<boolean> {
  return PASSED_BY[mode](facts.tool) && (await facts.mode()) === mode;
}

/** Returns the modes that pass calls of the tool. */
export function modesThatPass(tool: OrderFacts["tool"]): readonly Mode[] {
  return MODES.filter((mode) => PASSED_BY[mode](tool));
}

/**
 * The approval order: the first rule that decides is the only one that counts. The last one decides about every call that reaches
 * it. What policy points deny never comes here.
 */
const ORDER: readonly Rule[] = [
  // A call that names an approval claims it, even if another rule would pass the call.
  { decide: ({ approvalId }) => (approvalId === undefined ? undefined : { does: "claim", id: approvalId }) },
  { pass: passBy("category:read"), when: ({ tool }) => tool.category === "read" },
  { pass: passBy("needsApproval"), when: (facts) => facts.passesInEveryMode() },
  SESSION,
  { pass: passBy("mode:yolo"), when: (facts) => passesByMode("yolo", facts) },
  { pass: passBy("needsApproval"), when: (facts) => facts.passesByManifest() },
  { pass: passBy("mode:autoEdit"), when: (facts) => passesByMode("autoEdit", facts) },
  {
    async decide(facts) {
      const grant = await facts.exactGrant();
      return grant && passBy(grantedBy(grant));
    },
  },
  {
    async decide(facts) {
      const grants = await facts.boundedGrants();
      return grants.length === 0 ? undefined : { does: "useGrant", grants };
    },
  },
  { decide: ({ mayUseCallback }) => (mayUseCallback ? { does: "askCallback" } : undefined) },
  {
    async decide(facts) {
      const prior = await facts.prior();
      if (prior === undefined) return { does: "refuse", refusal: nobodyToAsk(rulesOf(facts)) };
      const { usable, earlier } = prior;
      if (usable === undefined) return { does: "askPeople", earlier };
      if (usable.state === "claimed") return { does: "refuse", refusal: inProgress(usable.id) };
      return { does: "useApproval", id: usable.id };
    },
  },
];

/** What happens to a call, with the position of the rule that says so. */
export interface Ruling {
  readonly step: ApprovalStep;
  readonly at: number;
}

/** Returns what the first rule says that decides, of the rules from a position on. A promise only if a rule needs a lookup. */
export function ruleOn(facts: OrderFacts, from = 0): Ruling | Promise<Ruling> {
  for (let at = from; ; at += 1) {
    const rule = ORDER[at];
    if (rule === undefined) throw new Error("no rule of the approval order decides about the call");
    const said = "pass" in rule ? passOf(rule, facts) : rule.decide(facts);
    if (said instanceof Promise)
      return said.then((step) => (step === undefined ? ruleOn(facts, at + 1) : { step, at }));
    if (said !== undefined) return { step: said, at };
  }
}

function passOf({ pass, when }: Extract<Rule, { pass: ApprovalStep }>, facts: OrderFacts): Said | Promise<Said> {
  if (facts.requiring.length > 0) return undefined;
  const passes = when(facts);
  if (passes instanceof Promise) return passes.then((isPassed) => (isPassed ? pass : undefined));
  return passes ? pass : undefined;
}

function passBy(by: string): ApprovalStep {
  return { does: "pass", by };
}

const SESSION_AT = ORDER.indexOf(SESSION);

/** Returns whether the decision does not depend on the call's session. */
export function isInAnySession({ at }: Ruling): boolean {
  return at < SESSION_AT;
}

/** Returns the name of the rule that requires the approval. The risk rules name theirs themselves. */
export function ruleOf({ point, reason }: Pick<PolicyFinding, "point" | "reason">): string {
  return point === "risk" ? reason : `policy:${point}`;
}

/** Returns the rules for which a call asks that no rule passes. */
export function rulesOf({ requiring }: Pick<OrderFacts, "requiring">): readonly string[] {
  return requiring.length > 0 ? requiring : ["default"];
}

export function grantedBy({ id }: Grant): string {
  return `grant:${id}`;
}
