import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { journalEntries } from "../support/audit-files.ts";
import type { EndingWorld } from "../support/ending-world.ts";
import { FleetWorld } from "../support/fleet-world.ts";
import { until } from "../support/until.ts";

describe("a hub with two members", () => {
  let fleet: FleetWorld;
  let a: EndingWorld;
  let b: EndingWorld;
  beforeAll(async () => {
    fleet = await FleetWorld.start();
    [a, b] = await fleet.twoMembers();
  }, 120_000);
  afterAll(() => fleet.end());

  test("what a member asks is decided at the hub, and runs once", async () => {
    const asked = await fleet.call(a, "asked", "one");
    expect(asked).toMatchObject({ http: 202, body: { status: "pending" } });
    const { id } = asked.body.approval;
    expect((await fleet.approve(id)).http).toBe(200);
    expect((await fleet.call(a, "asked", "one", { approval: { id } })).body).toMatchObject({ result: { key: "one" } });
    const again = await fleet.call(a, "asked", "one", { approval: { id } });
    expect(again.http).not.toBe(200);
    expect(fleet.runs().filter((key) => key === "one")).toEqual(["one"]);
  }, 60_000);

  test("a member cannot decide, and says where it is done", async () => {
    const asked = await fleet.call(b, "asked", "own");
    const { id } = asked.body.approval;
    const answer = await fleet.approve(id, b);
    expect(answer.http).not.toBe(200);
    expect(JSON.stringify(answer.body)).toContain("https://localhost:");
  }, 60_000);

  test("a halt that is set at the hub stops both members, until it is lifted", async () => {
    let callers = 0;
    const callOf = async (member: EndingWorld) => {
      callers += 1;
      // The quota counts for each caller: these calls must not use it up.
      const token = await fleet.agent(`agent-${callers}-of-halts`);
      return fleet.send(member, "POST", "/call", { token, body: { tool: "counted", args: { key: "halted" } } });
    };
    const set = await fleet.send(fleet.hub, "POST", "/halts", { body: { kind: "all", reason: "drill" } });
    for (const member of [a, b]) {
      await until("the halt", async () => ((await callOf(member)).body.error?.code === "HALTED" ? true : undefined));
    }
    await fleet.send(fleet.hub, "DELETE", `/halts/${set.body.halt.id}`);
    for (const member of [a, b]) {
      await until("the end of the halt", async () => ((await callOf(member)).http === 200 ? true : undefined));
    }
  }, 60_000);

  test("a quota is shared by the members", async () => {
    const codes: string[] = [];
    // A quota counts for each caller: no other test uses this one's.
    const token = await fleet.agent("agent-of-quotas");
    for (let call = 0; call < 60; call += 1) {
      const body = { tool: "counted", args: { key: `q${call}` } };
      const answer = await fleet.send(call % 2 === 0 ? a : b, "POST", "/call", { token, body });
      codes.push(answer.body.error?.code ?? "OK");
    }
    const ran = codes.filter((code) => code === "OK").length;
    expect(ran).toBeLessThanOrEqual(40);
    expect(ran).toBeGreaterThan(10);
    expect(new Set(codes)).toEqual(new Set(["OK", "QUOTA_EXCEEDED"]));
  }, 120_000);

  test("operators see the members with their versions, and their requests are counted", async () => {
    const { http, body } = await fleet.send(fleet.hub, "GET", "/members");
    expect(http).toBe(200);
    expect(body.members).toMatchObject([
      { name: "spiffe://acme.test/agents/a", version: expect.any(String), connected: true },
      { name: "system:serviceaccount:shop:agent-b@https://workloads.test", connected: true },
    ]);
    expect(body.members[0].policyVersion).toMatch(/^[0-9a-f]{64}$/);
    const without = await fleet.operator(["halts:read"]);
    expect((await fleet.send(fleet.hub, "GET", "/members", { token: without })).http).toBe(403);
    expect((await fleet.send(a, "GET", "/members")).http).toBe(404);
    const metrics = (await fleet.send(fleet.hub, "GET", "/metrics")).body as string;
    expect(metrics).toContain("stc_hub_members_connected 2");
    expect(metrics).toMatch(/stc_hub_requests_total\{method="approvals\.ask",outcome="answered"\} \d+/);
  }, 60_000);

  test("a member refuses what operators do at the hub, and its journal does not say that it was done", async () => {
    const c = fleet.member({ tls: { caFile: "./ca.pem" }, tokenFile: "./token" }, { dataFlow: { default: "off" } });
    c.world.write("token", await fleet.token());
    await c.start();
    const [{ issuer } = { issuer: "" }] = fleet.hub.world.issuers.profiles() as readonly { issuer: string }[];
    const caller = { issuer, subject: "agent-7" };
    const token = await fleet.operator([
      ...["data-flow:vouch", "data-flow:write", "data-flow:read", "halts:write", "quotas:read", "quotas:write"],
    ]);
    const query = new URLSearchParams(caller);
    for (const [method, path, body] of [
      ["POST", "/data-flow/requests", { ...caller, text: "write to bob@partner.test" }],
      ["POST", "/data-flow/clear", { ...caller, reason: "done" }],
      ["GET", `/data-flow?${query}`],
      ["POST", "/halts", { kind: "tool", tool: "counted", reason: "drill" }],
      ["GET", "/quotas"],
    ] as const) {
      const answer = await fleet.send(c, method, path, { token, body });
      expect([path, answer]).toEqual([
        path,
        expect.objectContaining({
          http: 403,
          body: expect.objectContaining({
            error: expect.objectContaining({
              code: "PERMISSION_DENIED",
              message: expect.stringContaining("Operators do this at the hub of this service: https://localhost:"),
            }),
          }),
        }),
      ]);
    }
    const types = journalEntries(c.auditDir).map(({ type }) => type);
    for (const type of ["dataFlow.requested", "dataFlow.cleared", "halt.set"]) expect(types).not.toContain(type);
    const atHub = await fleet.send(fleet.hub, "POST", "/data-flow/requests", {
      ...{ token, body: { ...caller, text: "write to bob@partner.test" } },
    });
    expect(atHub.http).toBe(200);
  }, 60_000);
});

describe("who may connect", () => {
  let fleet: FleetWorld;
  beforeAll(async () => {
    fleet = await FleetWorld.start();
  }, 60_000);
  afterAll(() => fleet.end());

  const refusals = (): readonly string[] =>
    journalEntries(join(fleet.hub.world.folder, "audit")).flatMap(({ type, reason }) =>
      type === "hub.refused" ? [String(reason)] : [],
    );

  test.each([
    [
      "an expired certificate",
      (world: FleetWorld) => world.withCertificate("c", { notAfter: new Date(Date.now() - 1_000) }),
      "the client certificate is not trusted: CERT_HAS_EXPIRED",
    ],
    [
      "a foreign name",
      (world: FleetWorld) => world.withCertificate("c", { names: [{ type: "url", value: "spiffe://other.test/c" }] }),
      "hub.members has none of the certificate's names: spiffe://other.test/c",
    ],
    [
      "a token for another audience",
      (world: FleetWorld) => world.withToken({ audience: "other" }),
      "the workload token is refused: aud: our audience is not in it",
    ],
    [
      "an expired token",
      (world: FleetWorld) => world.withToken({ expires: new Date(Date.now() - 60_000) }),
      "the workload token is refused: exp: in the past",
    ],
    [
      "another subject",
      (world: FleetWorld) => world.withToken({ subject: "agent-x" }),
      "hub.members does not have the token's subject agent-x",
    ],
  ])(
    "%s is refused, with a reason at both ends and an entry",
    async (_title, create, reason) => {
      const member = await create(fleet);
      await member.start();
      await until("the reason in the member's log", () => (member.log().includes(reason) ? true : undefined));
      await until("the entry", () => (refusals().includes(reason) ? true : undefined));
      const asked = await fleet.call(member, "asked", "refused");
      expect(asked.http).toBe(503);
      // One line a minute, however often it tries.
      expect(refusals().filter((line) => line === reason)).toHaveLength(1);
      await member.remove();
    },
    60_000,
  );
});
