import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { OpenedApprovals } from "../../src/approvals/approvals.ts";
import type { Approvals } from "../../src/approvals/types.ts";
import { Refusal } from "../../src/core/errors.ts";
import { flowSecret } from "../../src/data-flow/operations.ts";
import { operationsOn, type StateOperations } from "../../src/database/operations.ts";
import type { HaltTarget } from "../../src/halts/halt.ts";
import { liftHalt, listHalts, setHalt } from "../../src/halts/operations.ts";
import type { HubClient } from "../../src/hub/contract.ts";
import { hubApprovals } from "../../src/hub/methods/hub-approvals.ts";
import { hubState } from "../../src/hub/methods/state.ts";
import { fillOrders, readUses } from "../../src/quotas/operations.ts";
import { openHub, type RunningHub } from "../../src/runtime/composition/hub.ts";
import type { TenantHub } from "../../src/runtime/composition/hub-share.ts";
import type { Config } from "../../src/runtime/config/config.ts";
import {
  AGENT,
  type ApprovalWorld,
  askFor,
  claimOf,
  createApprovalWorld,
  OPERATOR,
  questionOf,
} from "../support/approvals.ts";
import { HUB_URL } from "../support/hub-approvals.ts";
import { openState } from "../support/shared-state.ts";
import { until } from "../support/until.ts";
import { openMember } from "./world.ts";

/** A service or a tenant, with a database of its own. */
interface Part {
  readonly world: ApprovalWorld;
  readonly approvals: OpenedApprovals;
  readonly operations: StateOperations;
  /** Methods that its members asked for, as its metrics count them. */
  readonly observed: string[];
}

type Rule = NonNullable<NonNullable<Config["hub"]>["members"]>[number];

const RULES: readonly Rule[] = [
  { subject: "acme-*", tenant: "acme" },
  { subject: "globex-*", tenant: "globex" },
  { subject: "initech-*", tenant: "initech" },
  { subject: "own-*" },
];
/** `AGENT` is a caller of the tenants. */
const ISSUERS = [
  { issuer: AGENT.issuer, operators: false, tenants: { claim: "tenant", names: ["acme", "globex"] } },
  { issuer: "https://acme.test", operators: false, tenants: { claim: "tenant", names: ["acme"] } },
  { issuer: "https://own.test", operators: false },
];
const OWN = { ...AGENT, issuer: "https://own.test" };

const configOf = (members: readonly Rule[]) => ({ hub: { members }, jwt: { issuers: ISSUERS } }) as unknown as Config;

let parts: Record<"own" | "acme" | "globex", Part>;
let hub: RunningHub;
let tenants: Record<"acme" | "globex", TenantHub>;
const closings: (() => Promise<unknown>)[] = [];

beforeEach(async () => {
  parts = { own: await openPart(), acme: await openPart(), globex: await openPart() };
  hub = await openHub(configOf(RULES), {
    ...shareOf(parts.own),
    settings: { host: "127.0.0.1", port: 0, tls: undefined, tokens: tokens as never },
    clock: Date.now,
    monotonic: () => performance.now(),
    journal: async (line) => void parts.own.world.lines.push(line as never),
  });
  closings.push(() => hub.close());
  tenants = {
    acme: hub.serve("acme", shareOf(parts.acme)),
    globex: hub.serve("globex", shareOf(parts.globex)),
  };
});
afterEach(async () => {
  for (const close of closings.splice(0).reverse()) await close();
});

/** The token is the subject of the member. */
const tokens = {
  verify: async (authorization = "") => {
    if (!authorization.startsWith("Bearer ")) throw new Refusal("UNAUTHENTICATED", "no");
    return { caller: { issuer: "https://k8s.test", subject: authorization.slice(7), expiresAt: Date.now() } };
  },
};

async function openPart(): Promise<Part> {
  const world = createApprovalWorld();
  closings.push(() => world.end());
  const approvals = await world.open();
  const state = openState({ url: world.url, now: () => world.now });
  closings.push(() => state.close());
  const operations = operationsOn(state, async (line) => void world.lines.push(line));
  return { world, approvals, operations, observed: [] };
}

const shareOf = ({ approvals, operations, observed }: Part) => ({
  approvals,
  operations,
  onHubRequest: (method: string, outcome: string) => void observed.push(`${method} ${outcome}`),
});

interface Member {
  readonly client: HubClient;
  readonly approvals: Approvals;
  readonly state: StateOperations;
}

/** All members have the same instance, and the same ids of requests. */
function memberOf(subject: string): Member {
  const client = openMember({ port: Number(new URL(hub.url).port), token: () => subject, newId: idsOf() });
  const approvals = hubApprovals(client, { hub: HUB_URL });
  closings.push(async () => {
    await approvals.close();
    await client.close();
  });
  return { client, approvals, state: hubState(client, { hub: HUB_URL }) };
}

function idsOf(): () => string {
  let ids = 0;
  return () => {
    ids += 1;
    return `request-of-a-member-${ids}`;
  };
}

const haltOf = (id: string, kind: HaltTarget["kind"], value = "", tenant?: string) => ({
  ...{ id, reason: "r", cancelRunning: false, by: OPERATOR },
  target: { kind, issuer: "", value, ...(tenant !== undefined && { tenant }) },
});
const use = { issuer: AGENT.issuer, subject: AGENT.subject, tool: "deploy", keyHash: "k", argsHash: "a" };
const refused = (code: string) => ({ name: "HubRefusal", status: 403, code });
const caught = (work: Promise<unknown>): Promise<unknown> => work.catch((error: unknown) => error);
const names = (members: readonly { readonly name: string }[]) => members.map(({ name }) => name.replace(/@.*/, ""));
const task = { tool: "deploy", args: { to: "prod" } };

describe("members of two tenants with equal callers, keys and ids of requests", () => {
  test("a request is one of the member's tenant: its people decide, its journal says so, and the other's equal one still waits", async () => {
    const [acme, globex] = [memberOf("acme-1"), memberOf("globex-1")];
    const [one, other] = [await askFor(acme.approvals), await askFor(globex.approvals)];
    expect(other.id).toBe(one.id);
    expect((await parts.acme.approvals.list({ limit: 10 })).approvals).toMatchObject([
      { id: one.id, members: ["acme-1@https://k8s.test"] },
    ]);
    expect((await parts.own.approvals.list({ limit: 10 })).approvals).toEqual([]);
    await parts.acme.approvals.decide({ id: one.id, by: OPERATOR, decision: "approve" });
    expect(await globex.approvals.claim(claimOf(other))).toMatchObject({ outcome: "not_approved" });
    expect(await acme.approvals.claim(claimOf(one))).toMatchObject({ outcome: "claimed" });
    await acme.approvals.settle(one.id, "executed");
    expect((await parts.globex.approvals.get(other.id))?.state).toBe("pending");
    const types = ({ world }: Part) => world.lines.map(({ type }) => type);
    expect(types(parts.acme)).toEqual(["approval.asked", "approval.voted", "approval.claimed", "approval.settled"]);
    expect([types(parts.globex), types(parts.own)]).toEqual([["approval.asked"], []]);
    expect([await acme.approvals.lastSeq(), await globex.approvals.lastSeq()]).toEqual([4, 1]);
  });

  test("a key that one has begun is free for the other", async () => {
    const [acme, globex] = [memberOf("acme-1"), memberOf("globex-1")];
    for (const { approvals } of [acme, globex]) expect(await approvals.beginKey(use)).toEqual({ outcome: "begin" });
    await acme.approvals.endKey(use, { result: "of acme", filteredFields: [], outputHash: "h" });
    expect(await acme.approvals.beginKey(use)).toMatchObject({ outcome: "answered", answer: { result: "of acme" } });
    expect(await globex.approvals.beginKey(use)).toEqual({ outcome: "running" });
  });

  test("each uses a whole quota of its own", async () => {
    const user = { issuer: AGENT.issuer, subject: AGENT.subject, tool: "", system: "" };
    const quota = { name: "q", unit: "calls", window: "day", limit: 3 } as const;
    const orders = [{ quota, user, owed: 0, wanted: 3, least: 1, inBlocks: false, knownUse: 0 }];
    const granted = async ({ state }: Member) => (await state.run(fillOrders, { orders })).value[0]?.granted;
    const [acme, globex] = [memberOf("acme-1"), memberOf("globex-1")];
    expect([await granted(acme), await granted(memberOf("acme-2")), await granted(globex)]).toEqual([3, 0, 3]);
    const used = async (part: Part) =>
      (await part.operations.run(readUses, { questions: [{ quota, user }] })).value[0]?.used;
    expect([await used(parts.acme), await used(parts.globex), await used(parts.own)]).toEqual([3, 3, 0]);
  });

  test("fingerprints of what callers have read are made with a secret of the tenant", async () => {
    const secretOf = async (subject: string, proposed: string) =>
      Buffer.from((await memberOf(subject).state.run(flowSecret, { proposed: proposed.repeat(64) })).value).toString(
        "hex",
      );
    expect(await secretOf("acme-1", "a")).toBe("a".repeat(64));
    expect(await secretOf("globex-1", "b")).toBe("b".repeat(64));
    expect(await secretOf("acme-2", "c")).toBe("a".repeat(64));
  });

  test("a member of the service itself has what the service has", async () => {
    const own = memberOf("own-1");
    const { id } = await askFor(own.approvals, { requester: OWN });
    expect((await parts.own.approvals.get(id))?.state).toBe("pending");
    expect((await parts.acme.approvals.list({ limit: 10 })).approvals).toEqual([]);
  });
});

describe("a member that names what another tenant has", () => {
  test("finds nothing, and changes nothing there", async () => {
    const [acme, globex] = [memberOf("acme-1").approvals, memberOf("globex-1").approvals];
    const asked = await askFor(globex);
    await parts.globex.approvals.decide({ id: asked.id, by: OPERATOR, decision: "approve", scope: "session" });
    const { id: session } = await globex.openSession(AGENT);
    const { id: taskId = "" } = (await globex.createTask({ requester: AGENT, approvalId: asked.id, call: task })) ?? {};
    const grantKey = questionOf().grantKey ?? "";
    const { id: grant = "" } = (await globex.findGrant(AGENT, grantKey)) ?? {};
    expect([taskId, grant]).not.toContain("");
    await globex.beginKey(use);
    const before = await parts.globex.approvals.get(asked.id);

    expect(await acme.get(asked.id)).toBeUndefined();
    expect(await acme.ageOf(asked.id)).toBeUndefined();
    expect(await acme.claim(claimOf(asked))).toEqual({ outcome: "not_found" });
    expect(await acme.cancel(asked.id, AGENT)).toBeUndefined();
    await acme.settle(asked.id, "executed");
    expect(await acme.findGrant(AGENT, grantKey)).toBeUndefined();
    expect(await acme.useGrant(grant, "trace")).toBeUndefined();
    await acme.revokeGrantsFor(["deploy"], OPERATOR);
    expect(await acme.findSession(session, AGENT)).toBeUndefined();
    expect(await acme.endSession(session, AGENT)).toBe(false);
    expect(await acme.readTask(taskId, AGENT)).toBeUndefined();
    expect(await acme.hasTask(taskId, AGENT)).toBe(false);
    expect(await acme.endTask(taskId, { answer: "forged", short: "forged", mayRunLater: false })).toBe(false);
    expect(await acme.createTask({ requester: AGENT, approvalId: asked.id, call: task })).toBeUndefined();
    await acme.endKey(use, { result: "forged", filteredFields: [], outputHash: "h" });
    await acme.doubtClaimsOf("log-1");
    expect(await acme.eventsAfter(0, 100)).toEqual([]);

    expect(await parts.globex.approvals.get(asked.id)).toEqual(before);
    expect(await globex.findGrant(AGENT, grantKey)).toMatchObject({ id: grant });
    expect(await globex.findSession(session, AGENT)).toMatchObject({ id: session });
    expect(await globex.hasTask(taskId, AGENT)).toBe(true);
    expect(await globex.beginKey(use)).toEqual({ outcome: "running" });
    expect(parts.acme.world.lines).toEqual([]);
  });

  test.each([
    ["globex-1", "https://acme.test", "an issuer of the other tenant alone"],
    ["acme-1", "https://own.test", "an issuer of the service itself"],
    ["own-1", AGENT.issuer, "an issuer of tenants"],
  ])("%s does not speak for callers of %s, %s", async (subject, issuer) => {
    const { approvals } = memberOf(subject);
    const error = await caught(approvals.ask(questionOf({ requester: { ...AGENT, issuer } })));
    expect(error).toMatchObject(refused("ISSUER_NOT_ALLOWED"));
    for (const { world } of Object.values(parts)) expect(world.lines).toEqual([]);
  });
});

describe("a member that says of which tenant it is", () => {
  const ask = (subject: string, tenant: string) => {
    const client = openMember({ port: Number(new URL(hub.url).port), token: () => subject, tenant });
    closings.push(() => client.close());
    return caught(client.call("halts.list", {}));
  };

  test("is answered as a member of this tenant", async () => {
    expect(await ask("acme-1", "acme")).toMatchObject({ value: [] });
  });

  test.each([
    ["acme-1", "the tenant acme"],
    ["own-1", "the service itself"],
  ])("%s is refused as a member of %s when it names another one, and the journal says so", async (subject, known) => {
    const reason = `hub.members has the member in ${known}, and its hub.tenant names another one`;
    expect(await ask(subject, "globex")).toMatchObject({ status: 401, code: "UNAUTHENTICATED", message: reason });
    expect(parts.own.world.lines).toMatchObject([{ type: "hub.refused", reason }]);
    expect(hub.members()).toEqual([]);
  });
});

describe("halts", () => {
  const haltsOf = async ({ client }: Member) => {
    const list = (): readonly { id: string; target: { kind: string } }[] =>
      (client.pushed("halts.list")?.value ?? []) as never;
    const asked = (await client.call("halts.list", {})).value as ReturnType<typeof list>;
    const all = (halts: ReturnType<typeof list>) => halts.map(({ id, target: { kind } }) => `${id} ${kind}`).toSorted();
    await until("the same is pushed", () => (`${all(list())}` === `${all(asked)}` ? true : undefined));
    return all(asked);
  };
  const set = ({ operations }: Part, ...given: Parameters<typeof haltOf>) => operations.run(setHalt, haltOf(...given));

  test("a tenant's halt reaches its members, and one of the service those of all tenants", async () => {
    const members = [memberOf("acme-1"), memberOf("globex-1"), memberOf("own-1")] as const;
    await set(parts.acme, "h-acme", "tool", "deploy");
    await set(parts.own, "h-own", "system", "payroll");
    expect(await Promise.all(members.map(haltsOf))).toEqual([
      ["h-acme tool", "h-own system"],
      ["h-own system"],
      ["h-own system"],
    ]);
    await parts.own.operations.run(liftHalt, { id: "h-own", by: OPERATOR });
    expect(await Promise.all(members.map(haltsOf))).toEqual([["h-acme tool"], [], []]);
  });

  test("a halt of the service for one tenant reaches the members of this tenant alone, as a halt of theirs", async () => {
    const members = [memberOf("acme-1"), memberOf("globex-1"), memberOf("own-1")] as const;
    await set(parts.own, "h-all", "all", "", "acme");
    await set(parts.own, "h-tool", "tool", "deploy", "globex");
    expect(await Promise.all(members.map(haltsOf))).toEqual([["h-all all"], ["h-tool tool"], []]);
    const [halt] = (await members[0].state.run(listHalts, {})).value;
    expect(halt).toMatchObject({ target: { kind: "all", issuer: "", value: "" }, ofService: "tenant", reason: "r" });
    expect([halt?.target.tenant, halt?.setBy.subject]).toEqual([undefined, ""]);
  });

  test("a halt of the service for all tenants reaches members of a tenant without its reason and who set it", async () => {
    await set(parts.own, "h-caller", "caller", "agent-7");
    const firstOf = async (member: string) => (await memberOf(member).state.run(listHalts, {})).value[0];
    const [inTenant, own] = [await firstOf("acme-1"), await firstOf("own-1")];
    expect(inTenant).toMatchObject({
      target: { value: "agent-7" },
      ofService: "all",
      reason: "",
      setBy: { subject: "" },
    });
    expect(own).toMatchObject({ target: { value: "agent-7" }, reason: "r", setBy: OPERATOR });
    expect(own?.ofService).toBeUndefined();
  });

  test("a member never sets or lifts one", async () => {
    const { client } = memberOf("acme-1");
    for (const name of ["halts.set", "halts.lift"]) {
      expect(await caught(client.call(name, {}))).toMatchObject(refused("METHOD_NOT_OFFERED"));
    }
  });
});

describe("what operators see of members", () => {
  test("those of the service see all with their tenants, those of a tenant its own", async () => {
    for (const subject of ["acme-1", "acme-2", "globex-1", "own-1"]) {
      const { client } = memberOf(subject);
      await client.call("halts.list", {});
      await until("it has a stream", () => client.pushed("halts.list"));
    }
    expect(hub.members().map(({ name, tenant }) => `${tenant} ${name}`)).toEqual([
      "undefined own-1@https://k8s.test",
      "acme acme-1@https://k8s.test",
      "acme acme-2@https://k8s.test",
      "globex globex-1@https://k8s.test",
    ]);
    expect([hub.connected(), hub.own.connected(), tenants.acme.connected()]).toEqual([4, 1, 2]);
    expect(names(tenants.acme.members())).toEqual(["acme-1", "acme-2"]);
    expect(JSON.stringify(tenants.acme.members())).not.toContain("globex");
    expect(names(hub.own.members())).toEqual(["own-1"]);
  });

  test("requests are counted in the metrics of the member's tenant; those of nobody known in the service's", async () => {
    await memberOf("acme-1").client.call("halts.list", {});
    expect(await caught(memberOf("hooli-1").client.call("halts.list", {}))).toMatchObject({ status: 401 });
    await until("the answer to acme", () => parts.acme.observed.length > 0 || undefined);
    await until("both refusals", () => new Set(parts.own.observed).size > 1 || undefined);
    expect(parts.acme.observed).toEqual(["halts.list answered"]);
    expect(parts.globex.observed).toEqual([]);
    expect(new Set(parts.own.observed)).toEqual(new Set(["halts.list unauthenticated", "events unauthenticated"]));
    expect(parts.own.world.lines).toMatchObject([
      { type: "hub.refused", reason: "hub.members does not have the token's subject hooli-1" },
    ]);
  });
});

describe("a tenant of a hub that runs", () => {
  test("a member whose tenant is changed gets a new stream, and what the other tenant has", async () => {
    const member = memberOf("acme-1");
    const { id } = await askFor(member.approvals);
    await parts.acme.operations.run(setHalt, haltOf("h-acme", "all"));
    await parts.globex.operations.run(setHalt, haltOf("h-globex", "tool", "deploy"));
    const pushed = () => JSON.stringify(member.client.pushed("halts.list")?.value ?? []);
    await until("acme's halt is pushed", () => pushed().includes("h-acme") || undefined);
    hub.change(configOf([{ subject: "acme-*", tenant: "globex" }]));
    await until("globex's halt is pushed", () => pushed().includes("h-globex") || undefined);
    expect(pushed()).not.toContain("h-acme");
    expect((await member.state.run(listHalts, {})).value).toMatchObject([{ id: "h-globex" }]);
    expect(await member.approvals.get(id)).toBeUndefined();
    expect(tenants.acme.connected()).toBe(0);
    expect(names(tenants.globex.members())).toEqual(["acme-1"]);
  });

  test("its members are told to come again until it is served", async () => {
    const asked = memberOf("initech-1").client.call("halts.list", {});
    await until("it was told so", () => parts.own.observed.includes("halts.list unavailable") || undefined);
    const initech = await openPart();
    await initech.operations.run(setHalt, haltOf("h-initech", "all"));
    hub.serve("initech", shareOf(initech));
    expect((await asked).value).toMatchObject([{ id: "h-initech" }]);
    expect(parts.own.world.lines).toEqual([]);
    expect(() => hub.serve("initech", shareOf(initech))).toThrow("serves the tenant initech already");
  });

  test("a tenant that ends answers nobody, and the others go on", async () => {
    const [acme, globex] = [memberOf("acme-1"), memberOf("globex-1")];
    for (const { client } of [acme, globex]) await until("it has a stream", () => client.pushed("halts.list"));
    tenants.acme.close();
    await until("the stream has ended", () => hub.connected() === 1 || undefined);
    const asked = acme.client.call("halts.list", {}, { timeoutMs: 200 });
    await expect(asked).rejects.toMatchObject({ name: "HubUnavailable" });
    await until("its stream is refused", () => parts.own.observed.includes("events unavailable") || undefined);
    expect((await globex.client.call("halts.list", {})).value).toEqual([]);
    expect(hub.members().map(({ tenant }) => tenant)).toEqual(["globex"]);
  });
});
