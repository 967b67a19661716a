import { z } from "zod";
import type { ApprovalCallback } from "../../../src/approvals/callback.ts";
import { createRiskRules } from "../../../src/approvals/risk.ts";
import type { Approvals, Mode } from "../../../src/approvals/types.ts";
import { Refusal } from "../../../src/core/errors.ts";
import { type Fresh, type Known, mint, type RegisteredTool } from "../../../src/core/evidence.ts";
import type { PolicyPoint } from "../../../src/core/policy-point.ts";
import type { CallerContext, Category, ToolClassification } from "../../../src/core/types.ts";
import { DETECTOR } from "../../../src/detection/sensitive.ts";
import { defineTool } from "../../../src/index.ts";
import { MODULES } from "../../../src/modules.ts";
import type { GateContext } from "../../../src/pipeline/approval/call.ts";
import { createApprovalGate } from "../../../src/pipeline/approval/gate.ts";
import { CallScopes } from "../../../src/pipeline/call-scope.ts";
import { makePlan } from "../../../src/pipeline/planner.ts";
import {
  type Assessed,
  createPolicyEvaluator,
  DATA_FLOW,
  type PolicyEvaluator,
} from "../../../src/pipeline/policy-points.ts";
import { createRegistry, type Registry } from "../../../src/pipeline/registry.ts";
import { judge } from "../../../src/runtime/replay/judge.ts";
import { inlineHandler } from "../../../src/targets/function/kind.ts";
import { type ApprovalWorld, createApprovalWorld, OPERATOR } from "../../support/approvals.ts";

/** Everything that decides about a call at the approval gate. */
export interface Situation {
  readonly kind: (typeof KINDS)[number];
  readonly isRisky: boolean;
  readonly manifest: keyof typeof MANIFESTS;
  readonly rule: "none" | "asks" | "denies";
  readonly point: "allows" | "asks" | "asks each time" | "denies";
  readonly flow: "none" | "asks";
  readonly policy: "none" | "people" | "people or callback";
  readonly mode: Mode;
  readonly callback: "none" | "allows" | "denies" | "changes";
  readonly isHalted: boolean;
  /** Undefined: there is no store. */
  readonly stored?: Stored | undefined;
  readonly session: Session;
}

export type Session = "none" | "of the token" | "opened" | "invented" | "ended";

interface Stored {
  /** What operators have set for the session. */
  readonly sessionMode: Mode | undefined;
  /** What happened to the same call before. */
  readonly before: (typeof BEFORE)[number];
  readonly newApproval: boolean;
  readonly attaches: boolean;
}

export const BEFORE = [
  ...(["nothing", "asked", "approved", "claimed", "executed", "failed", "denied", "withdrawn"] as const),
  ...(["approved for the session", "approved within bounds", "bounds used up", "grant revoked"] as const),
] as const;

export const KINDS = [
  ["read", "read"],
  ["read", "network"],
  ["read", "ask"],
  ["write", "write"],
  ["write", "network"],
  ["write", "command"],
  ["destructive", "write"],
] as const satisfies readonly (readonly [ToolClassification, Category])[];

export const MANIFESTS = {
  none: undefined,
  passes: () => false,
  asks: () => true,
  throws: () => {
    throw new Error("x");
  },
  "passes in autoEdit": (_input: unknown, { mode }: { readonly mode: string }) => mode !== "autoEdit",
  "passes in default": (_input: unknown, { mode }: { readonly mode: string }) => mode !== "default",
};

/** How a call ends: it passes, somebody is asked, or it gets this refusal. */
interface Ending {
  readonly verdict: "allow" | "ask" | string;
  readonly message?: string | undefined;
  readonly details?: unknown;
  /** The rule that passes the call. */
  readonly by?: string | undefined;
}

const RULE = { name: "mine", when: { tool: "deed" }, examples: { matches: [{ n: 1 }], misses: [] } };
const ARGS = { n: 1 };
const GRANTS = { runs: 2, minutes: 30, arguments: { n: { max: 9 } } };

/** The real gate, rules, points and planner over a real store; each situation is a caller's own. */
export class OrderWorld {
  readonly #world: ApprovalWorld = createApprovalWorld();
  /** As a hub is, whose approvals are asked with few requests. */
  readonly #isRemote: boolean;
  readonly #registries = new Map<string, Registry>();
  #store: Approvals | undefined;
  #calls = 0;

  constructor({ isRemote = false } = {}) {
    this.#isRemote = isRemote;
  }

  async open(): Promise<this> {
    const store = await this.#world.open();
    this.#store = this.#isRemote ? { ...store, isRemote: true } : store;
    return this;
  }

  end(): Promise<void> {
    return this.#world.end();
  }

  /** Returns how the call would end by a dry run, by the judgement without stores, and how it ends. */
  async endings(situation: Situation): Promise<{ foreseen: Ending; judged: readonly Ending[]; ended: Ending }> {
    this.#calls += 1;
    const caller: CallerContext = {
      ...{
        issuer: "https://idp.example",
        subject: `agent-${this.#calls}`,
        permissions: ["deeds:do"],
        actors: [],
        expiresAt: 1,
      },
      session: situation.session === "of the token" ? `sid:${this.#calls}` : undefined,
    };
    const named = await this.#sessionFor(situation, caller);
    if (situation.stored !== undefined && situation.session !== "ended")
      await this.#live(situation, { caller, named, before: situation.stored.before });
    await this.#setMode(situation, { caller, named });
    const seq = await this.#store?.lastSeq();
    const lines = this.#world.lines.length;
    const foreseen = await this.#ending(situation, { caller, named, dryRun: true });
    if ((await this.#store?.lastSeq()) !== seq || this.#world.lines.length !== lines)
      throw new Error("the dry run has written something");
    const judged = await this.#judged(situation, { caller, named });
    return { foreseen, judged, ended: await this.#ending(situation, { caller, named }) };
  }

  async #sessionFor({ session, stored }: Situation, caller: CallerContext): Promise<string | undefined> {
    if (session === "none" || session === "of the token") return undefined;
    if (session === "invented" || stored === undefined || this.#store === undefined) return `mine-${this.#calls}`;
    const { id } = await this.#store.openSession(caller);
    if (session === "ended") await this.#store.endSession(id, caller, caller);
    return id;
  }

  async #setMode({ stored, session }: Situation, { caller, named }: Who): Promise<void> {
    const mode = stored?.sessionMode;
    const id = caller.session ?? named;
    if (mode === undefined || id === undefined || session === "invented" || session === "ended") return;
    await this.#store?.setMode({ id, requester: caller, mode, until: this.#world.now + 600_000, by: OPERATOR });
  }

  /** Does to the same call before what the situation says, as far as a person is asked about it and may. */
  async #live(situation: Situation, { caller, named, before }: Who & Pick<Stored, "before">): Promise<void> {
    const store = this.#store;
    if (store === undefined || before === "nothing") return;
    const strict = {
      ...situation,
      ...({ mode: "default", callback: "none", isHalted: false, newApproval: false } as const),
      point: situation.point === "allows" ? "asks" : situation.point,
    } satisfies Situation & { newApproval: boolean };
    const { verdict, details } = await this.#ending(strict, { caller, named });
    if (verdict !== "ask") return;
    const { id } = (details as { readonly approval: { readonly id: string } }).approval;
    if (before === "withdrawn") await store.cancel(id, caller);
    const asked = await store.get(id);
    if (asked?.state !== "pending" || before === "asked") return;
    const wanted = SCOPES[before] ?? "once";
    const scope = asked.scopes.includes(wanted) ? wanted : "once";
    const decision = before === "denied" ? "deny" : "approve";
    const vote = {
      id,
      by: OPERATOR,
      permissions: ["may:decide"],
      decision,
      scope: decision === "deny" ? undefined : scope,
    };
    const decided = await store.decide(vote as never);
    if (decided.outcome !== "decided") throw new Error(`not decided: ${decided.outcome}`);
    const { requester, planDigest, requirement } = asked;
    if (before === "claimed" || before === "executed" || before === "failed")
      await store.claim({ id, requester, planDigest, requirementDigest: requirement?.digest });
    if (before === "executed" || before === "failed") await store.settle(id, before);
    const [grant] = scope === "once" ? [] : await store.listGrants({ requester });
    if (grant !== undefined && before === "grant revoked") await store.revokeGrant(grant.id, OPERATOR);
    if (grant !== undefined && before === "bounds used up")
      while ((await store.useGrant(grant.id, "earlier")) !== undefined);
  }

  async #ending(situation: Situation, { caller, named, dryRun = false }: Who): Promise<Ending> {
    const { mode, callback, stored, isHalted } = situation;
    const policy = policyOf(situation);
    let isCallbackAsked = false;
    const onToolApprove: ApprovalCallback = () => {
      isCallbackAsked = true;
      return callback === "changes" ? { approved: true, params: { n: 2 } } : callback === "allows";
    };
    const gate = createApprovalGate({
      approvals: stored && this.#store,
      mode,
      attaches: stored?.attaches ?? true,
      onToolApprove: callback === "none" ? undefined : onToolApprove,
      callbackTimeoutMs: 60_000,
      detector: DETECTOR,
      newId: () => crypto.randomUUID(),
    });
    const refusalFor = () => (isHalted ? new Refusal("HALTED", "Operators have halted this call.") : undefined);
    const { registered } = this.#registryFor(situation).find("deed");
    if (registered === undefined) throw new Error("there is no deed");
    const scope = new CallScopes({ clock: () => this.#world.now, monotonic: () => 0 }).open({ timeoutMs: 60_000 });
    const request = { tool: "deed", args: ARGS, authorization: undefined, session: named, source: "test" };
    const context: GateContext = {
      request: { ...request, dryRun, newApproval: stored?.newApproval },
      traceId: `trace-${this.#calls}`,
      scope,
      replan: (input) => assessedCall(situation, policy, { registered, caller, input, scope, named }),
      verifyAgain: async () => undefined,
    };
    try {
      await policy.permit(mint<Known>({ ...registered, caller }), { session: named, halts: { refusalFor } });
      const assessed = await assessedCall(situation, policy, { registered, caller, input: ARGS, scope, named });
      if (dryRun) return { verdict: (await gate.judge(assessed, context)).verdict };
      const { by } = await gate.approve(assessed, context);
      return isCallbackAsked ? { verdict: "ask" } : { verdict: "allow", by };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const { code, message, details } = error;
      if (isCallbackAsked) return { verdict: "ask" };
      return code === "APPROVAL_REQUIRED" ? { verdict: "ask", details } : { verdict: code, message, details };
    } finally {
      scope.close();
    }
  }

  /** Returns the verdicts that explanations, replays and matrices give: they know no store. */
  async #judged(situation: Situation, { caller, named }: Who): Promise<readonly Ending[]> {
    const { stored, session, callback } = situation;
    const isSet = session !== "invented" && session !== "none";
    const { verdicts, statements } = await judge(
      {
        parts: { registry: this.#registryFor(situation), policy: policyOf(situation), risk: riskRulesOf(situation) },
        config: { approvals: { store: stored && "sqlite://./a.sqlite" } } as never,
        asks: () => true,
        flow:
          situation.flow === "none" ? undefined : async () => ({ verdicts: new Set(["ask"]), reasons: ["carried"] }),
        hasCallback: callback !== "none",
      },
      {
        ...{ tool: "deed", caller, args: { kind: "sent", value: ARGS } },
        mode: (isSet ? stored?.sessionMode : undefined) ?? situation.mode,
        hasSession: (caller.session ?? named) !== undefined,
      },
    );
    const [by] = statements.find(({ point }) => point === "approval")?.reasons ?? [];
    return [...verdicts].map((verdict) => (verdict === "allow" ? { verdict, by } : { verdict }));
  }

  #registryFor({ kind: [classification, category], manifest, isRisky }: Situation): Registry {
    const key = JSON.stringify([classification, category, manifest, isRisky]);
    const known = this.#registries.get(key);
    if (known !== undefined) return known;
    const tool = defineTool({
      ...{ name: "deed", description: "Does it", classification, category },
      permissions: { required: ["deeds:do"] },
      input: z.strictObject({ n: z.int().max(9) }),
      output: z.object({ done: z.boolean() }),
      outputPolicy: { done: "allow" },
      approval: {
        needsApproval: MANIFESTS[manifest] as never,
        ...(classification === "write" && !isRisky && { grants: GRANTS }),
        ...(isRisky && { risk: "high" }),
      },
      handler: () => ({ done: true }),
    });
    const registry = createRegistry([tool], { handler: inlineHandler }, () => key);
    this.#registries.set(key, registry);
    return registry;
  }
}

interface Who {
  readonly caller: CallerContext;
  readonly named: string | undefined;
  readonly dryRun?: boolean;
}

const SCOPES: Partial<Record<Stored["before"], "session" | "bounded">> = {
  "approved for the session": "session",
  "approved within bounds": "bounded",
  "bounds used up": "bounded",
  "grant revoked": "bounded",
};

function riskRulesOf({ rule, policy }: Situation) {
  const who = { require: { deciders: { permissions: ["may:decide"] } }, when: {}, distinctPeople: true } as const;
  const more = { reasonRequired: "never", scopes: ["once", "session", "bounded"] } as const;
  return createRiskRules({
    rules: rule === "none" ? [] : [{ ...RULE, verdict: rule === "asks" ? "ask" : "deny" }],
    policies: policy === "none" ? [] : [{ name: "people", ...who, ...more, callback: policy !== "people" }],
  });
}

function policyOf(situation: Situation): PolicyEvaluator {
  const { point } = situation;
  const picky: PolicyPoint = {
    name: "picky",
    stage: "approval",
    decide() {
      if (point === "allows") return { verdict: "allow" };
      if (point === "denies") return { verdict: "deny", reasons: ["never"], message: "Never." };
      return { verdict: "requireApproval", reasons: ["look"], rememberable: point === "asks" };
    },
  };
  return createPolicyEvaluator({ ...MODULES.policyPoints, others: [picky] }, riskRulesOf(situation), DETECTOR);
}

interface PlannedFrom {
  readonly registered: RegisteredTool;
  readonly caller: CallerContext;
  readonly input: unknown;
  readonly scope: ReturnType<CallScopes["open"]>;
  readonly named: string | undefined;
}

/** Plans the call and asks the points. What the caller has read is a finding of data flow, which only people may answer. */
async function assessedCall(
  { flow }: Situation,
  policy: PolicyEvaluator,
  { registered, caller, input, scope, named }: PlannedFrom,
): Promise<Assessed> {
  const fresh = mint<Fresh>({ ...registered, caller, input });
  const assessed = await policy.assess(await makePlan(fresh, scope, { request: { session: named } }));
  if (flow === "none") return assessed;
  const finding = { point: DATA_FLOW, verdict: "requireApproval", reason: "carried" } as const;
  const findings = [...(assessed.findings ?? []), { ...finding, rememberable: false, peopleOnly: true } as const];
  return mint<Assessed>({ ...assessed, findings });
}
