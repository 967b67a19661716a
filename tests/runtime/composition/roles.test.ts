import { describe, expect, test } from "bun:test";
import { z } from "zod";
import type { Tool } from "../../../src/core/types.ts";
import { defineTool } from "../../../src/index.ts";
import { policyFindings } from "../../../src/runtime/composition/approver-policies.ts";
import { openBindings, resolveBindings, roleNotes } from "../../../src/runtime/composition/roles.ts";
import { type AccessRow, accessRows } from "../../../src/runtime/inventory/access.ts";
import { read } from "../config/reading.ts";

const AGENTS = { issuer: "https://agents.test", publicKeyFile: "./a.pem" };
const PEOPLE = { issuer: "https://people.test", audience: "o", operators: true, publicKeyFile: "./o.pem" };
const CLUSTER = { issuer: "https://cluster.test", profile: "kubernetes", jwksUri: "https://cluster.test/k" };
const NOW_MS = Date.parse("2026-06-01T00:00:00Z");

function toolOf(name: string, required: readonly string[], elevated?: readonly string[]): Tool {
  return defineTool({
    ...{ name, description: "Does it", classification: "write", category: "write" },
    permissions: { required, ...(elevated && { elevatedIf: { when: () => true, required: elevated } }) },
    ...{ input: z.strictObject({}), output: z.object({}), outputPolicy: {}, handler: () => ({}) },
  } as never) as unknown as Tool;
}

const TOOLS = [
  toolOf("ticket_read", ["tickets:read"]),
  toolOf("ticket_search", ["tickets:read"]),
  toolOf("order_show", ["orders:read"]),
  toolOf("order_refund", ["orders:read", "orders:refund"], ["orders:refund-any"]),
];
const LOADED = { tools: TOOLS, notRegistered: [], problems: [] };

interface Written {
  readonly issuers?: readonly object[];
  readonly roles?: Readonly<Record<string, object>>;
  readonly bindings?: readonly object[];
  readonly approvals?: object;
}

function configOf({ issuers = [AGENTS], ...sections }: Written) {
  return read({ jwt: { issuers }, ...sections });
}

const permissionsOf = (role: object, tools: readonly Tool[] = TOOLS): readonly string[] => {
  const config = configOf({ roles: { r: role }, bindings: [{ role: "r", group: "g" }] });
  return resolveBindings(config, tools)[0]?.permissions ?? [];
};

describe("a role's tools", () => {
  test("give what they require for any arguments, and never what only some require", () => {
    expect(permissionsOf({ tools: ["order_refund"] })).toEqual(["orders:read", "orders:refund"]);
    expect(permissionsOf({ tools: ["order_refund"], permissions: ["orders:refund-any"] })).toEqual([
      ...["orders:read", "orders:refund", "orders:refund-any"],
    ]);
  });

  test("may be patterns, over the tools that there are", () => {
    expect(permissionsOf({ tools: ["order_*"] })).toEqual(["orders:read", "orders:refund"]);
    expect(permissionsOf({ tools: ["*"] })).toEqual(["orders:read", "orders:refund", "tickets:read"]);
    expect(permissionsOf({ tools: ["order_*"] }, TOOLS.slice(0, 2))).toEqual([]);
    expect(permissionsOf({ tools: ["order"] })).toEqual([]);
  });
});

const problemsOf = (written: Written, loaded: Partial<typeof LOADED> = {}): readonly string[] =>
  openBindings(configOf(written), { ...LOADED, ...loaded }).problems;

describe("the start is refused for", () => {
  test.each<[string, Written, readonly string[]]>([
    [
      "a misspelt tool",
      { roles: { r: { tools: ["ticket_raed", "order_*"] } } },
      ["roles.r.tools[0]: no tool is called ticket_raed; did you mean ticket_read?"],
    ],
    [
      "a subject that no token may name",
      { roles: { r: { tools: ["*"] } }, bindings: [{ role: "r", subject: "anonymous" }] },
      ["bindings[0].subject: no token may name such a subject: reserved"],
    ],
    [
      "a pattern as a subject",
      { roles: { r: { tools: ["*"] } }, bindings: [{ role: "r", subject: "agent-*" }] },
      ["bindings[0].subject: * is not a pattern here: write out each subject"],
    ],
    [
      "a group that ends with a space, and one that is a pattern",
      {
        roles: { r: { tools: ["*"] } },
        bindings: [
          { role: "r", group: "support " },
          { role: "r", group: "*" },
        ],
      },
      [
        "bindings[0].group: cannot be compared: has characters that cannot be seen",
        "bindings[1].group: * is not a pattern here: values are compared exactly",
      ],
    ],
    [
      "a claim with a zero-width character",
      { roles: { r: { tools: ["*"] } }, bindings: [{ role: "r", claim: { a: { b: "x\u200by" } } }] },
      ["bindings[0].claim.a.b: cannot be compared: has characters that cannot be seen"],
    ],
    [
      "a subject that is no service account of the cluster",
      {
        issuers: [CLUSTER],
        roles: { r: { tools: ["*"] } },
        bindings: [{ role: "r", subject: "agent-7" }],
      },
      ["bindings[0].subject: must be system:serviceaccount:<namespace>:<name>"],
    ],
  ])("%s", (_title, written, want) => {
    expect(problemsOf(written)).toEqual([...want]);
  });

  test("a role that gives more permissions than a token may list", () => {
    const tools = Array.from({ length: 257 }, (_, at) => toolOf(`t${at}`, [`p:${at}`]));
    expect(problemsOf({ roles: { r: { tools: ["t*"] } } }, { tools })).toEqual([
      "roles.r: gives 257 permissions, at most 256: use several roles",
    ]);
  });

  test("no name while a manifest cannot be read or a target is missing", () => {
    const written = { roles: { r: { tools: ["other"] } } };
    expect(problemsOf(written, { notRegistered: ["tool other: no system"] as never })).toEqual([]);
    expect(problemsOf(written, { problems: ["tools/x.ts: broken"] as never })).toEqual([]);
  });
});

describe("stc check notes", () => {
  const notesOf = (written: Written): readonly string[] => roleNotes(configOf(written), TOOLS, NOW_MS);
  const r = { tools: ["*"] };

  test.each<[string, Written, readonly string[]]>([
    ["nothing without roles", {}, []],
    ["a role that nobody holds", { roles: { r } }, ["roles.r: no binding gives it to anybody"]],
    [
      "a pattern without a tool",
      { roles: { r: { tools: ["*", "mail_*"] } }, bindings: [{ role: "r", group: "g" }] },
      ["roles.r.tools[1]: mail_* matches no tool"],
    ],
    [
      "tools that a role opens without naming them",
      { roles: { r: { tools: ["ticket_read"] } }, bindings: [{ role: "r", group: "g" }] },
      ["roles.r.tools: also opens ticket_search, which need no other permissions than the tools that it names"],
    ],
    [
      "an end that has passed",
      { roles: { r }, bindings: [{ role: "r", group: "g", until: "2026-06-01T02:00:00+02:00" }] },
      ["bindings[0]: ended at 2026-06-01T00:00:00.000Z"],
    ],
    [
      "a binding that repeats another",
      {
        roles: { r },
        bindings: [
          { role: "r", claim: { groups: "g" } },
          { role: "r", group: "g", until: "2027-01-01T00:00:00Z" },
        ],
      },
      ["bindings[1]: gives the role r to the same callers as bindings[0]"],
    ],
    [
      "a binding that opens no tool, with permissions of operators",
      { roles: { r: { permissions: ["approvals:decide"] } }, bindings: [{ role: "r", group: "g" }] },
      [
        "bindings[0]: the role r opens no tool by itself",
        "bindings[0]: approvals:decide open nothing for https://agents.test, an issuer of agents",
      ],
    ],
    [
      "permissions that only operators can use, next to one like them",
      {
        roles: {
          r: { tools: ["ticket_read", "ticket_search"], permissions: ["tools:learn", "audit:read", "tools:list"] },
        },
        bindings: [{ role: "r", group: "g" }],
      },
      ["bindings[0]: audit:read, tools:learn open nothing for https://agents.test, an issuer of agents"],
    ],
    [
      "tools that nobody can call",
      {
        issuers: [{ ...AGENTS, subjectPermissions: { a: ["orders:read"] } }],
        roles: { r: { permissions: ["orders:refund"] } },
        bindings: [{ role: "r", subject: "a" }],
      },
      ["bindings[0]: the role r opens no tool by itself", "tools that nobody can call: ticket_read, ticket_search"],
    ],
    [
      "tools that nobody can call any more",
      {
        issuers: [{ ...AGENTS, subjectPermissions: { a: ["orders:read", "tickets:read"] } }],
        roles: { r: { permissions: ["orders:refund"] } },
        bindings: [{ role: "r", subject: "a", until: "2026-01-01T00:00:00Z" }],
      },
      [
        "bindings[0]: ended at 2026-01-01T00:00:00.000Z",
        "bindings[0]: the role r opens no tool by itself",
        "tools that nobody can call: order_refund",
      ],
    ],
  ])("%s", (_title, written, want) => {
    expect(notesOf(written)).toEqual([...want]);
  });

  test("10,000 bindings are looked through without comparing each with each", () => {
    const bindings = Array.from({ length: 10_000 }, (_, at) => ({ role: "r", group: `g${at}` }));
    expect(notesOf({ roles: { r }, bindings })).toEqual([]);
  });
});

describe("approval policies", () => {
  const table = { ...PEOPLE, subjectPermissions: { ann: ["approvals:decide"] } };
  const findings = (bindings: readonly object[], count = 2) => {
    const config = configOf({
      issuers: [AGENTS, table],
      roles: { approver: { permissions: ["approvals:decide"] } },
      bindings: bindings.map((binding) => ({ role: "approver", issuer: PEOPLE.issuer, ...binding })),
      approvals: {
        store: "sqlite://./a.sqlite",
        policies: [{ name: "p", when: { tools: ["order_refund"] }, require: { count } }],
      },
    });
    const resolved = resolveBindings(config, TOOLS);
    return policyFindings(config, { tools: TOOLS, isEmbedded: false, bindings: resolved }).problems;
  };

  test("count the operators who hold a role by name, and cannot count those who hold it by a group", () => {
    expect(findings([])).toHaveLength(1);
    expect(findings([{ subject: "bert" }])).toEqual([]);
    expect(findings([{ subject: "ann" }])).toHaveLength(1);
    expect(findings([{ group: "approvers" }], 5)).toEqual([]);
  });
});

describe("an export of the access", () => {
  const written: Written = {
    issuers: [
      { ...AGENTS, subjectPermissions: { bert: ["tickets:read"], ann: ["orders:read"] } },
      PEOPLE,
      CLUSTER,
      { ...AGENTS, issuer: "https://open.test", permissionsClaim: "scp" },
    ],
    roles: {
      refunds: { permissions: ["orders:refund", "orders:refund-any"] },
      tickets: { tools: ["ticket_*"] },
      boss: { permissions: ["approvals:decide"] },
    },
    bindings: [
      { role: "tickets", issuer: CLUSTER.issuer, claim: { "kubernetes.io": { namespace: "agents" } } },
      { role: "refunds", issuer: AGENTS.issuer, subject: "ann", until: "2026-12-24T18:00:00+01:00" },
      { role: "tickets", issuer: AGENTS.issuer, group: "support" },
      { role: "boss", issuer: PEOPLE.issuer, group: "leads" },
    ],
  };
  const exported = (sections: Written): readonly AccessRow[] => {
    const config = configOf(sections);
    return accessRows(config, TOOLS, resolveBindings(config, TOOLS));
  };

  test("says for each row who holds what, why, until when, and which tools it opens", () => {
    const base = { audience: "agents", issuer: AGENTS.issuer };
    const until = "2026-12-24T17:00:00.000Z";
    expect(exported(written)).toEqual([
      { ...base, source: "table", subject: "ann", permissions: ["orders:read"], tools: ["order_show"], elevated: [] },
      {
        ...{ ...base, source: "table", subject: "bert", permissions: ["tickets:read"] },
        ...{ tools: ["ticket_read", "ticket_search"], elevated: [] },
      },
      {
        ...{ ...base, source: "binding", group: "support", role: "tickets", binding: 2, permissions: ["tickets:read"] },
        ...{ tools: ["ticket_read", "ticket_search"], elevated: [] },
      },
      {
        ...{ ...base, source: "binding", subject: "ann", role: "refunds", binding: 1, until },
        ...{ permissions: ["orders:refund", "orders:refund-any"], tools: [], elevated: [] },
      },
      {
        ...{ ...base, source: "together", subject: "ann", until },
        permissions: ["orders:read", "orders:refund", "orders:refund-any"],
        ...{ tools: ["order_refund", "order_show"], elevated: ["order_refund"] },
      },
      {
        ...{ ...base, issuer: CLUSTER.issuer, source: "binding", claim: { "kubernetes.io": { namespace: "agents" } } },
        ...{ role: "tickets", binding: 0, permissions: ["tickets:read"] },
        ...{ tools: ["ticket_read", "ticket_search"], elevated: [] },
      },
      {
        ...{ ...base, issuer: "https://open.test", source: "token", permissionsClaim: "scp", permissions: [] },
        ...{ tools: [], elevated: [] },
      },
      {
        ...{
          audience: "operators",
          issuer: PEOPLE.issuer,
          source: "binding",
          group: "leads",
          role: "boss",
          binding: 3,
        },
        ...{ permissions: ["approvals:decide"], tools: [], elevated: [] },
      },
      {
        ...{ audience: "operators", issuer: PEOPLE.issuer, source: "token", permissionsClaim: "permissions" },
        ...{ permissions: [], tools: [], elevated: [] },
      },
    ] as never);
  });

  test("is the same for the same configuration in another order, but for the positions of bindings", () => {
    const { issuers = [], roles = {}, bindings = [] } = written;
    const turned = {
      issuers: issuers.toReversed(),
      roles: Object.fromEntries(Object.entries(roles).toReversed()),
      bindings: bindings.toReversed(),
    };
    const withoutPositions = (rows: readonly AccessRow[]) => rows.map(({ binding: _, ...row }) => row);
    expect(withoutPositions(exported(turned))).toEqual(withoutPositions(exported(written)));
  });
});
