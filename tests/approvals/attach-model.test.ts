import { expect, test } from "bun:test";
import fc from "fast-check";
import type { Approval } from "../../src/approvals/types.ts";
import type { Answer } from "../../src/pipeline/answer.ts";
import type { CallRequest } from "../../src/pipeline/call-request.ts";
import { type ApprovalWorld, type JournalLine, OPERATOR } from "../support/approvals.ts";
import { WAYS } from "../support/hub-approvals.ts";
import { atTokenTime, Client, failure, type Moment, MomentsRoad, nameOf, refuse } from "./moments-road.ts";

/**
 * Two replicas with one store, and agents that repeat few different calls in every way at the same time: while a person is asked,
 * after the decision, while they run, after their answer was lost. Whatever the order, one approval is one run.
 */
const REPLICAS = 2;
const THINGS = ["a", "b"];
/** Store and tokens have separate clocks here: no token expires. */
const CLOCK_STEPS_MS = [1_000, 60_000, 301_000, 599_000, 601_000, 901_000];
const RAN_RECENTLY_MS = 600_000;
/** A wait that only a decision or a drain ends. */
const WAIT_MS = 3_000_000;

const MOMENTS: readonly Moment[] = [
  ...(["before priorOf", "after priorOf", "before ask", "after ask", "before wait", "after wait"] as const),
  ...(["before claim", "after claim", "intent", "handler", "record", "before settle", "after settle"] as const),
  ...(["before beginKey", "after beginKey", "before endKey", "after endKey"] as const),
];

/** Most requests are approved: after a denial nothing runs for ten minutes. */
const APPROVALS = Array<"approve">(12).fill("approve");

const replica = fc.nat({ max: REPLICAS - 1 });
const which = fc.nat({ max: 20 });
const moment = fc.constantFrom(...MOMENTS);
const rarely = <const Value, const Other>(usual: Value, ...others: Other[]) =>
  fc.oneof({ weight: 7, arbitrary: fc.constant(usual) }, { weight: 2, arbitrary: fc.constantFrom(...others) });
const each = <Kind extends string>(...kinds: Kind[]) => fc.constantFrom(...kinds);

const call = fc.record({
  kind: each("call"),
  replica,
  /** So many at the same time, at one replica after the other. */
  times: rarely(1, 2, 3, 6),
  what: rarely("a", "b"),
  session: rarely(undefined, "invented"),
  key: rarely(undefined, "k-1", "k-2"),
  waits: rarely(false, true),
  /** A run takes until the next "go on". */
  runsLong: rarely(false, true),
  own: rarely("none", "new", "named"),
  which,
});

const steps = fc.array(
  fc.oneof(
    { weight: 12, arbitrary: call },
    { weight: 10, arbitrary: fc.record({ kind: each(...APPROVALS, "deny"), which, rests: rarely(true, false) }) },
    { weight: 7, arbitrary: fc.record({ kind: each("rest") }) },
    { weight: 4, arbitrary: fc.record({ kind: each("pass"), turns: fc.nat({ max: 40 }) }) },
    { weight: 4, arbitrary: fc.record({ kind: each("go on") }) },
    { weight: 2, arbitrary: fc.record({ kind: each("lose client", "fail"), replica, moment }) },
    { weight: 4, arbitrary: fc.record({ kind: each("stall"), replica, moment }) },
    { weight: 1, arbitrary: fc.record({ kind: each("clock"), byMs: fc.constantFrom(...CLOCK_STEPS_MS) }) },
    { weight: 1, arbitrary: fc.record({ kind: each("cancel", "revoke"), which }) },
    { weight: 1, arbitrary: fc.record({ kind: each("restart", "crash"), replica }) },
    { weight: 1, arbitrary: fc.record({ kind: each("sweep"), replica }) },
  ),
  { minLength: 10, maxLength: 50 },
);

type Step = typeof steps extends fc.Arbitrary<readonly (infer One)[]> ? One : never;
type CallStep = Extract<Step, { readonly kind: "call" }>;

const HAPPY = ["success", "pending", "CALL_IN_PROGRESS", "APPROVAL_DENIED", "RATE_LIMITED"];
/** Of a call that waited or named its approval, which ended otherwise. */
const OF_AN_APPROVAL = ["APPROVAL_EXPIRED", "APPROVAL_CANCELLED", "APPROVAL_REVOKED"];
const OF_A_NAME = ["APPROVAL_CONSUMED", "APPROVAL_MISMATCH"];
const OF_A_KEY = ["IDEMPOTENCY_CONFLICT", "OUTCOME_UNKNOWN"];
const OF_A_FAILURE = ["APPROVAL_UNAVAILABLE", "AUDIT_UNAVAILABLE", "TARGET_FAILED", "CANCELLED"];

interface Made {
  readonly step: CallStep;
  readonly at: Replica;
  readonly answer: Promise<Answer>;
  isOver: boolean;
}

/** One process of the service: it may lose a client, fail at one moment, or end. */
class Replica {
  isDead = false;
  /** The next call that comes to this moment stays there until the next "go on". */
  stalls: Moment | undefined;
  /** Calls that wait for a person or for the next "go on". */
  parked = 0;
  next: { readonly moment: Moment; readonly act: () => void } | undefined;
  readonly road: MomentsRoad;
  readonly #endings: (() => void)[] = [];

  constructor(road: MomentsRoad) {
    this.road = road;
    road.at = (moment) => this.#at(moment);
    road.stall = async (moment) => {
      if (moment !== this.stalls) return;
      this.stalls = undefined;
      await this.#park();
    };
  }

  /** Whether something was made to go wrong here. */
  hasFailed = false;

  #at(now: Moment): void {
    if (now === "after wait") this.parked -= 1;
    if (this.isDead) throw new Error("this process is no more");
    const { next } = this;
    if (next?.moment === now) {
      this.next = undefined;
      next.act();
    }
    if (now === "before wait") this.parked += 1;
  }

  runLong(isLong: boolean): void {
    this.road.during = isLong ? () => this.#park() : undefined;
  }

  async #park(): Promise<void> {
    this.parked += 1;
    await new Promise<void>((resolve) => this.#endings.push(resolve));
    this.parked -= 1;
  }

  goOn(): void {
    for (const end of this.#endings.splice(0)) end();
  }

  /** Ends waits and runs until no call is left. */
  async finish(calls: readonly Made[]): Promise<void> {
    const own = calls.filter(({ at }) => at === this);
    this.runLong(false);
    this.stalls = undefined;
    await untilSettled(() => {
      this.road.room.releaseAll();
      this.goOn();
      return own.every(({ isOver }) => isOver);
    });
  }
}

/** The time after which a call that has not ended hangs, in turns of the event loop with a pause each. */
const TURNS_MAX = 20_000;

async function untilSettled(isSettled: () => boolean): Promise<void> {
  for (let turns = 0; turns < TURNS_MAX; turns += 1) {
    if (isSettled()) return;
    await Bun.sleep(1);
  }
  throw new Error("a call hangs");
}

class Walk {
  readonly #world: ApprovalWorld;
  readonly #replicas: Replica[];
  readonly #former: Replica[] = [];
  readonly #calls: Made[] = [];
  readonly #journal: JournalLine[] = [];
  /** Of all replicas, the former ones included. */
  #approvals: readonly Approval[] = [];

  static async start(world: ApprovalWorld): Promise<Walk> {
    const first = await MomentsRoad.open({ world: atTokenTime(world) });
    const others = Array.from({ length: REPLICAS - 1 }, () => MomentsRoad.open({ world: first.world }));
    return new Walk(first.world, [first, ...(await Promise.all(others))]);
  }

  private constructor(world: ApprovalWorld, roads: readonly MomentsRoad[]) {
    this.#world = world;
    this.#replicas = roads.map((road) => new Replica(road));
    world.journal = async (line) => void this.#journal.push(line);
  }

  get #all(): readonly Replica[] {
    return [...this.#former, ...this.#replicas];
  }

  #at(index: number): Replica {
    const found = this.#replicas[index % this.#replicas.length];
    if (found === undefined) throw new Error("there is no replica");
    return found;
  }

  get #store() {
    return this.#at(0).road.approvals;
  }

  async #known(state?: Approval["state"]): Promise<readonly Approval[]> {
    const { approvals } = await this.#store.list({ limit: 200, ...(state && { state }) });
    return approvals;
  }

  async take(step: Step): Promise<void> {
    switch (step.kind) {
      case "call":
        return this.#call(step);
      case "approve":
      case "deny": {
        if (step.rests) await this.#rest();
        const pending = await this.#known("pending");
        const asked = pending[step.which % Math.max(pending.length, 1)];
        if (asked !== undefined) await this.#store.decide({ id: asked.id, by: OPERATOR, decision: step.kind });
        return;
      }
      case "cancel":
      case "revoke": {
        const known = await this.#known();
        const chosen = known[step.which % Math.max(known.length, 1)];
        if (chosen === undefined) return;
        if (step.kind === "cancel") await this.#store.cancel(chosen.id, chosen.requester);
        else await this.#store.revoke(chosen.id, OPERATOR);
        return;
      }
      case "rest":
        return this.#rest();
      case "pass":
        for (let turns = 0; turns < step.turns; turns += 1) await new Promise((resolve) => setImmediate(resolve));
        return;
      case "go on":
        for (const at of this.#replicas) at.goOn();
        return;
      case "stall":
        this.#at(step.replica).stalls = step.moment;
        return;
      case "lose client": {
        const at = this.#at(step.replica);
        at.next = { moment: step.moment, act: () => this.#clients.at(-1)?.leave() };
        return;
      }
      case "fail": {
        const at = this.#at(step.replica);
        at.hasFailed = true;
        at.next = { moment: step.moment, act: step.moment === "intent" ? refuse : failure };
        return;
      }
      case "clock":
        this.#world.now += step.byMs;
        return;
      case "sweep":
        return this.#store.sweep();
      case "restart":
      case "crash":
        return this.#startAgain(step);
    }
  }

  readonly #clients: Client[] = [];

  async #call(step: CallStep): Promise<void> {
    const { own, times } = step;
    const known = own === "named" ? await this.#known() : [];
    const named = known[step.which % Math.max(known.length, 1)]?.id;
    for (let time = 0; time < times; time += 1) this.#callAt(this.#at(step.replica + time), step, named);
  }

  #callAt(at: Replica, step: CallStep, named: string | undefined): void {
    const { what, session, key, waits, runsLong, own } = step;
    const client = new Client();
    this.#clients.push(client);
    at.runLong(runsLong);
    const request: Partial<CallRequest> = {
      ...{ args: { what }, session, idempotencyKey: key, disconnect: client },
      ...{ approvalId: named, newApproval: own === "new", waitMs: waits ? WAIT_MS : 0 },
    };
    const made: Made = { step, at, isOver: false, answer: at.road.call(request) };
    this.#calls.push(made);
    const end = (): void => {
      made.isOver = true;
    };
    made.answer.then(end, end);
  }

  /** Waits until every call has its answer, waits for a person, or runs on. */
  async #rest(): Promise<void> {
    await untilSettled(() => {
      const open = this.#calls.filter(({ isOver }) => !isOver).length;
      return open <= this.#all.reduce((sum, { parked }) => sum + parked, 0);
    });
  }

  async #startAgain({ kind, replica: index }: Extract<Step, { readonly kind: "restart" | "crash" }>): Promise<void> {
    const at = this.#at(index);
    if (kind === "crash") at.isDead = true;
    else await at.finish(this.#calls);
    at.road.room.releaseAll();
    const next = new Replica(await MomentsRoad.open({ world: this.#world }));
    this.#replicas[this.#replicas.indexOf(at)] = next;
    this.#former.push(at);
    if (kind === "restart") await at.road.approvals.close();
  }

  /** Lets everything end, and compares what is left. */
  async finish(): Promise<void> {
    for (const at of this.#all) {
      at.next = undefined;
      await at.finish(this.#calls);
    }
    await this.#checkAnswers();
    // What a process that is no more has claimed is in doubt after the lease.
    this.#world.now += 901_000;
    await this.#store.sweep();
    this.#approvals = await this.#known();
    this.#checkRuns();
    this.#checkStory();
    this.#checkNotes();
    await this.#checkAsked();
    await this.#checkThatWorkGoesOn();
  }

  async end(): Promise<void> {
    this.#world.journal = undefined;
    await this.#world.end();
  }

  async #checkAnswers(): Promise<void> {
    for (const { step, at, answer } of this.#calls) {
      if (at.isDead) {
        await answer.catch(() => {});
        continue;
      }
      const named = step.own === "named";
      const documented = [
        ...HAPPY,
        ...(named || step.waits ? OF_AN_APPROVAL : []),
        ...(named ? OF_A_NAME : []),
        ...(step.key === undefined ? [] : OF_A_KEY),
        ...(at.hasFailed || this.#clients.some(({ disconnected }) => disconnected) ? OF_A_FAILURE : []),
        ...(named ? ["APPROVAL_NOT_FOUND"] : []),
      ];
      expect(documented).toContain(nameOf(await answer));
    }
  }

  /** One approval is one run, and nothing runs that was not approved. */
  #checkRuns(): void {
    const voted = this.#journal.filter(({ type, decision }) => type === "approval.voted" && decision === "approve");
    const approved = new Set(voted.map(({ id }) => id));
    const claims = this.#journal.filter(({ type }) => type === "approval.claimed").map(({ id }) => id);
    expect(new Set(claims).size).toBe(claims.length);
    expect(claims.filter((id) => !approved.has(id))).toEqual([]);
    const deeds = this.#all.flatMap(({ road }) => road.deeds);
    const intents = this.#all.flatMap(({ road }) => road.intents.map(({ approval }) => approval?.id));
    expect(new Set(intents).size).toBe(intents.length);
    expect(intents.filter((id) => id === undefined || !claims.includes(id))).toEqual([]);
    for (const what of THINGS) {
      const ofThing = deeds.filter((deed) => deed === what).length;
      expect(ofThing).toBeLessThanOrEqual(
        this.#approvals.filter((one) => isOf(one, what) && approved.has(one.id)).length,
      );
    }
    expect(deeds.length).toBeLessThanOrEqual(intents.length);
    const used = this.#approvals.filter(({ id }) => intents.includes(id)).map(({ state }) => state);
    expect(used.filter((state) => !["executed", "failed", "in_doubt"].includes(state))).toEqual([]);
    expect(this.#approvals.filter(({ state }) => state === "claimed")).toEqual([]);
  }

  /** The store, the audit's entries and its intents agree. */
  #checkStory(): void {
    const entries = this.#all.flatMap(({ road }) => road.entries);
    const ran = entries.filter(({ decision, approval }) => decision === "ALLOWED" && approval?.id !== undefined);
    const states = new Map(this.#approvals.map(({ id, state }) => [id, state]));
    for (const { approval } of ran)
      expect(["executed", "in_doubt"]).toContain(states.get(approval?.id ?? "") ?? "none");
    for (const { id, state } of this.#approvals) {
      const runs = ran.filter(({ approval }) => approval?.id === id).length;
      if (state === "executed") expect(runs).toBe(1);
      else expect(runs).toBeLessThanOrEqual(state === "in_doubt" ? 1 : 0);
    }
    for (const at of this.#all.filter(({ isDead, hasFailed }) => !isDead && !hasFailed)) {
      const { road } = at;
      expect(road.entries).toHaveLength(this.#calls.filter((made) => made.at === at).length);
      for (const { traceId, approval } of road.intents) {
        const [entry, ...more] = road.entries.filter((one) => one.traceId === traceId);
        expect([entry?.approval?.id, more]).toEqual([approval?.id, []]);
      }
    }
  }

  /** An approver of a call that may have run a short time ago sees that. */
  #checkNotes(): void {
    const approvals = new Map(this.#approvals.map((one) => [one.id, one]));
    const claimed: Approval[] = [];
    for (const { type, id } of this.#journal) {
      const one = approvals.get(String(id));
      if (one === undefined) continue;
      if (type === "approval.claimed") claimed.push(one);
      if (type !== "approval.asked") continue;
      const [what = ""] = THINGS.filter((thing) => isOf(one, thing));
      const isRecent = ({ decidedAt = 0 }: Approval): boolean => one.createdAt - decidedAt < RAN_RECENTLY_MS;
      const mustTell = claimed.some((earlier) => isOf(earlier, what) && isRecent(earlier));
      if (mustTell) expect(JSON.stringify(one.view)).toContain("The same call was approved at");
    }
  }

  /** No person is asked about a call that could have run with an approval. */
  async #checkAsked(): Promise<void> {
    const approvals = new Map(this.#approvals.map((one) => [one.id, one]));
    const answers = await Promise.all(
      this.#calls.map(async ({ step, answer }) => ({ step, traceId: (await answer).result.traceId })),
    );
    const attaching = new Set(
      answers.flatMap(({ step: { own, key }, traceId }) => (own === "new" || key !== undefined ? [] : [traceId])),
    );
    let given: Approval[] = [];
    for (const { type, id, decision, traceId, planDigest } of this.#journal) {
      const one = approvals.get(String(id));
      if (one === undefined) continue;
      if (type === "approval.asked" && attaching.has(String(traceId))) {
        const usable = given.filter((earlier) => (earlier.executeBy ?? 0) > one.createdAt);
        expect(usable.filter((earlier) => earlier.planDigest === planDigest)).toEqual([]);
      }
      given = given.filter((earlier) => earlier.id !== id);
      if (type !== "approval.voted") continue;
      if (decision === "approve") given.push(one);
      else given = given.filter((earlier) => earlier.planDigest !== planDigest);
    }
  }

  /** Whatever has happened: the call is asked about, an approval runs it once, and the next approver sees the run. */
  async #checkThatWorkGoesOn(): Promise<void> {
    const { road } = this.#at(0);
    this.#world.now += 3_600_000;
    await this.#store.sweep();
    for (const what of THINGS) {
      const before = road.deeds.length;
      const args = { what };
      const id = await askedBy(road.call({ args }));
      await this.#store.decide({ id, by: OPERATOR, decision: "approve" });
      const other = this.#at(1).road;
      expect(nameOf(await other.call({ args }))).toBe("success");
      // By way of a hub, the outcome may follow the answer. The next request of the same replica comes after it.
      await other.approvals.get(id);
      const next = await askedBy(road.call({ args }));
      expect(next).not.toBe(id);
      expect(JSON.stringify((await this.#store.get(next))?.view)).toContain("and has run.");
      expect([(await this.#store.get(id))?.state, road.deeds.length]).toEqual(["executed", before]);
    }
  }
}

function isOf({ view }: Approval, what: string): boolean {
  return JSON.stringify(view).includes(`"what":"${what}"`);
}

async function askedBy(call: Promise<Answer>): Promise<string> {
  const { result } = await call;
  if (result.status !== "pending") throw new Error(`not asked: ${JSON.stringify(result)}`);
  return result.approval.id;
}

test.each(WAYS)(
  "by way of %s, in every sequence of calls, decisions, losses and restarts, one approval is one run, and no call hangs",
  async (_way, makeWorld) => {
    await fc.assert(
      fc.asyncProperty(steps, async (walk) => {
        const model = await Walk.start(makeWorld());
        try {
          for (const step of walk) await model.take(step);
          await model.finish();
        } finally {
          await model.end();
        }
      }),
      { numRuns: 25, endOnFailure: false },
    );
  },
  120_000,
);
