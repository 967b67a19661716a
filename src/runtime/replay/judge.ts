import { HIDDEN } from "../../approvals/operator-rules.ts";
import type { RiskAssessment } from "../../approvals/risk.ts";
import { floorVerdict } from "../../approvals/risk-point.ts";
import type { Mode } from "../../approvals/types.ts";
import type { Statement } from "../../core/api/explain.ts";
import { type DryRunVerdict, VERDICTS } from "../../core/call-result.ts";
import { Refusal } from "../../core/errors.ts";
import type { RegisteredTool } from "../../core/evidence.ts";
import type { PointStage, PolicyPoint, PolicyRequests } from "../../core/policy-point.ts";
import type { RefusalCode } from "../../core/refusals.ts";
import type { CallerContext, ExecutionPlan } from "../../core/types.ts";
import { acceptsCallback } from "../../pipeline/approval/callback.ts";
import { ManifestRule } from "../../pipeline/approval/manifest.ts";
import { isInAnySession, type Ruling, ruleOf, ruleOn, rulesOf } from "../../pipeline/approval/order.ts";
import { couldUse } from "../../pipeline/built-in-points.ts";
import { DATA_FLOW, type PointDecision } from "../../pipeline/policy-points.ts";
import { readInput } from "../../pipeline/schema-validator.ts";
import type { Parts } from "../composition/assembly.ts";
import type { Config } from "../config/config.ts";
import type { FlowJudge } from "./flow.ts";

/** What policies say about a call: it runs, a person is asked, or it gets a refusal with this code. */
export type CallVerdict = "allow" | "ask" | RefusalCode;

/** The arguments of a call, as far as they are known. */
export type KnownArguments =
  | { readonly kind: "sent"; readonly value: unknown }
  | {
      readonly kind: "hidden";
      /** Whether the input schema accepts them; undefined when that is not known. */
      readonly isAccepted: boolean | undefined;
      /** The parsed arguments, with `HIDDEN` in place of unknown values, or `HIDDEN` itself. */
      readonly shown: unknown;
    };

export interface JudgedCall {
  readonly tool: string;
  readonly caller: CallerContext;
  readonly args: KnownArguments;
  /** Mode of the call's session. */
  readonly mode: Mode;
  /** Whether the call has a session, of which a store may know a mode. Default: it has none. */
  readonly hasSession?: boolean;
  /** The call's plan, if it was made. Otherwise only what follows from the arguments is known of it. */
  readonly plan?: ExecutionPlan | undefined;
}

export interface Judgement {
  /** Every verdict that the call can have. More than one when something that decides is not known. */
  readonly verdicts: ReadonlySet<CallVerdict>;
  /** What is not known and decides. */
  readonly unknown: ReadonlySet<Unknown>;
  readonly statements: readonly Statement[];
  readonly registered?: RegisteredTool | undefined;
  /** The refusal that ends the call, if one is certain. */
  readonly refusal?: Refusal | undefined;
  readonly assessment?: RiskAssessment | undefined;
  /** The rules for which a call asks that a grant may cover; undefined for every other call. */
  readonly grantableRules?: readonly string[] | undefined;
  /** Set for a call that passes without looking its session up. */
  readonly isInAnySession?: true | undefined;
}

/**
 * `arguments`: their values; `schema`: whether the schema accepts them; `plan`; `points`: policy points that are not asked; `flow`:
 * what the caller has read.
 */
export type Unknown = "arguments" | "schema" | "plan" | "points" | "flow";

export interface JudgeOptions {
  readonly parts: Pick<Parts, "registry" | "policy" | "risk">;
  readonly config: Pick<Config, "approvals">;
  /** Which policy points are asked that are not built in. */
  readonly asks: (point: PolicyPoint) => boolean;
  /** Judges by what the caller has read; undefined: data flow is off. */
  readonly flow?: FlowJudge | undefined;
  /** Whether an approver can be asked without an approval store. */
  readonly hasCallback?: boolean;
}

/**
 * Returns what the policies of a configuration say about a call, from its arguments alone: nothing is planned, looked up, written
 * or counted. Limits, halts, quotas and approvals that were given before are no part of it.
 */
export async function judge(options: JudgeOptions, call: JudgedCall): Promise<Judgement> {
  const { registered } = options.parts.registry.find(call.tool);
  const judging = new Judging(options, call);
  if (registered === undefined) {
    judging.state("REGISTRY", { point: "registry", verdict: "deny", reasons: [], code: "TOOL_NOT_FOUND" });
    return judging.end(["TOOL_NOT_FOUND"]);
  }
  return judging.run(registered);
}

/** The id that decision points see of a call that is only judged. */
const NO_TRACE = { traceId: "judged" };

/** Collects what is said about one call. */
class Judging {
  readonly #options: JudgeOptions;
  readonly #call: JudgedCall;
  readonly #statements: Statement[] = [];
  readonly #possible = new Set<CallVerdict>();
  readonly #unknown = new Set<Unknown>();
  #registered: RegisteredTool | undefined;
  #refusal: Refusal | undefined;
  #assessment: RiskAssessment | undefined;
  /** Whether a policy point requires an approval; undefined when that is not known. */
  #isRequired: boolean | undefined = false;
  /** Whether only a person may approve. */
  #needsPeople = false;
  /** The rules that require an approval. */
  readonly #requiring = new Set<string>();
  /** Whether a grant may cover the call. */
  #isRememberable = true;

  constructor(options: JudgeOptions, call: JudgedCall) {
    this.#options = options;
    this.#call = call;
  }

  async run(registered: RegisteredTool): Promise<Judgement> {
    this.#registered = registered;
    const { tool, binding } = registered;
    const { caller, args } = this.#call;
    const denied = await this.#ask("permission", { tool, caller });
    if (denied !== undefined) return this.end([denied]);
    if (args.kind === "hidden") return this.#runHidden(registered, args);
    let input: unknown;
    try {
      input = readInput(tool, args.value);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.#refusal = error;
      this.state("VALIDATION", { point: "schema", verdict: "deny", reasons: [error.message], code: error.code });
      return this.end([error.code]);
    }
    const elevated = await this.#ask("elevation", { tool, caller, input });
    if (elevated !== undefined) return this.end([elevated]);
    const pure = binding.planForRules === undefined ? NO_PLAN : binding.planForRules(input);
    const plan = this.#call.plan ?? pure;
    if (plan === undefined) {
      this.#unknown.add("plan");
      const stopped = await this.#askFlow(tool, input);
      if (stopped !== undefined) return this.end([stopped]);
      return this.#endByRules(registered, { input, bounds: this.#boundsOf(registered, input, true) });
    }
    const refused = await this.#ask("approval", { tool, caller, input, plan });
    if (refused !== undefined) return this.end([refused]);
    const stopped = await this.#askFlow(tool, input);
    if (stopped !== undefined) return this.end([stopped]);
    if (this.#isRequired === true) return this.#endByRuling(await this.#requiredRuling(tool));
    if (this.#isRequired === undefined) this.#possible.add(verdictOf(await this.#requiredRuling(tool)));
    const ruling = await this.#ruling(tool, new ManifestRule({ tool, input, caller }));
    if (this.#isRequired === undefined) return this.#endByRuling(ruling);
    const { step } = ruling;
    const said =
      step.does === "pass"
        ? ({ verdict: "allow", reasons: [step.by] } as const)
        : ({ verdict: "ask", reasons: rulesOf({ requiring: [] }) } as const);
    this.state("APPROVAL", { point: "approval", ...said });
    return this.#endByRuling(ruling);
  }

  #endByRuling(ruling: Ruling): Judgement {
    const passes = ruling.step.does === "pass";
    const isGrantable = !passes && this.#isRememberable && this.#assessment?.rememberable === true;
    return {
      ...this.end([verdictOf(ruling)]),
      ...(isGrantable && { grantableRules: rulesOf({ requiring: [...this.#requiring] }) }),
      ...(passes && this.#isRequired === false && isInAnySession(ruling) && { isInAnySession: true }),
    };
  }

  state(stage: Statement["stage"], statement: Omit<Statement, "stage">): void {
    this.#statements.push({ stage, ...statement });
  }

  end(verdicts: readonly CallVerdict[]): Judgement {
    const all = new Set([...this.#possible, ...verdicts]);
    return {
      verdicts: all,
      unknown: all.size > 1 ? this.#unknown : new Set(),
      statements: this.#statements,
      registered: this.#registered,
      refusal: this.#refusal,
      assessment: this.#assessment,
    };
  }

  /** Asks the points of a stage. Returns the code of a denial. */
  async #ask<Stage extends PointStage>(stage: Stage, request: PolicyRequests[Stage]): Promise<RefusalCode | undefined> {
    const { parts, asks } = this.#options;
    const { statements, unasked, assessment } = await parts.policy.state(stage, request, NO_TRACE, asks);
    this.#assessment = assessment ?? this.#assessment;
    const shown = stage === "approval" ? "APPROVAL" : "PERMISSION";
    for (const statement of statements) this.state(shown, statementOf(statement));
    for (const point of unasked) this.state(shown, { point, verdict: "unknown", reasons: ["was not asked"] });
    const denial = statements.map(({ decision }) => decision).find(({ verdict }) => verdict === "deny");
    if (denial?.verdict === "deny") {
      const { code = "POLICY_DENIED", message = "", details } = denial;
      this.#refusal = new Refusal(code, message, { details });
      return code;
    }
    for (const { point, decision } of statements) {
      if (decision.verdict !== "requireApproval") continue;
      this.#isRequired = true;
      if (decision.rememberable !== true) this.#isRememberable = false;
      for (const reason of decision.reasons) this.#requiring.add(ruleOf({ point, reason }));
    }
    if (unasked.length > 0) this.#notAsked();
    return undefined;
  }

  /** Judges by what the caller has read. Returns the code of a denial that is certain. */
  async #askFlow(tool: RegisteredTool["tool"], input: unknown): Promise<RefusalCode | undefined> {
    const found = await this.#options.flow?.({ tool, caller: this.#call.caller, input });
    if (found === undefined) return undefined;
    const { verdicts, reasons } = found;
    const isCertain = verdicts.size === 1;
    const [verdict = "allow"] = isCertain ? verdicts : (["unknown"] as const);
    this.state("APPROVAL", {
      point: DATA_FLOW,
      verdict,
      reasons,
      ...(verdict === "deny" && { code: "POLICY_DENIED" }),
    });
    if (!isCertain) this.#unknown.add("flow");
    if (verdict === "deny") return "POLICY_DENIED";
    if (verdicts.has("deny")) this.#possible.add("POLICY_DENIED");
    if (!verdicts.has("ask")) return undefined;
    this.#isRememberable = false;
    if (!verdicts.has("allow")) {
      this.#isRequired = true;
      this.#needsPeople = true;
    } else if (this.#isRequired === false) this.#isRequired = undefined;
    return undefined;
  }

  /** A point that is not asked may deny, or require an approval. */
  #notAsked(): void {
    this.#unknown.add("points");
    this.#possible.add("POLICY_DENIED");
    if (this.#isRequired === false) this.#isRequired = undefined;
  }

  async #runHidden(
    registered: RegisteredTool,
    { isAccepted, shown }: KnownArguments & { kind: "hidden" },
  ): Promise<Judgement> {
    const { tool } = registered;
    const { permissions } = this.#call.caller;
    if (isAccepted === false) return this.end(["INVALID_INPUT"]);
    if (isAccepted === undefined) {
      this.#possible.add("INVALID_INPUT");
      this.#unknown.add("schema");
    }
    const { elevatedIf } = tool.permissions;
    if (elevatedIf !== undefined && !couldUse(permissions, elevatedIf.required)) {
      this.#possible.add("PERMISSION_DENIED");
      this.#unknown.add("arguments");
    }
    if (this.#options.parts.policy.readsArguments(tool)) this.#notAsked();
    const stopped = await this.#askFlow(tool, HIDDEN);
    if (stopped !== undefined) return this.end([stopped]);
    const hasScript = registered.binding.planForRules !== undefined;
    return this.#endByRules(registered, { input: HIDDEN, bounds: this.#boundsOf(registered, shown, hasScript) });
  }

  #boundsOf({ tool }: RegisteredTool, shown: unknown, hasScript: boolean): readonly RiskAssessment[] {
    const { least, most } = this.#options.parts.risk.bounds(tool, shown, hasScript);
    const [from, to] = [least, most].map((assessment) => VERDICTS.indexOf(riskVerdict(tool, assessment)));
    if (from !== to) this.#unknown.add("arguments");
    // Every level between both is possible, too.
    return from === 0 && to === 2 ? [least, { ...least, verdict: "ask" }, most] : [least, most];
  }

  /** Ends with every verdict that the assessments allow. `input` is `HIDDEN` or the parsed arguments. */
  async #endByRules(
    { tool }: RegisteredTool,
    { input, bounds }: { readonly input: unknown; readonly bounds: readonly RiskAssessment[] },
  ): Promise<Judgement> {
    const verdicts: CallVerdict[] = [];
    const { caller } = this.#call;
    for (const assessment of bounds) {
      const level = riskVerdict(tool, assessment);
      if (level === "deny") {
        verdicts.push("POLICY_DENIED");
        continue;
      }
      if (level === "ask" || this.#isRequired !== false) verdicts.push(verdictOf(await this.#requiredRuling(tool)));
      if (level === "ask" || this.#isRequired === true) continue;
      const isDecidedByArguments = input === HIDDEN && tool.approval.needsApproval !== undefined;
      const manifest = isDecidedByArguments ? undefined : new ManifestRule({ tool, input, caller });
      const ruling = await this.#ruling(tool, manifest);
      verdicts.push(verdictOf(ruling));
      if (isDecidedByArguments && ruling.step.does !== "pass") {
        verdicts.push("allow");
        this.#unknown.add("arguments");
      }
    }
    return this.end(verdicts);
  }

  /** Returns the ruling on a call of the tool that policy points require an approval of. */
  #requiredRuling(tool: RegisteredTool["tool"]): Ruling | Promise<Ruling> {
    return this.#ruling(tool, undefined, ["policy"]);
  }

  /** Returns what the approval order says, if there are no grants and no earlier approvals. Without `manifest`, it passes no call. */
  #ruling(
    tool: RegisteredTool["tool"],
    manifest: ManifestRule | undefined,
    requiring: readonly string[] = [],
  ): Ruling | Promise<Ruling> {
    const { mode, hasSession = false } = this.#call;
    const { config, hasCallback = false } = this.#options;
    const { approvals } = config;
    const hasStore = approvals.store !== undefined || approvals.storeUrlFile !== undefined;
    const isForCallback = !this.#needsPeople && acceptsCallback({ assessment: this.#assessment ?? {} });
    return ruleOn({
      tool,
      approvalId: undefined,
      requiring,
      mayUseCallback: hasCallback && isForCallback,
      passesInEveryMode: async () => hasStore && hasSession && (await manifest?.passesInEveryMode()) === true,
      mode: async () => mode,
      passesByManifest: async () => (await manifest?.passesIn(mode)) === true,
      exactGrant: async () => undefined,
      boundedGrants: async () => [],
      prior: async () => (hasStore ? { usable: undefined, earlier: [] } : undefined),
    });
  }
}

function verdictOf({ step }: Ruling): CallVerdict {
  if (step.does === "refuse") return step.refusal.code;
  return step.does === "askCallback" || step.does === "askPeople" ? "ask" : "allow";
}

/** In place of a plan of which the risk rules read nothing. */
const NO_PLAN: ExecutionPlan = { kind: "none" };

function riskVerdict(tool: RegisteredTool["tool"], assessment: RiskAssessment): DryRunVerdict {
  return floorVerdict(tool, assessment)?.verdict ?? "allow";
}

function statementOf({ point, decision }: PointDecision): Omit<Statement, "stage"> {
  if (decision.verdict === "allow") return { point, verdict: "allow", reasons: [] };
  const { reasons } = decision;
  if (decision.verdict === "requireApproval") return { point, verdict: "ask", reasons };
  return { point, verdict: "deny", reasons, code: decision.code ?? "POLICY_DENIED" };
}
