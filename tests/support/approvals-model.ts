import { expect } from "bun:test";
import fc from "fast-check";
import type { Requirement } from "../../src/approvals/approver-policies/requirement.ts";
import type { Approval, ApprovalState, Approvals, NewApproval } from "../../src/approvals/types.ts";
import { AGENT, type ApprovalWorld, createApprovalWorld, LIMITS, OPERATOR, questionOf } from "./approvals.ts";

/** Few callers and plans, so that they meet; bounds that a short walk reaches. */
const CALLERS = 2;
const PLANS = 3;
const BOUNDS = { ...LIMITS, pendingPerCallerMax: 2 };
const DECIDE_MS = BOUNDS.decideBySeconds * 1_000;
/** The plan whose policy names one approver, and another after a while; then it only notifies. */
const ESCALATED_PLAN = 2;
const LATE = { ...OPERATOR, subject: "late" };
const ESCALATE_SECONDS = [200, 400] as const;
const REQUIREMENT: Requirement = {
  ...{ digest: "escalating", reasonRequired: "never", scopes: ["once", "session"], callback: false },
  policies: [
    {
      ...{ name: "named", distinctPeople: true },
      stages: [{ name: "deciders", count: 1, deciders: { permissions: [], subjects: [OPERATOR] } }],
      escalate: [
        { afterSeconds: ESCALATE_SECONDS[0], adds: { stage: 0, deciders: { permissions: [], subjects: [LATE] } } },
        { afterSeconds: ESCALATE_SECONDS[1] },
      ],
    },
  ],
};
const STEPS_MS = [1_000, 210_000, 210_000, 250_000, 300_000, 600_000, 900_000, 28_800_000, -1_000, -700_000];

export type Step =
  | { readonly kind: "ask"; readonly caller: number; readonly plan: number }
  | {
      readonly kind: "decide";
      readonly which: number;
      readonly yes: boolean;
      readonly session: boolean;
      readonly own: boolean;
      /** By the approver whom the escalation adds, not by the one whom the policy names. */
      readonly late: boolean;
    }
  | { readonly kind: "claim"; readonly which: number; readonly twist: "none" | "plan" | "subject" | "session" }
  | { readonly kind: "settle"; readonly which: number; readonly end: "executed" | "failed" | "in_doubt" }
  | { readonly kind: "cancel"; readonly which: number }
  | { readonly kind: "revoke"; readonly which: number }
  | { readonly kind: "endSession"; readonly caller: number }
  | { readonly kind: "clock"; readonly byMs: number }
  | { readonly kind: "sweep" | "reopen" | "journal fails" };

const which = fc.nat({ max: 30 });
const caller = fc.nat({ max: CALLERS - 1 });

export const walks = fc.array(
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({ kind: fc.constant("ask" as const), caller, plan: fc.nat({ max: PLANS - 1 }) }),
    },
    {
      weight: 8,
      arbitrary: fc.record({
        kind: fc.constant("decide" as const),
        which,
        yes: fc.boolean(),
        session: fc.boolean(),
        own: fc.nat({ max: 9 }).map((dice) => dice === 0),
        late: fc.boolean(),
      }),
    },
    {
      weight: 8,
      arbitrary: fc.record({
        kind: fc.constant("claim" as const),
        which,
        twist: fc.constantFrom(...(["none", "none", "none", "plan", "subject", "session"] as const)),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant("settle" as const),
        which,
        end: fc.constantFrom(...(["executed", "failed", "in_doubt"] as const)),
      }),
    },
    { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom(...(["cancel", "revoke"] as const)), which }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("endSession" as const), caller }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant("clock" as const), byMs: fc.constantFrom(...STEPS_MS) }) },
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constantFrom(...(["sweep", "reopen", "journal fails", "journal fails"] as const)),
      }),
    },
  ),
  { minLength: 20, maxLength: 80 },
) satisfies fc.Arbitrary<readonly Step[]>;

interface Entry {
  id: string;
  readonly caller: number;
  readonly plan: number;
  state: ApprovalState;
  readonly createdAt: number;
  readonly decideBy: number;
  /** Number of escalation steps taken. */
  escalated: number;
  executeBy: number;
  leaseUntil: number;
  decidedAt: number;
}

interface Model {
  entries: Entry[];
  /** By caller and plan: until when, and by which yes. */
  grants: Record<string, { readonly until: number; readonly of: Entry }>;
  /** By caller. */
  sessions: Record<number, { ended: boolean; expiresAt: number }>;
}

/** What a step should answer, and whether it changes something. The model is changed with it. */
interface Expected {
  readonly outcome: string;
  readonly changes: boolean;
}

function standing(entry: Entry, now: number): ApprovalState {
  if (entry.state === "pending" && entry.decideBy <= now) return "expired";
  if (entry.state === "approved" && entry.executeBy <= now) return "expired";
  return entry.state;
}

/** Writes an expiry down. */
function expire(entry: Entry, now: number): boolean {
  const isNew = standing(entry, now) !== entry.state;
  entry.state = standing(entry, now);
  return isNew;
}

/** Takes the steps that are due. */
function escalate(entry: Entry, now: number): boolean {
  const before = entry.escalated;
  if (entry.plan !== ESCALATED_PLAN || standing(entry, now) !== "pending") return false;
  while ((ESCALATE_SECONDS[entry.escalated] ?? Infinity) * 1_000 <= now - entry.createdAt) entry.escalated += 1;
  return entry.escalated > before;
}

function expectAsk(model: Model, step: Step & { kind: "ask" }, now: number): Expected {
  const own = model.entries.filter((entry) => entry.caller === step.caller);
  const same = own.filter(({ plan }) => plan === step.plan);
  if (same.some(({ state, decidedAt }) => state === "denied" && decidedAt > now - BOUNDS.coolDownSeconds * 1_000)) {
    return { outcome: "denied_before", changes: false };
  }
  if (same.some((entry) => standing(entry, now) === "pending")) return { outcome: "asked joined", changes: false };
  const twins = same.filter(({ state }) => state === "pending").map((entry) => expire(entry, now));
  if (own.filter((entry) => standing(entry, now) === "pending").length >= BOUNDS.pendingPerCallerMax) {
    return { outcome: "backlog", changes: twins.length > 0 };
  }
  const isRecent = ({ state, decideBy: until }: Entry) => state === "cancelled" && until > now;
  if (own.filter(isRecent).length >= BOUNDS.pendingPerCallerMax * 10) {
    return { outcome: "backlog", changes: twins.length > 0 };
  }
  const decideBy = now + DECIDE_MS;
  const { caller: by, plan } = step;
  model.entries.push({
    id: "",
    caller: by,
    plan,
    state: "pending",
    createdAt: now,
    decideBy,
    escalated: 0,
    executeBy: 0,
    leaseUntil: 0,
    decidedAt: 0,
  });
  return { outcome: "asked", changes: true };
}

function expectDecide(model: Model, entry: Entry, step: Step & { kind: "decide" }, now: number): Expected {
  const expired = expire(entry, now);
  if (step.own) return { outcome: "own_question", changes: expired };
  if (entry.state !== "pending") return { outcome: "not_pending", changes: expired };
  const mustWait = step.late && entry.plan === ESCALATED_PLAN && entry.escalated === 0;
  const escalated = mustWait && escalate(entry, now);
  if (mustWait && !escalated) return { outcome: "not_eligible", changes: expired };
  const session = model.sessions[entry.caller];
  if (step.yes && step.session && session?.ended) return { outcome: "scope_not_offered", changes: escalated };
  entry.state = step.yes ? "approved" : "denied";
  entry.decidedAt = now;
  entry.executeBy = now + BOUNDS.executeBySeconds * 1_000;
  if (step.yes && step.session) {
    model.grants[`${entry.caller}/${entry.plan}`] = { until: now + BOUNDS.grantSeconds * 1_000, of: entry };
    model.sessions[entry.caller] = session ?? { ended: false, expiresAt: now + BOUNDS.sessionSeconds * 1_000 };
  }
  return { outcome: "decided", changes: true };
}

function expectClaim(entry: Entry, step: Step & { kind: "claim" }, now: number): Expected {
  if (step.twist === "subject") return { outcome: "not_found", changes: false };
  const expired = expire(entry, now);
  if (step.twist !== "none") return { outcome: "mismatch", changes: expired };
  if (entry.state !== "approved") return { outcome: "not_approved", changes: expired };
  entry.state = "claimed";
  entry.leaseUntil = now + BOUNDS.claimLeaseSeconds * 1_000;
  return { outcome: "claimed", changes: true };
}

function expectSweep(model: Model, now: number): Expected {
  let changes = false;
  for (const entry of model.entries) {
    changes = expire(entry, now) || changes;
    changes = escalate(entry, now) || changes;
    if (entry.state !== "claimed" || entry.leaseUntil > now) continue;
    entry.state = "in_doubt";
    changes = true;
  }
  return { outcome: "swept", changes };
}

function expectEnd(model: Model, by: number, now: number): Expected {
  const session = model.sessions[by];
  if (session === undefined || session.ended || session.expiresAt <= now) return { outcome: "false", changes: false };
  session.ended = true;
  return { outcome: "true", changes: true };
}

function move(entry: Entry, from: readonly ApprovalState[], to: ApprovalState, now: number): Expected {
  if (!from.includes(standing(entry, now))) return { outcome: "none", changes: false };
  entry.state = to;
  return { outcome: to, changes: true };
}

/** What the yes was remembered for goes with it. */
function expectRevoke(model: Model, entry: Entry, now: number): Expected {
  const expected = move(entry, ["approved"], "revoked", now);
  const call = `${entry.caller}/${entry.plan}`;
  if (expected.changes && model.grants[call]?.of === entry) delete model.grants[call];
  return expected;
}

function expectStep(model: Model, step: Step, now: number): Expected | undefined {
  if (step.kind === "ask") return expectAsk(model, step, now);
  if (step.kind === "endSession") return expectEnd(model, step.caller, now);
  if (step.kind === "sweep") return expectSweep(model, now);
  const entry = "which" in step ? chosen(model, step.which) : undefined;
  if (entry === undefined || !("which" in step)) return undefined;
  if (step.kind === "decide") return expectDecide(model, entry, step, now);
  if (step.kind === "claim") return expectClaim(entry, step, now);
  if (step.kind === "cancel") return move(entry, ["pending", "approved"], "cancelled", now);
  if (step.kind === "revoke") return expectRevoke(model, entry, now);
  return { ...move(entry, ["claimed"], step.end, now), outcome: "settled" };
}

/** The newest is the first. */
function chosen(model: Model, index: number): Entry | undefined {
  const { entries } = model;
  return entries[entries.length - 1 - (index % Math.max(entries.length, 1))];
}

function requesterOf(by: number) {
  return { ...AGENT, subject: `agent-${by}`, session: `sid-${by}` };
}

function question(by: number, plan: number): NewApproval {
  const requirement = plan === ESCALATED_PLAN ? REQUIREMENT : undefined;
  return questionOf({ requester: requesterOf(by), planDigest: `plan-${plan}`, grantKey: `call-${plan}`, requirement });
}

async function act(
  store: Approvals,
  entry: Entry | undefined,
  step: Step,
): Promise<{ outcome: string; approval?: Approval }> {
  if (step.kind === "ask") {
    const asked = await store.ask(question(step.caller, step.plan));
    if (asked.outcome !== "asked") return { outcome: asked.outcome };
    return { outcome: asked.joined ? "asked joined" : "asked", approval: asked.approval };
  }
  if (step.kind === "endSession") return { outcome: String(await store.endSession(`sid-${step.caller}`, OPERATOR)) };
  if (step.kind === "sweep") return { outcome: "swept", ...(await store.sweep().then(() => ({}))) };
  const { id = "", caller: by = 0, plan = 0 } = entry ?? {};
  const requester = requesterOf(by);
  switch (step.kind) {
    case "decide": {
      const approver = step.late ? LATE : OPERATOR;
      const decider = step.own ? { issuer: OPERATOR.issuer, subject: requester.subject } : approver;
      const decision = step.yes ? "approve" : "deny";
      return store.decide({ id, by: decider, decision, scope: step.session ? "session" : "once" }) as Promise<{
        outcome: string;
      }>;
    }
    case "claim":
      return store.claim({
        id,
        requester: {
          ...requester,
          ...(step.twist === "subject" && { subject: "stranger" }),
          ...(step.twist === "session" && { session: "another" }),
        },
        planDigest: step.twist === "plan" ? "another" : `plan-${plan}`,
        requirementDigest: plan === ESCALATED_PLAN ? REQUIREMENT.digest : undefined,
      }) as Promise<{ outcome: string }>;
    case "settle":
      await store.settle(id, step.end);
      return { outcome: "settled" };
    case "cancel":
      return { outcome: (await store.cancel(id, requester))?.state ?? "none" };
    default:
      return { outcome: (await store.revoke(id, OPERATOR))?.state ?? "none" };
  }
}

/** Walks the store and the model side by side; after each step both must tell the same. */
export async function walk(steps: readonly Step[], world = createApprovalWorld()): Promise<void> {
  try {
    await walkIn(world, steps);
  } finally {
    await world.end();
  }
}

export async function walkIn(
  world: ApprovalWorld,
  steps: readonly Step[],
  before?: (step: Step) => Promise<void>,
): Promise<void> {
  let store = await world.open(BOUNDS);
  let model: Model = { entries: [], grants: {}, sessions: {} };
  let journalFails = false;
  const runs = new Map<string, number>();
  const yeses = new Set<string>();
  for (const step of steps) {
    await before?.(step);
    if (step.kind === "clock") world.now += step.byMs;
    if (step.kind === "journal fails") journalFails = true;
    if (step.kind === "reopen") {
      await store.close();
      store = await world.open(BOUNDS);
      expectSweep(model, world.now);
    }
    const unchanged = structuredClone(model);
    const expected = expectStep(model, step, world.now);
    if (expected !== undefined) {
      const target = "which" in step ? chosen(model, step.which) : undefined;
      world.journal = journalFails ? () => Promise.reject(new Error("the journal fails")) : undefined;
      const got = await act(store, target, step).catch((error) => ({ outcome: String(error), approval: undefined }));
      const isLost = journalFails && expected.changes;
      expect({ step, got: got.outcome }).toEqual({ step, got: isLost ? "Error: the journal fails" : expected.outcome });
      if (isLost) model = unchanged;
      const created = model.entries.at(-1);
      if (!isLost && expected.outcome === "asked" && created !== undefined) created.id = got.approval?.id ?? "";
      if (got.outcome === "claimed") runs.set(target?.id ?? "", (runs.get(target?.id ?? "") ?? 0) + 1);
      if (got.outcome === "decided" && step.kind === "decide" && step.yes) yeses.add(target?.id ?? "");
      world.journal = undefined;
      journalFails = false;
    }
    await compare(store, model, world.now);
    const told = Map.groupBy(
      world.lines.filter(({ type }) => type === "approval.escalated"),
      ({ id }) => String(id),
    );
    for (const { id, escalated } of model.entries) {
      const seconds = (told.get(id) ?? []).map(({ afterSeconds }) => afterSeconds);
      expect({ id, seconds }).toEqual({ id, seconds: [...ESCALATE_SECONDS.slice(0, escalated)] });
    }
  }
  for (const [id, count] of runs) expect({ id, count, yes: yeses.has(id) }).toEqual({ id, count: 1, yes: true });
}

async function compare(store: Approvals, model: Model, now: number): Promise<void> {
  const found = await Promise.all(model.entries.map(({ id }) => store.get(id)));
  expect(found.map((one) => [one?.state, one?.escalations.length])).toEqual(
    model.entries.map((entry) => [standing(entry, now), entry.escalated]),
  );
  for (let by = 0; by < CALLERS; by += 1) {
    for (let plan = 0; plan < PLANS; plan += 1) {
      const lives = (model.grants[`${by}/${plan}`]?.until ?? 0) > now && model.sessions[by]?.ended !== true;
      expect((await store.findGrant(requesterOf(by), `call-${plan}`)) !== undefined).toBe(lives);
    }
  }
}
