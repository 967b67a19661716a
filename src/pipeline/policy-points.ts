import type { RiskAssessment, RiskRules } from "../approvals/risk.ts";
import type { RiskPoint } from "../approvals/risk-point.ts";
import { type PolicyFinding, Refusal, StartupError } from "../core/errors.ts";
import {
  type AnyEvidence,
  type Authorized,
  type Elevated,
  type Evidence,
  type Known,
  mint,
  type Parsed,
  type Planned,
} from "../core/evidence.ts";
import { copyOf } from "../core/json.ts";
import {
  type DenialCode,
  type GivenApproval,
  type PointStage,
  type PolicyDecision,
  type PolicyPoint,
  type PolicyRequests,
  type StagePoint,
  undecided,
} from "../core/policy-point.ts";
import { REFUSALS } from "../core/refusals.ts";
import type { Tool } from "../core/types.ts";
import type { FlowJudgement } from "../data-flow/flow.ts";
import type { Detector } from "../detection/sensitive.ts";
import type { Halts } from "../halts/halts.ts";
import type { CallFlow } from "./call-flow.ts";
import { carrying } from "./planner.ts";
import { deepFreeze } from "./schema-validator.ts";

/** All policy points of a build. Every built-in point is a member of its own, so that a build without one does not compile. */
export interface PolicyPoints {
  /** Asked before every other point of its stage. */
  readonly halts: HaltPoint;
  readonly permissions: StagePoint<"permission", PolicyDecision> & { readonly name: "permissions" };
  readonly elevation: StagePoint<"elevation", PolicyDecision> & { readonly name: "elevation" };
  /** Creates the point that applies the risk rules of one configuration. */
  readonly risk: (rules: Pick<RiskRules, "assess">) => RiskPoint;
  readonly others: readonly PolicyPoint[];
}

/** Refuses a call that operators have halted, before its arguments are read. It is asked again before the call runs. */
export interface HaltPoint {
  readonly name: "halts";
  readonly stage: "permission";
  /** Returns HALTED, or POLICY_STATE_UNAVAILABLE for a change when the halts are not known. */
  refusalFor(known: PolicyRequests["permission"], call: NamedCall): Refusal | undefined;
}

interface NamedCall {
  /** The session that the agent named itself. */
  readonly session: string | undefined;
  readonly halts: Pick<Halts, "refusalFor">;
}

/** No policy point denies the plan. The approval gate takes the findings, which require an approval, and the assessment. */
export type Assessed = Evidence<
  "assessed",
  {
    planned: Planned;
    assessment: RiskAssessment;
    findings?: readonly PolicyFinding[] | undefined;
    /** What the caller has read, and where the arguments appeared in it; undefined when that does not matter to the tool. */
    flow?: FlowJudgement | undefined;
  }
>;

/**
 * Decides at three stages of the pipeline. The result is a promise only when a point returned one.
 *
 * @throws {Refusal} the denial of a point: HALTED, PERMISSION_DENIED, POLICY_DENIED or the code that the point names
 */
export interface PolicyEvaluator {
  permit(known: Known, call: NamedCall): Authorized | Promise<Authorized>;
  elevate(parsed: Parsed, call: CallTraced): Elevated | Promise<Elevated>;
  /** `flow`: follows the call, where data flow is on. */
  assess(planned: Planned, flow?: CallFlow): Assessed | Promise<Assessed>;
  /**
   * Returns the question to the points that required the call's approval and want to be asked again before it is used; undefined
   * when no point does. The answer rejects with the denial of a point.
   */
  confirmation(call: ConfirmedCall): ((approval: GivenApproval) => Promise<void>) | undefined;
  /** Returns what the points of a stage say about a request, without evidence: nothing can run because of it. */
  state<Stage extends PointStage>(
    stage: Stage,
    request: PolicyRequests[Stage],
    call: CallTraced,
    asks?: (point: PolicyPoint) => boolean,
  ): Promise<StageStatements>;
  /** Whether policy points that are not built in read the arguments or the plan of a tool's calls. */
  readsArguments(tool: Tool): boolean;
}

interface CallTraced {
  readonly traceId: string;
}

/** A call with the findings that require its approval. */
export interface ConfirmedCall extends CallTraced {
  readonly planned: Planned;
  readonly findings: readonly PolicyFinding[];
}

/** What the points of one stage say, in the order in which they are asked. */
export interface StageStatements {
  readonly statements: readonly PointDecision[];
  /** Names of the points that were not asked. */
  readonly unasked: readonly string[];
  /** Only of the stage `approval`. */
  readonly assessment?: RiskAssessment | undefined;
}

/** @throws {StartupError} when a point has an unusable name */
export function createPolicyEvaluator(
  points: PolicyPoints,
  rules: Pick<RiskRules, "assess">,
  detector: Detector,
): PolicyEvaluator {
  const { permissions, elevation, others } = points;
  const risk = points.risk(rules);
  assertNames([points.halts, permissions, elevation, risk, ...others].map(({ name }) => name));
  const permitted = combined({
    stage: "permission",
    others,
    detector,
    decide: (known: Known) => ({ point: permissions.name, decision: permissions.decide(known) }),
    toEvidence: (known, { findings }) => mint<Authorized>(findings === undefined ? known : { ...known, findings }),
  });
  const assess = combined({
    stage: "approval",
    others,
    detector,
    decide: (planned: Planned) => ({ point: risk.name, ...risk.decide(planned) }),
    toEvidence: (planned, { findings, own }) => mint<Assessed>({ planned, findings, assessment: own.assessment }),
  });
  return {
    permit(known, call) {
      const halted = points.halts.refusalFor(known, call);
      // A caller without the permission does not learn which calls are halted.
      if (halted !== undefined && !isDenial(permissions.decide(known))) throw halted;
      return permitted(known);
    },
    elevate: combined({
      stage: "elevation",
      others,
      detector,
      decide: (parsed: Parsed) => ({ point: elevation.name, decision: elevation.decide(parsed) }),
      toEvidence: (parsed, { findings }) => mint<Elevated>(findings === undefined ? parsed : { ...parsed, findings }),
    }),
    assess: (planned, flow) => {
      const judging = flow?.judge(planned);
      return judging === undefined ? assess(planned) : followed(judging, () => assess(planned), detector);
    },
    confirmation: confirming(others, detector),
    readsArguments: (tool) => others.some((point) => point.stage !== "permission" && concerns(point, tool)),
    async state(stage, request, call, asks = () => true) {
      const full = request as PolicyRequests["approval"];
      const own: PointDecision & { readonly assessment?: RiskAssessment } = {
        permission: () => ({ point: permissions.name, decision: permissions.decide(full) }),
        elevation: () => ({ point: elevation.name, decision: elevation.decide(full) }),
        approval: () => ({ point: risk.name, ...risk.decide(full) }),
      }[stage]();
      const { point, decision, assessment } = own;
      // A denial by the built-in point is final.
      const more = isDenial(decision)
        ? []
        : others.filter((other) => other.stage === stage && concerns(other, full.tool));
      const asked = more.filter(asks) as readonly StagePoint<PointStage>[];
      const answers = await Promise.all(
        asked.map((other) => askPoint(other, () => other.decide(publicView(full, call)))),
      );
      const unasked = more.filter((other) => !asks(other)).map(({ name }) => name);
      return { statements: [{ point, decision }, ...answers], unasked, assessment };
    },
  };
}

/**
 * Returns the function that asks points about an approval. When the list of findings is full, it may lack those of some points, and
 * every point is asked.
 */
function confirming(others: readonly PolicyPoint[], detector: Detector): PolicyEvaluator["confirmation"] {
  const points = others.flatMap((point) => (point.stage === "elevation" && point.confirm ? [point] : []));
  return ({ planned, findings, traceId }) => {
    const asked = points.filter(
      ({ name }) => findings.length >= FINDINGS_MAX || findings.some(({ point }) => point === name),
    );
    if (asked.length === 0) return undefined;
    return async (approval) => {
      const { tool, caller, input } = planned;
      const request = publicView({ tool, caller, input }, { traceId }) as PolicyRequests["elevation"];
      const answers = await Promise.all(
        asked.map((point) => askPoint(point, () => point.confirm?.(request, Object.freeze(approval)))),
      );
      const refused = answers.find(({ decision }) => decision.verdict !== "allow");
      if (refused === undefined) return;
      const all = bounded([...findings, ...answers.flatMap((answer) => findingsOf(answer, detector))]);
      throw refusalOf(isDenial(refused.decision) ? refused.decision : NOT_CONFIRMED, all);
    };
  };
}

/** Name of the point that judges by what the caller has read. */
export const DATA_FLOW = "data-flow";

/** Adds what follows from the data that the caller has read. Its findings need people: no mode, grant or callback passes them. */
async function followed(
  judging: Promise<FlowJudgement>,
  assess: () => Assessed | Promise<Assessed>,
  detector: Detector,
): Promise<Assessed> {
  const flow = await judging;
  const { planned, assessment, findings: before = [] } = await assess();
  // Denials first: however many arguments ask, no denial is left out.
  const strictest = flow.findings.toSorted((a, b) => Number(b.verdict === "deny") - Number(a.verdict === "deny"));
  const found = strictest.slice(0, FINDINGS_MAX / 2).map(
    ({ verdict, reason }): PolicyFinding => ({
      point: DATA_FLOW,
      verdict,
      reason: safeLine(reason, detector),
      rememberable: false,
      peopleOnly: true,
    }),
  );
  const findings = bounded([...before, ...found]);
  if (found.some(({ verdict }) => verdict === "deny")) throw refusalOf({ verdict: "deny", reasons: [] }, findings);
  return mint<Assessed>({ planned: carrying(planned, flow.labels ?? UNREAD), assessment, findings, flow });
}

/** Represents labels that cannot be read: an approval that was given then covers no call whose labels are known. */
const UNREAD: readonly string[] = ["unknown"];

/** The decision of one point about one request. */
export interface PointDecision {
  readonly point: string;
  readonly decision: PolicyDecision;
}

/** Evidence, with the findings of the stages before. */
type Before = PolicyRequests["permission"] & { readonly findings?: readonly PolicyFinding[] | undefined };

interface StageOptions<From, Own extends PointDecision, To extends AnyEvidence> {
  readonly stage: PointStage;
  readonly others: readonly PolicyPoint[];
  /** Hides secrets in reasons. */
  readonly detector: Detector;
  /** The built-in point. */
  readonly decide: (from: From) => Own;
  readonly toEvidence: (from: From, result: { readonly own: Own; readonly findings: Before["findings"] }) => To;
}

/**
 * Combines all points of one stage; nothing else creates the stage's evidence. The strictest verdict wins: deny before
 * requireApproval before allow. A denial by the built-in point is final, so the other points never learn of the call. They are
 * asked at the same time; one that throws, is late or returns anything but a decision denies. An exception of a built-in point
 * is an error of the service: the call ends as INTERNAL.
 */
function combined<From extends Before, Own extends PointDecision, To extends AnyEvidence>(
  options: StageOptions<From, Own, To>,
): (from: From, call?: CallTraced) => To | Promise<To> {
  const { stage, detector, decide, toEvidence } = options;
  const others = options.others.filter((point) => point.stage === stage) as readonly StagePoint<PointStage>[];
  const combineAll = (from: From, own: Own, more: readonly PointDecision[]): To => {
    const all = [own, ...more];
    const findings = bounded([...(from.findings ?? []), ...all.flatMap((one) => findingsOf(one, detector))]);
    const denial = all.map(({ decision }) => decision).find(isDenial);
    if (denial !== undefined) throw refusalOf(denial, findings);
    return toEvidence(from, { own, findings });
  };
  return (from, call) => {
    const own = decide(from);
    const { verdict } = own.decision;
    if (verdict === "allow" && others.length === 0) return toEvidence(from, { own, findings: from.findings });
    if (verdict === "deny" || others.length === 0) return combineAll(from, own, []);
    const request = publicView(from, call && { traceId: call.traceId });
    const answers = others.map((point) => askPoint(point, () => point.decide(request)));
    return answers.some((answer) => answer instanceof Promise)
      ? Promise.all(answers).then((more) => combineAll(from, own, more))
      : combineAll(from, own, answers as readonly PointDecision[]);
  };
}

type Denial = Extract<PolicyDecision, { verdict: "deny" }>;

function concerns(point: PolicyPoint, tool: Tool): boolean {
  return point.concerns?.(tool) !== false;
}

function isDenial(decision: PolicyDecision): decision is Denial {
  return decision.verdict === "deny";
}

function refusalOf(
  { code = "POLICY_DENIED", message = DENIED, ...denial }: Denial,
  findings: Before["findings"],
): Refusal {
  const { details, retryAfterMs, cause } = denial;
  return new Refusal(code, message, { details, retryAfterMs, findings, ...(cause !== undefined && { cause }) });
}

const DENIED = "A policy of the service's operators forbids this call.";
const NOT_CONFIRMED: Denial = { verdict: "deny", reasons: [] };
const FINDINGS_MAX = 16;
const REASONS_MAX = 4;
const REASON_CHARACTERS_MAX = 200;
const MESSAGE_CHARACTERS_MAX = 500;

function findingsOf({ point, decision }: PointDecision, detector: Detector): readonly PolicyFinding[] {
  if (decision.verdict === "allow") return [];
  const { verdict, reasons } = decision;
  const rememberable = verdict === "requireApproval" && decision.rememberable === true;
  const given = reasons.length === 0 ? ["no reason given"] : reasons.slice(0, REASONS_MAX);
  return given.map((reason) => ({ point, verdict, reason: safeLine(reason, detector), rememberable }));
}

/** Returns one line without secrets. It is cut last, so that no part of a secret stays. */
function safeLine(reason: string, detector: Detector): string {
  const line = reason.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ");
  return detector.filterSecrets(line).text.slice(0, REASON_CHARACTERS_MAX);
}

/** Returns at most `FINDINGS_MAX` findings, denials first; undefined when there are none. */
function bounded(findings: readonly PolicyFinding[]): Before["findings"] {
  if (findings.length <= FINDINGS_MAX) return findings.length === 0 ? undefined : findings;
  const isDenied = ({ verdict }: PolicyFinding): boolean => verdict === "deny";
  const required = findings.filter((finding) => !isDenied(finding));
  // Findings that people decide, and those that are not rememberable, must stay: one of them prevents a callback or a grant.
  const weight = ({ peopleOnly, rememberable }: PolicyFinding): number =>
    Number(peopleOnly !== true) + Number(rememberable);
  const sorted = required.toSorted((a, b) => weight(a) - weight(b));
  return [...findings.filter(isDenied), ...sorted].slice(0, FINDINGS_MAX);
}

/**
 * Returns what a point that is not built in sees of a call: the tool, the caller, the parsed arguments and a copy of the plan.
 * The handler's binding stays hidden, and a point that changes the copy does not change what runs.
 */
function publicView(
  from: Before & { readonly input?: unknown; readonly plan?: unknown },
  call: CallTraced | undefined,
): PolicyRequests[PointStage] {
  const { tool, caller, input, plan } = from;
  return Object.freeze({ tool, caller, input: frozenCopy(input), plan: frozenCopy(plan), ...call });
}

function frozenCopy(value: unknown): unknown {
  try {
    return deepFreeze(copyOf(value));
  } catch {
    // Only inputs of functions hold values that cannot be copied. Policy points are code of the build, as these functions are.
    return value;
  }
}

const DECIDE_TIMEOUT_MS = 1_000;

function askPoint(
  point: Pick<PolicyPoint, "name" | "timeoutMs">,
  decide: () => unknown,
): PointDecision | Promise<PointDecision> {
  const { name } = point;
  const failed = (cause: unknown): PointDecision => ({
    point: name,
    decision: undecided("could not decide", new Error(`policy point ${name} could not decide`, { cause })),
  });
  const read = (answer: unknown): PointDecision => ({ point: name, decision: readDecision(answer) });
  try {
    const answer: unknown = decide();
    if (!isThenable(answer)) return read(answer);
    return inTime(answer, point.timeoutMs ?? DECIDE_TIMEOUT_MS)
      .then(read)
      .catch(failed);
  } catch (cause) {
    return failed(cause);
  }
}

function isThenable(answer: unknown): answer is PromiseLike<unknown> {
  return typeof answer === "object" && answer !== null && "then" in answer && typeof answer.then === "function";
}

/** @throws {Error} when the answer does not come within the limit */
async function inTime(answer: PromiseLike<unknown>, timeoutMs: number): Promise<unknown> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no decision within ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** @throws {Error} when the value is not a decision: then the point has not allowed the call */
function readDecision(answer: unknown): PolicyDecision {
  const { verdict, reasons, rememberable, ...rest } = answer as { readonly [Member in string]?: unknown };
  if (verdict === "allow") return { verdict };
  const areTexts = Array.isArray(reasons) && reasons.every((reason) => typeof reason === "string");
  if ((verdict !== "deny" && verdict !== "requireApproval") || !areTexts)
    throw new Error("the answer is not a decision");
  if (verdict === "requireApproval") return { verdict, reasons, rememberable: rememberable === true };
  const { code, message, ...more } = rest as Omit<Denial, "verdict" | "reasons">;
  if (code !== undefined && !isDenialCode(code)) throw new Error("the denial's code is not one of a denied call");
  const text = typeof message === "string" ? { message: message.slice(0, MESSAGE_CHARACTERS_MAX) } : undefined;
  return { ...more, verdict, reasons, ...(code !== undefined && { code }), ...text };
}

function isDenialCode(code: string): code is DenialCode {
  return Object.hasOwn(REFUSALS, code) && REFUSALS[code as DenialCode].decision === "DENIED";
}

const NAME = /^[a-z][a-z0-9-]{0,63}$/;
const POINTS_MAX = 32;

function assertNames(names: readonly string[]): void {
  const problems = names.flatMap((name, index) => {
    if (!NAME.test(name))
      return [`policy point ${JSON.stringify(name)}: the name must be of a-z, 0-9 and -, at most 64`];
    return names.indexOf(name) < index ? [`policy point ${name}: another point has this name`] : [];
  });
  if (names.length > POINTS_MAX) problems.push(`there are more than ${POINTS_MAX} policy points`);
  if (problems.length > 0) throw new StartupError(problems);
}
