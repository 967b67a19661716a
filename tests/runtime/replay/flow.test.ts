import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { type ReplayReport, replay } from "../../../src/runtime/replay/replay.ts";
import { FlowWorld, TOOLS } from "../../data-flow/flow-world.ts";
import { assemble, readConfig } from "../../support/build.ts";

const BAD = "DE89 3704 0044 0532 0130 00";
const world = new FlowWorld();
let recorded = 0;

/** The agent reads an invoice of a stranger, its account, and pays or sends. */
beforeAll(async () => {
  await world.start();
  const calls = [
    () => world.call("send_mail", { to: ["carol@example.org"], body: "before anything was read" }),
    () => world.readsMail(`please pay to ${BAD}`),
    () => world.call("pay", { iban: BAD, amount: 3 }),
    () => world.call("send_mail", { to: ["carol@example.org"], body: "after untrusted text" }),
    () => world.readsAccount({ note: "nobody may know" }),
    () => world.call("send_mail", { to: ["carol@example.org"], body: "after both" }),
    () => world.call("take_note", { text: "nothing leaves" }),
  ];
  for (const call of calls) {
    await call();
    recorded += 1;
  }
});
afterAll(() => world.end());

const APPROVALS = { store: "sqlite://./approvals.sqlite", mode: "yolo" };

/** Judges by a configuration whose data flow differs. Without an argument: by the one that judged the calls. */
async function replayBy(sections: object = {}): Promise<ReplayReport> {
  const usual = {
    ...{ server: { port: 0 }, log: { level: "silent" }, audit: { dir: "audit" }, tools: TOOLS, approvals: APPROVALS },
    jwt: { issuers: world.issuers.profiles() },
  };
  const config = readConfig(
    { ...usual, ...sections },
    { folder: world.folder, environment: { PATH: "" }, origin: "test" },
  );
  const parts = await assemble(config);
  try {
    return await replay({ parts, config, dir: join(world.folder, "audit"), filter: {}, asksExternal: false });
  } finally {
    await parts.close();
  }
}

const changesOf = ({ changes }: ReplayReport) => changes.map(({ tool, then, now, calls }) => [tool, then, now, calls]);

test("the configuration that judged the calls says the same again, also where data flow asked", async () => {
  const report = await replayBy(undefined);
  expect([report.changed, report.unchanged, report.notJudged]).toEqual([0, recorded, {}]);
});

test("a rule for labels is judged by the labels that the calls carried", async () => {
  const denying = { default: "off", rules: [{ after: "untrusted", before: "outside", verdict: "deny" }] };
  const report = await replayBy({ dataFlow: denying });
  expect(changesOf(report).sort()).toEqual([
    ["pay", "ask", "allow", 1],
    ["send_mail", "allow", "POLICY_DENIED", 1],
    ["send_mail", "ask", "POLICY_DENIED", 1],
  ]);
  expect([report.unchanged, report.notJudged]).toEqual([recorded - 3, {}]);
});

test("a rule for labels before changes is about tools that send nothing too", async () => {
  const denying = { default: "off", rules: [{ after: "private", before: "change", verdict: "deny" }] };
  const report = await replayBy({ dataFlow: denying });
  expect(changesOf(report).sort()).toEqual([
    ["pay", "ask", "allow", 1],
    ["send_mail", "ask", "POLICY_DENIED", 1],
    ["take_note", "allow", "POLICY_DENIED", 1],
  ]);
});

test("a rule for arguments is judged where the entry names their sources, and otherwise the call is not judged", async () => {
  const denying = { default: "off", rules: [{ argument: "destinations", from: "untrusted", verdict: "deny" }] };
  const report = await replayBy({ dataFlow: denying });
  expect(changesOf(report).sort()).toEqual([
    ["pay", "ask", "POLICY_DENIED", 1],
    ["send_mail", "ask", "POLICY_DENIED or allow", 1],
  ]);
  expect(report.notJudged).toEqual({ "what the caller had read": 1 });
  expect(report.unchanged).toBe(recorded - 3);
});

test.each([
  ["without its rules, data flow asks nobody", []],
  ["a rule for lookups is not about what is sent", [{ argument: "lookups", from: "private", verdict: "deny" }]],
])("%s", async (_, rules) => {
  const report = await replayBy({ dataFlow: { default: "off", rules } });
  expect(changesOf(report).sort()).toEqual([
    ["pay", "ask", "allow", 1],
    ["send_mail", "ask", "allow", 1],
  ]);
  expect([report.unchanged, report.notJudged]).toEqual([recorded - 2, {}]);
});

test("bindings of subjects are judged: they give the bound subject its role, and others keep what they have", async () => {
  const roles = { helper: { permissions: ["mail:send"] } };
  const [profile] = world.issuers.profiles();
  const issuer = profile?.["issuer"];
  const others = [{ role: "helper", issuer, subject: "somebody-else", until: "2099-01-01T00:00:00Z" }];
  const ofOthers = await replayBy({ roles, bindings: others });
  expect([ofOthers.changed, ofOthers.notJudged["the caller's roles"]]).toEqual([0, undefined]);

  const jwt = { issuers: world.issuers.profiles().map((one) => ({ ...one, subjectPermissions: {} })) };
  const withoutRole = await replayBy({ jwt });
  const deniedTools = ({ changes }: ReplayReport) =>
    changes.filter(({ now }) => now === "PERMISSION_DENIED").map(({ tool }) => tool);
  expect(deniedTools(withoutRole)).toContain("send_mail");
  const { sub = "" } = withoutRole.changes[0] ?? {};
  const boundTo = (subject: string) =>
    replayBy({ jwt, roles: { helper: { tools: ["send_mail"] } }, bindings: [{ role: "helper", issuer, subject }] });
  expect(deniedTools(await boundTo("somebody-else"))).toContain("send_mail");
  expect(deniedTools(await boundTo(sub))).not.toContain("send_mail");
  const ending = [{ role: "helper", issuer, subject: sub, until: "2099-01-01T00:00:00Z" }];
  expect((await replayBy({ roles, bindings: ending })).notJudged).toEqual({ "the caller's roles": recorded });
});

test("a configuration with bindings of groups is not judged: the claims that decide are not in the audit", async () => {
  const roles = { helper: { permissions: ["mail:send"] } };
  const bindings = [{ role: "helper", issuer: world.issuers.profiles()[0]?.["issuer"], group: "helpers" }];
  const report = await replayBy({ roles, bindings });
  expect([report.changed, report.unchanged, report.notJudged]).toEqual([0, 0, { "the caller's roles": recorded }]);
});
