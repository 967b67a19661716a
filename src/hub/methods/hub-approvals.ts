import { isCovered } from "../../approvals/grants.ts";
import type { Requester } from "../../approvals/identities.ts";
import type { Approval, Approvals, Grant, Prior } from "../../approvals/types.ts";
import { Refusal } from "../../core/errors.ts";
import type { HubCallOptions, HubClient } from "../contract.ts";
import { type ApprovalMethodName, approvalMethodName } from "./approval-inputs.ts";
import { followEvents } from "./hub-events.ts";
import { waitThrough } from "./hub-wait.ts";

interface HubApprovalsOptions {
  /** The hub's URL, for messages. */
  readonly hub: string;
  readonly log?: (message: string, cause: unknown) => void;
}

/** Members of an input that are undefined are not sent. */
type Call = <Value>(name: ApprovalMethodName, input: object, options?: HubCallOptions) => Promise<Value>;

/**
 * Returns the approvals that a hub keeps, for one of its members. They fail as a store does that is away. What operators do, they do
 * at the hub.
 */
export function hubApprovals(client: HubClient, { hub, log = () => {} }: HubApprovalsOptions): Approvals {
  const call: Call = async <Value>(name: ApprovalMethodName, input: object, options?: HubCallOptions) =>
    (await client.call(approvalMethodName(name), input, options)).value as Value;
  const find = async <Value>(name: ApprovalMethodName, input: object, options?: HubCallOptions) =>
    (await call<Value | null>(name, input, options)) ?? undefined;
  const atTheHub = async (): Promise<never> => {
    throw new Refusal("PERMISSION_DENIED", `Approvals are decided at the hub of this service: ${hub}.`);
  };
  return {
    ask: ({ shownPriors, ...request }) =>
      call("ask", { ...request, shownPriors: shownPriors?.map(({ id, state }) => ({ id, state })) }),
    foresee: ({ shownPriors: _, ...request }) => find("foresee", request),
    claim: (claim) => call("claim", claim),
    async priorOf(of) {
      const { usable, earlier } = await call<Prior>("priorOf", of);
      return { usable, earlier };
    },
    async settle(id, outcome) {
      await call("settle", { id, outcome });
    },
    cancel: (id, requester) => find("cancel", { id, requester: ownerOf(requester) }),
    get: (id) => find("get", { id }),
    ageOf: (id) => find("ageOf", { id }),
    list: ({ requester, ...filter }) =>
      requester === undefined ? atTheHub() : call("list", { ...filter, requester: ownerOf(requester) }),
    backlog: () => call("backlog", {}),
    wait: waitThrough((id, timeoutMs, options) => find<Approval>("wait", { id, timeoutMs }, options)),
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
    beginKey: (use) => call("beginKey", { use }),
    async endKey(use, end, unkept) {
      await call("endKey", { use, end, unkept });
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
    onEvents: followEvents({
      lastSeq: (options) => call("lastSeq", {}, options),
      awaitEvents: (after, timeoutMs, options) => call("awaitEvents", { after, timeoutMs }, options),
      log,
    }),
    async doubtClaimsOf(instance) {
      await call("doubtClaimsOf", { instance });
    },
    // The hub sweeps.
    sweep: async () => {},
    // The client belongs to the service.
    close: async () => {},
    ...{ decide: atTheHub, revoke: atTheHub, revokeGrant: atTheHub, listGrants: atTheHub },
    ...{ setMode: atTheHub, listSessions: atTheHub, earlierDecisions: atTheHub },
  };
}

function ownerOf({ issuer, subject }: Pick<Requester, "issuer" | "subject">) {
  return { issuer, subject };
}
