import { setTimeout as pause } from "node:timers/promises";
import { isCovered } from "../../approvals/grants.ts";
import type { Requester } from "../../approvals/identities.ts";
import { Notifier } from "../../approvals/store/notifier.ts";
import { waiting } from "../../approvals/store/waiting.ts";
import type {
  Approval,
  ApprovalEvent,
  Approvals,
  Asked,
  Claimed,
  Grant,
  KeyState,
  Prior,
} from "../../approvals/types.ts";
import { Refusal } from "../../core/errors.ts";
import type { HubAnswer, HubCallOptions, HubClient } from "../contract.ts";
import { HubUnavailable } from "../errors.ts";
import { type ApprovalMethodName, approvalMethodName, WAIT_MS_MAX } from "./approval-inputs.ts";
import { checkedOutput } from "./approval-outputs.ts";
import { ApprovalUses, type UsedBy } from "./approval-uses.ts";

/** Longest wait of a closing member for its last outcomes to reach the hub: a part of the five seconds that a service has for its end. */
const LAST_OUTCOMES_MS = 2_000;
/** Delay between two requests that wait for events, in milliseconds. */
const POLL_MS = 100;
/** The client counts an attempt as lost after half of the time limit: longer than the hub waits for events. */
const EVENTS_MS_MAX = 2 * (WAIT_MS_MAX + 5_000);

/** Repeats a report after its time limit: an approval or a key must not stay in use because the hub was away at the end of its call. */
const REPORTED: HubCallOptions = { isReport: true };

/** Requests about sessions and grants alone, in which outcomes change nothing: a slow outcome must not hold other callers. */
const WITHOUT_CLAIMS: ReadonlySet<ApprovalMethodName> = new Set<ApprovalMethodName>([
  ...(["openSession", "findSession", "hasSessionEnded"] as const),
  ...(["findGrant", "boundedGrants", "useGrant", "revokeGrantsFor"] as const),
]);

interface HubApprovalsOptions {
  /** The hub's URL, for messages. */
  readonly hub: string;
  readonly log?: (message: string, cause: unknown) => void;
  /** Returns whether this process may not claim yet: the claims of a former one have the same name at the hub. Default: never. */
  readonly isClaimHeld?: () => boolean;
}

/** Members of an input that are undefined are not sent. */
type Call = <Value>(name: ApprovalMethodName, input: object, options?: HubCallOptions) => Promise<Value>;

/**
 * Returns the approvals that a hub keeps, for one of its members. They fail as a store does that is away. What operators do, they do
 * at the hub.
 */
export function hubApprovals(
  client: HubClient,
  { hub, log = () => {}, isClaimHeld = () => false }: HubApprovalsOptions,
): Approvals {
  /** Outcomes of calls that were sent to the hub, without an answer yet. */
  const settling = new Set<Promise<unknown>>();
  const send = (name: ApprovalMethodName, input: object, options?: HubCallOptions): Promise<HubAnswer> =>
    client.call(approvalMethodName(name), input, options);
  /** Sends a request that may see claims, once the hub has the earlier outcomes or has not answered them in time. */
  const sendInOrder = async (name: ApprovalMethodName, input: object, options?: HubCallOptions): Promise<HubAnswer> => {
    if (settling.size > 0 && !WITHOUT_CLAIMS.has(name)) await Promise.allSettled(settling);
    return send(name, input, options);
  };
  const call: Call = async <Value>(name: ApprovalMethodName, input: object, options?: HubCallOptions) =>
    checkedOutput(name, input, (await sendInOrder(name, input, options)).value) as Value;
  const find = async <Value>(name: ApprovalMethodName, input: object, options?: HubCallOptions) =>
    (await call<Value | null>(name, input, options)) ?? undefined;
  // The client repeats a report that does not arrive, and logs it in the end.
  const report = (name: "settle" | "endKey", input: object, done = () => {}): void => {
    send(name, input, { ...REPORTED, late: done }).then(done, (error: unknown) => {
      if (!(error instanceof HubUnavailable)) done();
    });
  };
  const uses = new ApprovalUses({
    // A call that is refused because the answer comes too late does not use its approval.
    giveBack: (id, done) => report("settle", { id, outcome: "unused" }, done),
  });
  /** @throws {HubUnavailable} */
  const assertMayClaim = (): void => {
    if (isClaimHeld())
      throw new HubUnavailable("the hub does not know yet how the calls of the former process have ended");
  };
  const use = async <Value extends Asked | Claimed>(name: "ask" | "claim", input: UsedBy): Promise<Value> => {
    assertMayClaim();
    const read = (value: unknown): Value => checkedOutput(name, input, value) as Value;
    return uses.send(input, { read, request: (options) => sendInOrder(name, input, options) });
  };
  const closing = new AbortController();
  const notifier = new Notifier({
    pollMs: POLL_MS,
    // One request at a time waits for the events of all that wait in this process.
    async eventsAfter(seq, limit) {
      const input = { seq, limit, timeoutMs: WAIT_MS_MAX };
      const { value } = await send("awaitEvents", input, { timeoutMs: EVENTS_MS_MAX, signal: closing.signal });
      return value as readonly ApprovalEvent[];
    },
    lastSeq: () => call("lastSeq", {}),
    log,
  });
  const waits = waiting({
    notifier,
    async read(id) {
      const { value, now } = await sendInOrder("get", { id });
      return { approval: (checkedOutput("get", { id }, value) as Approval | null) ?? undefined, now };
    },
  });
  const atTheHub = async (): Promise<never> => {
    throw new Refusal("PERMISSION_DENIED", `Approvals are decided at the hub of this service: ${hub}.`);
  };
  return {
    isRemote: true,
    ask({ shownPriors, ...request }) {
      const input = { ...request, shownPriors: shownPriors?.map(({ id, state }) => ({ id, state })) };
      return use("ask", input);
    },
    foresee: ({ shownPriors: _, ...request }) => find("foresee", request),
    claim: (claim) => use("claim", claim),
    async priorOf(of) {
      const { usable, earlier } = await call<Prior>("priorOf", of);
      return { usable, earlier };
    },
    async settle(id, outcome) {
      const sent = send("settle", { id, outcome }, REPORTED);
      settling.add(sent);
      await sent.finally(() => settling.delete(sent));
    },
    cancel: (id, requester) => find("cancel", { id, requester: ownerOf(requester) }),
    get: (id) => find("get", { id }),
    ageOf: (id) => find("ageOf", { id }),
    list: ({ requester, ...filter }) =>
      requester === undefined ? atTheHub() : call("list", { ...filter, requester: ownerOf(requester) }),
    backlog: () => call("backlog", {}),
    wait: (id, options) => Promise.race([waits.wait(id, options), leaving(options.signal)]),
    findGrant: async (requester, grantKey) =>
      requester.session ? find("findGrant", { requester, grantKey }) : undefined,
    async findBoundedGrants(of) {
      // The arguments of the call stay here.
      const { requester, boundsKey } = of;
      const found = await call<readonly Grant[]>("boundedGrants", { requester, boundsKey });
      return found.filter(({ bounded }) => bounded !== undefined && isCovered(bounded.bounds, of));
    },
    useGrant: (id, traceId) => find("useGrant", { id, traceId }),
    async revokeGrantsFor(tools) {
      if (tools.length > 0) await call("revokeGrantsFor", { tools });
    },
    openSession: (requester) => call("openSession", { requester: ownerOf(requester) }),
    findSession: (id, requester) => find("findSession", { id, requester: ownerOf(requester) }),
    hasSessionEnded: (id, requester) => call("hasSessionEnded", { id, requester: ownerOf(requester) }),
    async endSession(id, by, owner = by) {
      if (owner.issuer !== by.issuer || owner.subject !== by.subject) return atTheHub();
      return call("endSession", { id, requester: ownerOf(by) });
    },
    async beginKey(begun) {
      assertMayClaim();
      return call(
        "beginKey",
        { use: begun },
        {
          // An agent that repeats its call gets the key that its first attempt has begun.
          resumes: true,
          // The call was refused: the key can be used again.
          late: (answer) => {
            if ((answer?.value as KeyState | null | undefined)?.outcome === "begin")
              report("endKey", { use: begun, end: "not_run" });
          },
        },
      );
    },
    async endKey(ended, end, unkept) {
      await send("endKey", { use: ended, end, unkept }, REPORTED);
    },
    // For uses of keys whose rows name no process; those of a member always do, and `doubtClaimsOf` has ended them.
    doubtKey: async () => {},
    createTask: (task) => find("createTask", task),
    readTask: (id, requester) => find("readTask", { id, requester }),
    hasTask: (id, requester) => call("hasTask", { id, requester }),
    endTask: (id, end) => call("endTask", { id, end }),
    cancelTask: (id, requester) => call("cancelTask", { id, requester }),
    eventsAfter: (seq, limit) => call("eventsAfter", { seq, limit }),
    lastSeq: () => call("lastSeq", {}),
    onEvents: (listener) => notifier.listen(listener),
    claimsOf: (instance) => call("claimsOf", { instance }),
    async doubtClaimsOf(instance) {
      // Sent again under the same id: a repetition that arrives late must not put in doubt the claims that this process has made since.
      await call("doubtClaimsOf", { instance }, { resumes: true, late() {} });
    },
    async resolveDoubt({ claimant, approvalId, key, startedAt, isDone }) {
      const use = key && { issuer: key.issuer, subject: key.subject, tool: key.tool, keyHash: key.keyHash };
      // JSON has no NaN; a key that was used at an unknown time is not settled, as with 0.
      const at = Number.isNaN(startedAt) ? 0 : startedAt;
      await call("resolveDoubt", { instance: claimant, approvalId, use, startedAt: at, isDone }, REPORTED);
    },
    // The hub sweeps.
    sweep: async () => {},
    // The client belongs to the service.
    async close() {
      notifier.close();
      closing.abort();
      await Promise.race([Promise.allSettled(settling), pause(LAST_OUTCOMES_MS, undefined, { ref: false })]);
    },
    decide: atTheHub,
    revoke: atTheHub,
    revokeGrant: atTheHub,
    listGrants: atTheHub,
    setMode: atTheHub,
    listSessions: atTheHub,
    earlierDecisions: atTheHub,
  };
}

/** Resolves when the signal fires: who has left does not wait for a last look at a hub that may be away. */
function leaving(signal: AbortSignal | undefined): Promise<undefined> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  signal?.addEventListener("abort", () => resolve(undefined), { once: true });
  return promise;
}

function ownerOf({ issuer, subject }: Pick<Requester, "issuer" | "subject">) {
  return { issuer, subject };
}
