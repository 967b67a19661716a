import type { Grant, Mode, Prior, PriorCall } from "../../approvals/types.ts";
import type { Planned } from "../../core/evidence.ts";
import type { Tool } from "../../core/types.ts";
import { type CallSession, callSession } from "../call-session.ts";
import type { Assessed } from "../policy-points.ts";
import { type ApprovalNeed, type GateContext, type GatedCall, type GateOptions, guarded } from "./call.ts";
import { acceptsCallback, callbackOf } from "./callback.ts";
import { findBoundedGrants, findExactGrant } from "./grants.ts";
import { ManifestRule } from "./manifest.ts";
import { type OrderFacts, ruleOf, rulesOf } from "./order.ts";
import { approvalsUnavailable } from "./refusals.ts";
import { priorCallOf } from "./request.ts";

/** Beyond this number of changes of the call's approvals while it looks at them, the call is refused. */
const LOOKS_MAX = 8;

const NONE: readonly string[] = [];

/** Looks up what the approval order reads of a call. Writes nothing. */
export class CallFacts implements OrderFacts {
  readonly options: GateOptions;
  readonly planned: Planned;
  readonly context: GateContext;
  readonly tool: Tool;
  readonly requiring: readonly string[];
  /** Result of the next search for earlier approvals, if the store has already given it. */
  found: Prior | undefined;
  readonly #assessed: Assessed;
  #call: GatedCall | undefined;
  #session: Promise<CallSession> | undefined;
  #manifest: ManifestRule | undefined;
  #priorCall: PriorCall | undefined;
  #looks = 0;

  constructor(options: GateOptions, assessed: Assessed, context: GateContext) {
    const { planned, findings = [] } = assessed;
    this.options = options;
    this.planned = planned;
    this.context = context;
    this.#assessed = assessed;
    this.tool = planned.tool;
    this.requiring = findings.length === 0 ? NONE : [...new Set(findings.map(ruleOf))];
  }

  get call(): GatedCall {
    const { assessment, findings = [], flow } = this.#assessed;
    this.#call ??= { planned: this.planned, assessment, findings, flow, ...this.context };
    return this.#call;
  }

  get approvalId(): string | undefined {
    return this.context.request.approvalId;
  }

  get mayUseCallback(): boolean {
    return callbackOf(this.options, this.call) !== undefined && acceptsCallback(this.call);
  }

  async passesInEveryMode(): Promise<boolean> {
    const { planned, request } = this.call;
    const mayHaveMode =
      this.options.approvals !== undefined && (planned.caller.session ?? request.session) !== undefined;
    return mayHaveMode && (await this.#needsApproval.passesInEveryMode());
  }

  async mode(): Promise<Mode> {
    return (await this.#openSession()).mode ?? this.options.mode;
  }

  async passesByManifest(): Promise<boolean> {
    return this.#needsApproval.passesIn(await this.mode());
  }

  async exactGrant(): Promise<Grant | undefined> {
    const { approvals } = this.options;
    if (approvals === undefined) return undefined;
    const need = await this.need();
    return guarded(() => findExactGrant(approvals, this.call, need));
  }

  async boundedGrants(): Promise<readonly Grant[]> {
    const { approvals } = this.options;
    if (approvals === undefined) return [];
    const need = await this.need();
    return guarded(() => findBoundedGrants(approvals, this.call, need));
  }

  /** Reads the earlier approvals again each time, unless the store has just said them. */
  async prior(): Promise<Prior | undefined> {
    const { approvals } = this.options;
    if (approvals === undefined) return undefined;
    this.#looks += 1;
    if (this.#looks > LOOKS_MAX)
      throw approvalsUnavailable(new Error("the approvals of a call changed each time it looked at them"));
    const { found } = this;
    this.found = undefined;
    const prior = await this.priorCall();
    return found ?? guarded(() => approvals.priorOf(prior));
  }

  /** Returns the call as the store searches for its earlier approvals. */
  async priorCall(): Promise<PriorCall> {
    this.#priorCall ??= priorCallOf(this.options, this.call, await this.need());
    return this.#priorCall;
  }

  /** Returns what an approval of the call is for. */
  async need(): Promise<ApprovalNeed> {
    const session = await this.#openSession();
    const { issuer, subject, actors } = this.call.planned.caller;
    return { requester: { issuer, subject, actors, session: session.id }, session, rules: rulesOf(this) };
  }

  get #needsApproval(): ManifestRule {
    this.#manifest ??= new ManifestRule(this.call.planned);
    return this.#manifest;
  }

  #openSession(): Promise<CallSession> {
    this.#session ??= guarded(() => this.#findSession());
    return this.#session;
  }

  async #findSession(): Promise<CallSession> {
    const { approvals, mode } = this.options;
    const { planned, request } = this.call;
    const session = await callSession(approvals, { caller: planned.caller, named: request.session }, mode);
    if (session.mode !== undefined) this.call.noteMode?.(session.mode);
    return session;
  }
}
