import { join } from "node:path";
import type { Mode } from "../../approvals/types.ts";
import { runWithPauses } from "../../audit/chain/chain-walk.ts";
import { type LogFolder, logsIn } from "../../audit/logs.ts";
import type { Filter } from "../../audit/query/filter.ts";
import { searchPages } from "../../audit/query/query.ts";
import { parseLine } from "../../audit/query/view.ts";
import type { Damage } from "../../audit/verify/damage.ts";
import { checkCalls } from "../../audit/verify/unverified-lines.ts";
import type { PolicyPoint } from "../../core/policy-point.ts";
import { type CallerContext, MODES } from "../../core/types.ts";
import { type RoleBinding, RoleBindings } from "../../pipeline/identity/roles.ts";
import type { Parts } from "../composition/assembly.ts";
import { policyVersionOf } from "../composition/reloading.ts";
import { resolveBindings } from "../composition/roles.ts";
import type { Config } from "../config/config.ts";
import { callersTenant, ownJwt } from "../config/tenants.ts";
import { type FlowJudge, recordedFlowJudge } from "./flow.ts";
import { type CallVerdict, type Judgement, judge } from "./judge.ts";
import { argumentsOf, type Recognizer, type RecordedCall, readRecorded } from "./recorded.ts";

export interface ReplayOptions {
  readonly parts: Parts;
  readonly config: Config;
  /** The audit directory. */
  readonly dir: string;
  /** Milliseconds since 1970; the end is exclusive. */
  readonly filter: Pick<Filter, "fromMs" | "toMs">;
  /** Whether policy points are asked that do not decide from the request alone. */
  readonly asksExternal: boolean;
  /** Called between chunks with the number of calls read so far. */
  readonly progress?: (calls: number) => void;
}

/** Calls of one caller and tool whose verdict differs in the same way. */
export interface ReplayChange {
  readonly tool: string;
  readonly sub: string;
  readonly iss: string;
  /** `allow`, `ask`, or the code of a refusal. */
  readonly then: string;
  /** As `then`; several, with ` or ` between them, when only the difference is certain. */
  readonly now: string;
  readonly calls: number;
  /** Trace ids of some of them. */
  readonly examples: readonly string[];
}

/** Whether the audit's lines are those that were written, on the days that were read. */
export interface AuditState {
  /** Number of lines that were changed or do not follow the line before them. They are not judged and not counted as calls. */
  readonly unverified: number;
  /** Number of lines written before the audit had a hash chain. They are judged, but nothing shows whether they were changed. */
  readonly linesBefore: number;
  /** The first problem, as `stc audit verify` names it. */
  readonly damage?: Damage;
}

export interface ReplayReport {
  readonly audit: AuditState;
  /** Calls in the audit in this time, apart from lines that do not verify. The sum of the next four. */
  readonly calls: number;
  readonly unchanged: number;
  readonly changed: number;
  /** Calls of which the new verdict is not certain, by what is not known. They are neither changed nor unchanged. */
  readonly notJudged: Readonly<Record<string, number>>;
  /** Calls that no policy decided then, by how they ended. */
  readonly leftOut: Readonly<Record<string, number>>;
  /** The most frequent first. */
  readonly changes: readonly ReplayChange[];
  /** Calls by the configuration that had judged them; "unknown" for entries that name none. */
  readonly recordedBy: Readonly<Record<string, number>>;
}

const PAGE_BYTES_MAX = 4 * 1_048_576;
/** Changes beyond this number of combinations are counted together. */
const GROUPS_MAX = 10_000;
const EXAMPLES_MAX = 3;
const VERSIONS_MAX = 1_000;
const OTHERS = "(others)";

/**
 * Judges every recorded call by a configuration and compares the verdict with the recorded one. Plans, looks up, connects, writes
 * and counts nothing. Reads the audit page by page: memory is bounded by the number of distinct changes.
 */
export async function replay(options: ReplayOptions): Promise<ReplayReport> {
  const { dir, parts, config } = options;
  const flowJudge = await recordedFlowJudge(config, parts);
  const replaying = new Replaying({ ...options, flowJudge, policyVersion: policyVersionOf(config, parts) });
  const states: AuditState[] = [];
  for (const log of logsIn(dir)) states.push(await readLog(log, options, replaying));
  const damages = states.flatMap((state) => state.damage ?? []);
  const damage = damages.find(({ isTornEnd }) => isTornEnd !== true) ?? damages[0];
  const audit = {
    unverified: states.reduce((sum, { unverified }) => sum + unverified, 0),
    linesBefore: states.reduce((sum, { linesBefore }) => sum + linesBefore, 0),
    ...(damage !== undefined && { damage }),
  };
  return { audit, ...replaying.report() };
}

async function readLog({ name, dir }: LogFolder, options: ReplayOptions, replaying: Replaying): Promise<AuditState> {
  const { filter } = options;
  const { damage, linesBefore, unverified } = await runWithPauses(checkCalls(dir, filter));
  const query = { filter: { ...filter, exact: {} }, order: "oldest", limit: Number.MAX_SAFE_INTEGER } as const;
  const pages = searchPages({ dir, query: { ...query, cursor: undefined, digest: "" }, pageBytesMax: PAGE_BYTES_MAX });
  for await (const page of pages) {
    for (const found of page.found) if (!unverified.has(found)) await replaying.add(found.line);
    options.progress?.(replaying.calls);
  }
  const found = damage && { damage: { ...damage, file: join(name, damage.file) } };
  return { unverified: unverified.count, linesBefore, ...found };
}

interface ReplayingOptions extends ReplayOptions {
  readonly flowJudge: Awaited<ReturnType<typeof recordedFlowJudge>>;
  readonly policyVersion: string;
}

type Counts = Map<string, number>;

class Replaying {
  readonly #options: ReplayingOptions;
  readonly #recognizer: Recognizer;
  readonly #bindings: readonly RoleBinding[];
  readonly #roles: RoleBindings;
  readonly #changes = new Map<string, { -readonly [Member in keyof ReplayChange]: ReplayChange[Member] }>();
  readonly #notJudged: Counts = new Map();
  readonly #leftOut: Counts = new Map();
  readonly #recordedBy: Counts = new Map();
  calls = 0;
  #unchanged = 0;
  #changed = 0;

  constructor(options: ReplayingOptions) {
    this.#options = options;
    this.#recognizer = { hashKey: options.parts.hashKey, lastOmitted: new Map() };
    const tools = options.parts.registry.list().map(({ tool }) => tool);
    this.#bindings = resolveBindings(options.config, tools);
    this.#roles = new RoleBindings(this.#bindings);
  }

  async add(line: string): Promise<void> {
    const members = parseLine(line);
    if (members === undefined) return;
    const { count } = members;
    const times = typeof count === "number" && Number.isSafeInteger(count) && count > 0 ? count : 1;
    this.calls += times;
    const call = readRecorded(members);
    if ("leftOut" in call) return increase(this.#leftOut, call.leftOut, times);
    const { policyVersion = "unknown" } = call;
    const isNew = !this.#recordedBy.has(policyVersion) && this.#recordedBy.size >= VERSIONS_MAX;
    increase(this.#recordedBy, isNew ? OTHERS : policyVersion, 1);
    const now = await this.#judged(call);
    if (typeof now === "string") return increase(this.#notJudged, now, 1);
    if (!now.verdicts.has(call.then)) return this.#differs(call, now);
    if (now.verdicts.size > 1) return increase(this.#notJudged, reasonOf(now), 1);
    this.#unchanged += 1;
  }

  /** Returns the judgement, or why there is none. */
  async #judged(call: RecordedCall): Promise<Judgement | string> {
    const { parts, config, asksExternal, policyVersion } = this.#options;
    const isSame = call.policyVersion === policyVersion;
    const permissions = isSame ? call.permissions : permissionsNow(call, config);
    if (permissions === undefined) return certain("UNAUTHENTICATED");
    // The recorded permissions include those of the roles of that time, and do not say which.
    const areMixed = call.roles.length > 0 && permissions === call.permissions;
    if (!isSame && (areMixed || this.#dependsOnClaims(call))) return "the caller's roles";
    const known: CallerContext = {
      issuer: call.iss,
      subject: call.sub,
      tenant: callersTenant(config),
      permissions,
      actors: call.actors,
      session: undefined,
      expiresAt: Number.MAX_SAFE_INTEGER,
    };
    const holder = { claims: undefined, operators: false };
    const caller = isSame ? known : this.#roles.withRoles(known, holder, 0).caller;
    const { registered } = parts.registry.find(call.tool);
    const args =
      registered === undefined
        ? ({ kind: "sent", value: undefined } as const)
        : argumentsOf(call, registered, this.#recognizer);
    const judging = {
      parts,
      config,
      // Claims of the token and the time of the call are not known any more.
      asks: ({ isLocal, readsMoment }: PolicyPoint) => (asksExternal || isLocal === true) && readsMoment !== true,
      flow: this.#flowOf(call),
      hasCallback: call.approvedBy?.startsWith("callback") === true,
    };
    const modes = modesOf(call, config);
    const [first, ...others] = await Promise.all(
      modes.map((mode) => judge(judging, { tool: call.tool, caller, args, mode })),
    );
    const now = others.reduce(joined, first ?? certain("INTERNAL"));
    // The operator may have changed the mode between the request and its claim, and only the claim's mode is recorded.
    const isClaimed = call.sessionMode !== "usual" && call.approvedBy !== undefined;
    if (isClaimed && now.verdicts.has("allow")) return "the session's mode";
    const isByMode = now.verdicts.size > (first?.verdicts.size ?? 0);
    return isByMode && now.verdicts.has(call.then) ? "the session's mode" : now;
  }

  /** Returns whether the caller's roles depend on what the audit lacks: claims of the token, or the time until which a role is held. */
  #dependsOnClaims({ iss, sub }: RecordedCall): boolean {
    return this.#bindings.some(({ issuer, isForOperators, callers, untilMs }) => {
      if (issuer !== iss || isForOperators) return false;
      return "claims" in callers || (callers.subject === sub && untilMs !== undefined);
    });
  }

  /** The same configuration says the same again; another one is asked what it says about the recorded facts. */
  #flowOf({ policyVersion, flow, flowThen }: RecordedCall): FlowJudge | undefined {
    const { flowJudge, policyVersion: inUse } = this.#options;
    const judgeBy = flowJudge?.(flow);
    if (judgeBy === undefined || policyVersion !== inUse) return judgeBy;
    return async (call) => (await judgeBy(call)) && { verdicts: new Set([flowThen]), reasons: [] };
  }

  #differs(call: RecordedCall, now: Judgement): void {
    this.#changed += 1;
    const shown = [...now.verdicts].sort().join(" or ");
    const key = JSON.stringify([call.tool, call.iss, call.sub, call.then, shown]);
    const isKnown = this.#changes.has(key);
    const isOther = !isKnown && this.#changes.size >= GROUPS_MAX;
    const group = this.#changes.get(isOther ? OTHERS : key) ?? {
      ...(isOther ? { tool: OTHERS, sub: OTHERS, iss: OTHERS } : { tool: call.tool, sub: call.sub, iss: call.iss }),
      then: isOther ? OTHERS : call.then,
      now: isOther ? OTHERS : shown,
      calls: 0,
      examples: [],
    };
    group.calls += 1;
    if (group.examples.length < EXAMPLES_MAX) group.examples = [...group.examples, call.traceId];
    this.#changes.set(isOther ? OTHERS : key, group);
  }

  report(): Omit<ReplayReport, "audit"> {
    return {
      calls: this.calls,
      unchanged: this.#unchanged,
      changed: this.#changed,
      notJudged: sorted(this.#notJudged),
      leftOut: sorted(this.#leftOut),
      changes: [...this.#changes.values()].sort((a, b) => b.calls - a.calls),
      recordedBy: sorted(this.#recordedBy),
    };
  }
}

/**
 * Returns the caller's permissions under the configuration: those of its table if it has one, otherwise the recorded ones.
 * Undefined when the configuration accepts no agents' tokens of the issuer.
 */
function permissionsNow({ iss, sub, permissions }: RecordedCall, config: Config): readonly string[] | undefined {
  const { issuers, clientCertificates } = ownJwt(config);
  const named = issuers.filter(({ issuer }) => issuer === iss);
  if (named.length === 0)
    return clientCertificates.find(({ issuer, subject }) => issuer === iss && subject === sub)?.permissions;
  const profile = named.find(({ operators }) => !operators);
  if (profile === undefined) return undefined;
  const table = profile.subjectPermissions;
  if (table === undefined) return permissions;
  return Object.hasOwn(table, sub) ? (table[sub] ?? []) : [];
}

/** Returns the modes that the call's session can have had. Sessions and their modes are in the store. */
function modesOf({ sessionMode }: RecordedCall, { approvals }: Config): readonly Mode[] {
  const hasStore = approvals.store !== undefined || approvals.storeUrlFile !== undefined;
  if (!hasStore || sessionMode === "usual") return [approvals.mode];
  return sessionMode === undefined ? MODES : [sessionMode];
}

function joined(one: Judgement, other: Judgement): Judgement {
  const verdicts = new Set([...one.verdicts, ...other.verdicts]);
  return { ...one, verdicts, unknown: new Set([...one.unknown, ...other.unknown]) };
}

function certain(verdict: CallVerdict): Judgement {
  return { verdicts: new Set([verdict]), unknown: new Set(), statements: [] };
}

const REASONS = {
  points: "policy points that were not asked",
  schema: "arguments that are not in the audit",
  arguments: "arguments that are not in the audit",
  plan: "a plan that needs its target",
  flow: "what the caller had read",
} as const satisfies Record<string, string>;

function reasonOf({ unknown }: Judgement): string {
  const first = (["points", "flow", "schema", "arguments", "plan"] as const).find((each) => unknown.has(each));
  return first === undefined ? "unknown" : REASONS[first];
}

function increase(counts: Counts, key: string, by: number): void {
  counts.set(key, (counts.get(key) ?? 0) + by);
}

function sorted(counts: Counts): Readonly<Record<string, number>> {
  return Object.fromEntries([...counts].sort(([, one], [, other]) => other - one));
}
