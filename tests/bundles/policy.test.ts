import { expect, test } from "bun:test";
import { fileProblem, POLICY_FIELDS, policyProblems, withPolicy } from "../../src/bundles/policy.ts";
import { MODULES } from "../../src/modules.ts";
import { liveKeys } from "../../src/runtime/config/config.ts";
import { isLive } from "../../src/runtime/reload/fingerprints.ts";
import { readConfig } from "../support/build.ts";

const FILES = ["policy.yaml", "tools/a.tool.yaml", "contracts/a.proto", "rules.cedar"];

test("every setting that a bundle may have is one that a reload adopts", () => {
  const live = liveKeys(MODULES);
  const fields = POLICY_FIELDS.map(({ field }) => field.replace(/\.(?:\[\]|\*\*).*$/, ""));
  expect(fields.filter((field) => !isLive(field.replace("*", "x"), live))).toEqual([]);
});

test.each<readonly [unknown]>([
  [{ tools: ["./tools"], roles: { a: { tools: ["*"] } }, bindings: [{ role: "a", subject: "x" }] }],
  [{ limits: { rates: { caller: "off" } }, redaction: { rules: [] }, dataFlow: { default: "on", rules: [] } }],
  [{ approvals: { mode: "default", attach: "on", rules: [{ tools: ["x"], action: "deny" }], policies: [] } }],
  [{ decisionPoints: [{ name: "a", when: { tools: ["x"] }, cedar: { policiesFile: "rules.cedar" } }] }],
  [
    {
      systems: {
        a: { proto: "contracts/a.proto", contractSha256: "x" },
        b: { http: { openapi: "contracts/a.proto" } },
      },
    },
  ],
  [{ halts: { whenUnknown: "keepLast" } }],
])("allowed: %j", (policy) => {
  expect(policyProblems(policy, FILES)).toEqual([]);
});

test.each<readonly [field: string, policy: unknown]>([
  ["bundle.url", { bundle: { url: "https://x" } }],
  ["server.port", { server: { port: 1 } }],
  ["hub.url", { hub: { url: "https://x" } }],
  ["audit.dir", { audit: { dir: "x" } }],
  ["audit.durability", { audit: { durability: "write" } }],
  ["jwt.issuers.[].issuer", { jwt: { issuers: [{ issuer: "https://x" }] } }],
  ["jwt.issuers.[].operators", { jwt: { issuers: [{ operators: true }] } }],
  ["commands.unconfinedBash", { commands: { unconfinedBash: true } }],
  ["commands.confinement", { commands: { confinement: "off" } }],
  ["commands.allowed.[]", { commands: { allowed: ["sh"] } }],
  ["workspace.project", { workspace: { project: "/" } }],
  ["assertion.keyFile", { assertion: { keyFile: "x" } }],
  ["approvals.store", { approvals: { store: "sqlite://x" } }],
  ["approvals.storeUrlFile", { approvals: { storeUrlFile: "x" } }],
  ["approvals.receiptKeyFile", { approvals: { receiptKeyFile: "x" } }],
  ["approvals.webhooks.[].url", { approvals: { webhooks: [{ url: "https://x" }] } }],
  ["approvals.publicUrl", { approvals: { publicUrl: "https://x" } }],
  ["systems.a.endpoint", { systems: { a: { endpoint: "x" } } }],
  ["systems.a.endpoints.[]", { systems: { a: { endpoints: ["x"] } } }],
  ["systems.a.tls.clientKey", { systems: { a: { tls: { clientKey: "x" } } } }],
  ["systems.a.http.baseUrl", { systems: { a: { http: { baseUrl: "https://x" } } } }],
  ["systems.a.http.auth.bearerFile", { systems: { a: { http: { auth: { bearerFile: "x" } } } } }],
  ["systems.a.mcp.command", { systems: { a: { mcp: { command: "x" } } } }],
  ["systems.a.sql.url", { systems: { a: { sql: { url: "x" } } } }],
  ["systems.git.repositories.x", { systems: { git: { repositories: { x: "/srv" } } } }],
  ["decisionPoints.[].authzen.url", { decisionPoints: [{ authzen: { url: "https://x" } }] }],
  ["log.level", { log: { level: "debug" } }],
  ["telemetry.traces.endpoint", { telemetry: { traces: { endpoint: "https://x" } } }],
  ["reload.trigger", { reload: { trigger: "watch" } }],
  ["a setting of a later version", { "a setting of a later version": 1 }],
  ["server", { server: {} }],
  ["tenants.acme.tools.[]", { tenants: { acme: { tools: ["./tools"] } } }],
])("refused: %s", (field, policy) => {
  expect(policyProblems(policy, FILES)).toEqual([`policy.yaml: ${field}: cannot be set by a bundle`]);
});

test.each(["/etc/passwd", "../x", "tools/../../x", "missing", "tool", "", "tools\\x", 7])(
  "refused as a path: %j",
  (path) => {
    const says = "must be a relative path in the bundle";
    expect(policyProblems({ tools: [path] }, FILES)).toEqual([`policy.yaml: tools.[]: ${says}`]);
    expect(policyProblems({ systems: { a: { proto: path } } }, FILES)).toEqual([
      `policy.yaml: systems.a.proto: ${says}`,
    ]);
  },
);

test.each([[7], ["text"], [[]], [null]])("refused as a policy: %j", (policy) => {
  expect(policyProblems(policy, FILES)).toEqual(["policy.yaml: must be a table of settings"]);
});

test.each([
  ["tools/a.ts", "is code, which needs bundle.allowCode: true"],
  ["tools/a.mjs", "is code, which needs bundle.allowCode: true"],
  ["tools/a.node", "not files of this kind"],
  ["tools/a", "not files of this kind"],
  ["run.sh", "not files of this kind"],
])("without allowCode, %s is refused", (path, says) => {
  expect(fileProblem(path, false)).toContain(says);
});

test("with allowCode, TypeScript is allowed, and programs are not", () => {
  expect(fileProblem("tools/a.ts", true)).toBeUndefined();
  expect(fileProblem("tools/a.node", true)).toContain("not files of this kind");
});

const FOLDERS = { folder: "x", contracts: new Map<string, string>() };
const OWN = {
  audit: { dir: "audit" },
  jwt: {
    issuers: [
      { issuer: "https://agents", jwksFile: "x" },
      { issuer: "https://people", jwksFile: "x", audience: "people", operators: true },
    ],
  },
};

test("paths of a bundle are those of its folder, and everything else is as written", () => {
  const policy = {
    tools: ["./tools"],
    systems: { a: { proto: "./contracts/a.proto" } },
    roles: { tools: { permissions: ["a:b"] } },
  };
  const folders = { folder: "var/7", contracts: new Map([["contracts", "var/c"]]) };
  expect(withPolicy({ systems: { a: { endpoint: "x:1" } } }, policy, folders)).toEqual({
    tools: ["var/7/tools"],
    systems: { a: { endpoint: "x:1", proto: "var/c/contracts/a.proto" } },
    roles: { tools: { permissions: ["a:b"] } },
  });
});

test("a bundle gives operators no permissions: its bindings are for agents", () => {
  const policy = {
    tools: ["./tools"],
    roles: { all: { permissions: ["approvals:decide"] } },
    bindings: [{ role: "all", issuer: "https://people", subject: "mallory" }],
  };
  const read = () => readConfig(withPolicy(OWN, policy, FOLDERS), { folder: "/", environment: {}, origin: "test" });
  expect(read).toThrow("bindings[0].issuer: https://people is not an issuer of agents");
  const explicit = { bindings: [{ role: "all", subject: "mallory", operators: true }] };
  const says = "policy.yaml: bindings.[].operators: a bundle binds agents only";
  expect(policyProblems(explicit, FILES)).toEqual([says]);
});

test.each([
  [{ limits: { shared: true } }, { limits: { shared: false } }, "limits.shared"],
  [{ tools: ["own"] }, { tools: ["tools"] }, "tools"],
  [{ roles: { a: { tools: ["*"] } } }, { roles: { a: { tools: ["x"] } } }, "roles.a.tools"],
  [{ systems: { a: "text" } }, { systems: { a: { proto: "contracts/a.proto" } } }, "systems.a"],
])("%j and a bundle with %j are refused", (own, policy, field) => {
  const says = `${field}: is set by the bundle and by the configuration of this member`;
  expect(() => withPolicy(own, policy, FOLDERS)).toThrow(says);
});
