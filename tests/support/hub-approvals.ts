import type { OpenedApprovals } from "../../src/approvals/approvals.ts";
import type { Approvals } from "../../src/approvals/types.ts";
import { sha256Hex } from "../../src/core/digest.ts";
import type { HubAnswer, HubCallOptions, HubClient, HubMethod, HubRequest } from "../../src/hub/contract.ts";
import { HubRefusal, HubUnavailable } from "../../src/hub/errors.ts";
import { approvalMethods } from "../../src/hub/methods/approvals.ts";
import { hubApprovals } from "../../src/hub/methods/hub-approvals.ts";
import { decodeWire, encodeWire } from "../../src/hub/wire.ts";
import { type ApprovalWorld, createApprovalWorld, type Reach } from "./approvals.ts";

export const HUB_URL = "https://hub.example:8443";

export type Hub = ReadonlyMap<string, HubMethod>;

/** Returns the methods of one hub, without its listener. */
export function hubOf(approvals: OpenedApprovals): Hub {
  return new Map(approvalMethods(approvals).map((method) => [method.name, method]));
}

/** The transport of a request between its member and the hub. */
export type Fate = "arrives" | "answer lost" | "sent twice at once" | "arrives again later" | "answer too late";

interface ClientOptions {
  readonly member?: string;
  readonly instance?: () => string;
  readonly speaksFor?: (issuer: string) => boolean;
  readonly fate?: () => Fate;
  /** The hubs' clock. */
  readonly now?: () => number;
  /** Called with each request that a hub gets. */
  readonly sent?: (method: string, id: string) => void;
  /** Called with how an answer that comes too late arrives. */
  readonly later?: (arrive: () => void) => void;
}

/** No request arrives after the time for which hubs know that they have carried it out. */
const KEPT_MS = 600_000;

let ids = 0;

/** A client of hubs in this process: everything goes through the wire. Errors of the store come as they are. */
export function clientOf(hubs: readonly Hub[], options: ClientOptions = {}): HubClient {
  const {
    member = "crm",
    instance = () => "log-1",
    fate = () => "arrives",
    now = () => 0,
    sent = () => {},
    speaksFor = () => true,
    later = setImmediate,
  } = options;
  let turn = 0;
  const late: { readonly sentAt: number; readonly again: () => Promise<unknown> }[] = [];
  const send = async (method: string, input: string, request: Omit<HubRequest, "member">) => {
    turn += 1;
    const offered = hubs[turn % hubs.length]?.get(method);
    if (offered === undefined) throw new HubRefusal(404, "UNKNOWN_METHOD", `The hub has no method ${method}.`);
    const parsed = offered.input.safeParse(decodeWire(input));
    if (!parsed.success) throw new HubRefusal(400, "INVALID_INPUT", parsed.error.message);
    sent(method, request.id);
    const answer = await offered.handle(parsed.data, {
      ...request,
      member: { name: member, instance: instance(), speaksFor },
    });
    return decodeWire(encodeWire(answer)) as HubAnswer;
  };
  return {
    async call(method, input, { signal = new AbortController().signal, late: answered }: HubCallOptions = {}) {
      // Not awaited: it may have to wait for a writer that this call lets go on.
      for (const { sentAt, again } of late.splice(0)) if (now() - sentAt < KEPT_MS) void again().catch(() => {});
      ids += 1;
      const text = encodeWire(input);
      const request = { id: `request-${ids}`, digest: sha256Hex(`${method} ${text}`), signal };
      const sendIt = () => send(method, text, request);
      switch (fate()) {
        case "arrives":
          return sendIt();
        case "answer lost":
          await sendIt().catch(() => {});
          return sendIt();
        case "sent twice at once": {
          const [first, second] = await Promise.allSettled([sendIt(), sendIt()]);
          if (first.status === "rejected") throw first.reason;
          if (second.status === "rejected") throw second.reason;
          return second.value;
        }
        case "answer too late": {
          const answer = await sendIt();
          if (answered !== undefined) later(() => answered(answer));
          throw new HubUnavailable("no answer");
        }
        case "arrives again later": {
          // After a failure, nobody knows whether the request will be carried out.
          const answer = await sendIt();
          const again = () => send(method, text, { ...request, signal: AbortSignal.abort() });
          late.push({ sentAt: now(), again });
          return answer;
        }
      }
    },
    isConnected: true,
    pushed: () => undefined,
    watch: () => () => {},
    close: async () => {},
  };
}

/** A sequence of fates that is the same in each run: most requests arrive. */
export function fates(seed = 1): () => Fate {
  let state = seed;
  const kinds: readonly Fate[] = ["answer lost", "sent twice at once", "arrives again later"];
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return kinds[Math.floor(state / 65_536) % 6] ?? "arrives";
  };
}

/** Methods that tests call at the hub, because members may not. */
const AT_THE_HUB = [
  "decide",
  "revoke",
  "revokeGrant",
  "listGrants",
  "setMode",
  "listSessions",
  "earlierDecisions",
  "sweep",
] as const;

/** A member of two hubs of one database, whose answers are lost at times. What operators do, they do at the first hub. */
export const byHub: Reach = async (openOne, world) => {
  const hubs = [await openOne(), await openOne()] as const;
  const [first] = hubs;
  const client = clientOf(hubs.map(hubOf), {
    instance: () => world.claimant ?? "log-1",
    fate: fates(),
    now: () => world.now,
  });
  const member = hubApprovals(client, {
    hub: HUB_URL,
    log: (message, cause) => world.logged.push(`${message}: ${cause}`),
  });
  const atTheHub = Object.fromEntries(AT_THE_HUB.map((name) => [name, first[name]])) as unknown as Pick<
    Approvals,
    (typeof AT_THE_HUB)[number]
  >;
  return {
    ...first,
    ...member,
    ...atTheHub,
    list: (filter) => first.list(filter),
    endSession: (id, by, owner) =>
      by.issuer === OPERATORS ? first.endSession(id, by, owner) : member.endSession(id, by, owner),
    async close() {
      await member.close();
      await Promise.all(hubs.map((hub) => hub.close()));
    },
  };
};

/** The issuer of the operators in the tests of approvals. */
const OPERATORS = "https://people.example";

/** The ways in which a store is reached, for tests that hold for each. */
export const WAYS: readonly (readonly [title: string, makeWorld: () => ApprovalWorld])[] = [
  ["a store", () => createApprovalWorld()],
  ["a hub", () => createApprovalWorld(undefined, byHub)],
];
