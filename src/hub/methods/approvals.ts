import type { z } from "zod";
import { ForeignRowError, type MemberApprovals, type OpenedApprovals } from "../../approvals/approvals.ts";
import type { Approver } from "../../approvals/identities.ts";
import type { HubMember, HubMethod, HubRequest } from "../contract.ts";
import { HubRefusal, issuerNotAllowed } from "../errors.ts";
import { answerOf, once } from "../once.ts";
import { APPROVAL_INPUTS, type ApprovalInput, type ApprovalMethodName, approvalMethodName } from "./approval-inputs.ts";

type HubStore = Pick<OpenedApprovals, "forMember" | "memberEvents">;

/** A request, and the approvals as its member may use them. */
interface Use {
  readonly store: MemberApprovals;
  readonly request: HubRequest;
  readonly events: HubStore["memberEvents"];
}

type Methods = { readonly [Name in ApprovalMethodName]: (use: Use, input: ApprovalInput<Name>) => Promise<unknown> };

/** The methods that members may call. `hubApprovals` refuses all others. */
const METHODS: Methods = {
  ask: ({ store }, request) => store.ask(request),
  foresee: ({ store }, request) => store.foresee(request),
  claim: ({ store }, claim) => store.claim(claim),
  priorOf: ({ store }, call) => store.priorOf(call),
  settle: ({ store }, { id, outcome }) => store.settle(id, outcome),
  cancel: ({ store }, { id, requester }) => store.cancel(id, requester),
  get: ({ store }, { id }) => store.get(id),
  ageOf: ({ store }, { id }) => store.ageOf(id),
  list: ({ store }, filter) => store.list(filter),
  backlog: ({ store }) => store.backlog(),
  findGrant: ({ store }, { requester, grantKey }) => store.findGrant(requester, grantKey),
  boundedGrants: ({ store }, call) => store.boundedGrants(call),
  useGrant: ({ store }, { id, traceId }) => store.useGrant(id, traceId),
  revokeGrantsFor: ({ store, request }, { tools }) => store.revokeGrantsFor(tools, writerOf(request.member)),
  openSession: ({ store }, { requester }) => store.openSession(requester),
  findSession: ({ store }, { id, requester }) => store.findSession(id, requester),
  hasSessionEnded: ({ store }, { id, requester }) => store.hasSessionEnded(id, requester),
  endSession: ({ store }, { id, requester }) => store.endSession(id, requester, requester),
  beginKey: ({ store }, { use }) => store.beginKey(use),
  endKey: ({ store }, { use, end, unkept }) => store.endKey(use, end, unkept),
  createTask: ({ store }, task) => store.createTask(task),
  readTask: ({ store }, { id, requester }) => store.readTask(id, requester),
  hasTask: ({ store }, { id, requester }) => store.hasTask(id, requester),
  endTask: ({ store }, { id, end }) => store.endTask(id, end),
  cancelTask: ({ store }, { id, requester }) => store.cancelTask(id, requester),
  eventsAfter: ({ store }, { seq, limit }) => store.eventsAfter(seq, limit),
  lastSeq: ({ store }) => store.lastSeq(),
  async awaitEvents({ store, request: { member, signal }, events }, { seq, limit, timeoutMs }) {
    await events.wait(member.name, { after: seq, timeoutMs, signal });
    return store.eventsAfter(seq, limit);
  },
  claimsOf: ({ store }, { instance }) => store.claimsOf(instance),
  doubtClaimsOf: ({ store }, { instance }) => store.doubtClaimsOf(instance),
  resolveDoubt: ({ store }, { instance, use, ...found }) =>
    store.resolveDoubt({ ...found, claimant: instance, key: use }),
};

/** The approver that the journal names when a member's tool has written to its workspace. */
function writerOf({ name }: HubMember): Approver {
  return { issuer: "safe-tool-call", subject: `a write to the workspace of ${name}` };
}

/** Returns the methods of approvals that a hub offers its members. */
export function approvalMethods(approvals: HubStore): readonly HubMethod[] {
  return (Object.keys(METHODS) as ApprovalMethodName[]).map((name) => methodOf(name, approvals));
}

function methodOf<Name extends ApprovalMethodName>(name: Name, approvals: HubStore): HubMethod {
  const run: (use: Use, input: ApprovalInput<Name>) => Promise<unknown> = METHODS[name];
  return {
    name: approvalMethodName(name),
    input: APPROVAL_INPUTS[name] as z.ZodType,
    waits: name === "awaitEvents",
    async handle(input, request) {
      const { member, id, digest } = request;
      const issuer = issuerIn(input as Named);
      if (issuer !== undefined && !member.speaksFor(issuer)) throw issuerNotAllowed(member);
      const keyOf = (write: number) => ({ member: member.name, id: `${id}/${write}`, digest });
      const store = approvals.forMember({
        member: member.name,
        instance: member.instance,
        speaksFor: (named) => member.speaksFor(named),
        once: (tx, write, work) => once(tx, keyOf(write), work),
        answered: (view) => answerOf(view, keyOf(0)),
      });
      try {
        const value = await run({ store, request, events: approvals.memberEvents }, input as ApprovalInput<Name>);
        return { value, now: await store.now() };
      } catch (error) {
        if (error instanceof ForeignRowError) throw new HubRefusal(403, "FOREIGN_ROW", error.message);
        throw error;
      }
    },
  };
}

interface Named {
  readonly requester?: { readonly issuer: string };
  readonly use?: { readonly issuer: string } | undefined;
}

/** Every method that is about a caller names it in one of these members. */
function issuerIn({ requester, use }: Named): string | undefined {
  return requester?.issuer ?? use?.issuer;
}
