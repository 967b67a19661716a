import { expect, test } from "bun:test";
import { z } from "zod";
import type { Tool } from "../../../src/core/types.ts";
import { defineTool } from "../../../src/index.ts";
import { policyFindings } from "../../../src/runtime/composition/approver-policies.ts";
import { readConfig } from "../../support/build.ts";

const PEOPLE = "https://people.example";
const AGENTS = { issuer: "https://agents.example", publicKeyFile: "./a.pem" };
const OPERATORS = { issuer: PEOPLE, audience: "operators", operators: true, publicKeyFile: "./o.pem" };
const TABLE = { anna: ["approvals:decide", "team"], bert: ["approvals:decide", "team"], cleo: ["approvals:decide"] };

function toolOf(name: string, more: Record<string, unknown> = {}): Tool {
  return defineTool({
    ...{ name, description: "Does it", classification: "write", category: "write", permissions: { required: ["do"] } },
    ...{ input: z.strictObject({}), output: z.object({}), outputPolicy: {}, handler: () => ({}) },
    ...more,
  } as never) as unknown as Tool;
}

const TOOLS = [
  toolOf("deploy"),
  toolOf("look", { classification: "read", category: "read" }),
  toolOf("always", { approval: { scopes: ["session"] } }),
];

interface Written {
  readonly policy?: Record<string, unknown>;
  readonly issuers?: readonly Record<string, unknown>[];
  readonly approvals?: Record<string, unknown>;
  readonly isEmbedded?: boolean;
}

function findingsOf({ policy, issuers = [AGENTS, OPERATORS], approvals, isEmbedded = false }: Written) {
  const policies = [{ name: "p", when: { tools: ["deploy"] }, require: { count: 1 }, ...policy }];
  const written = {
    ...{ tools: ["./tools"], audit: { dir: "./audit" }, jwt: { issuers } },
    approvals: { store: "sqlite://./a.sqlite", policies, ...approvals },
  };
  const config = readConfig(written, { folder: "/srv", environment: {}, origin: "test" });
  return policyFindings(config, { tools: TOOLS, isEmbedded });
}

const named = (...subjects: readonly string[]) => ({
  subjects: subjects.map((subject) => ({ issuer: PEOPLE, subject })),
});
const known = (more: Record<string, unknown> = {}) => [
  AGENTS,
  { ...OPERATORS, subjectPermissions: { ...TABLE, ...more } },
];

const FIELD = "approvals.policies[0] (p)";
const NOBODY = `${FIELD}: nobody can approve deploy: `;

const ROWS: readonly (readonly [
  title: string,
  written: Written,
  problems: readonly string[],
  notes: readonly string[],
])[] = [
  ["a decider who may be anybody", {}, [], []],
  ["no policies, no words", { approvals: { policies: [], store: undefined } }, [], []],
  [
    "no store",
    { approvals: { store: undefined } },
    ["approvals.policies: needs approvals.store, which is not set"],
    [],
  ],
  ["no operators", { issuers: [AGENTS] }, [`${NOBODY}there is no issuer in jwt.issuers with operators: true`], []],
  [
    "a permission that tokens may list",
    { policy: { require: { deciders: { permissions: ["prod"] }, count: 20 } } },
    [],
    [],
  ],
  [
    "a permission that an integration's table gives somebody",
    {
      issuers: known(),
      policy: { require: { deciders: { permissions: ["prod"] }, count: 2 } },
      approvals: {
        webhooks: [
          {
            name: "chat",
            decisions: {
              secretFile: "./key",
              people: {
                U1: { issuer: PEOPLE, subject: "anna", permissions: ["prod"] },
                U2: { issuer: PEOPLE, subject: "zoe", permissions: ["prod"] },
              },
            },
          },
        ],
      },
    },
    [],
    [],
  ],
  [
    "a permission that the table gives nobody",
    { issuers: known(), policy: { require: { deciders: { permissions: ["prod"] } } } },
    [`${NOBODY}stage deciders needs 1, and 0 of those who may decide can be left for it`],
    [],
  ],
  [
    "a permission that the table gives two",
    { issuers: known(), policy: { require: { deciders: { permissions: ["team"] }, count: 2 } } },
    [],
    [],
  ],
  [
    "three of them",
    { issuers: known(), policy: { require: { deciders: { permissions: ["team"] }, count: 3 } } },
    [`${NOBODY}stage deciders needs 3, and 2 of those who may decide can be left for it`],
    [],
  ],
  [
    "more than are named",
    { policy: { require: { deciders: named("a", "b"), count: 3 } } },
    [`${NOBODY}stage deciders needs 3, and 2 of those who may decide can be left for it`],
    [],
  ],
  [
    "one person for two stages",
    {
      policy: {
        require: {
          stages: [
            { name: "x", deciders: named("a") },
            { name: "y", deciders: named("a") },
          ],
        },
      },
    },
    [`${NOBODY}stage y needs 1, and 0 of those who may decide can be left for it`],
    [],
  ],
  [
    "an escalation to somebody whom the table gives the permission",
    {
      issuers: known(),
      policy: { escalate: [{ afterSeconds: 60, deciders: { permissions: ["team"] } }] },
      approvals: {
        webhooks: [{ name: "pager", url: "https://pager.example", secretFile: "./k", events: ["approval.escalated"] }],
      },
    },
    [],
    [],
  ],
  [
    "an escalation to nobody, of which no webhook is notified",
    { issuers: known(), policy: { escalate: [{ afterSeconds: 60, deciders: { permissions: ["prod"] } }] } },
    [
      `${FIELD}.escalate[0].deciders: nobody is one of them: stage escalation needs 1, and 0 of those who may decide can be left for it`,
    ],
    [`${FIELD}.escalate[0]: notifies no webhook: name one in webhooks, or add approval.escalated to the events of one`],
  ],
  [
    "an escalation after another policy's time limit",
    {
      approvals: {
        policies: [
          {
            name: "p",
            when: { tools: ["deploy"] },
            require: { count: 1 },
            escalate: [{ afterSeconds: 60, webhooks: ["pager"] }],
          },
          {
            name: "q",
            when: { tools: ["*"] },
            require: { count: 1 },
            scopes: ["once", "session"],
            decideBySeconds: 50,
          },
        ],
        webhooks: [{ name: "pager", url: "https://pager.example", secretFile: "./k" }],
      },
    },
    [],
    [`${FIELD}.escalate[0]: another policy may let the request expire after 50 s, before`],
  ],
  [
    "one person for two stages, who may fill both",
    {
      policy: {
        distinctPeople: false,
        require: {
          stages: [
            { name: "x", deciders: named("a") },
            { name: "y", deciders: named("a") },
          ],
        },
      },
    },
    [],
    [],
  ],
  [
    "people of an issuer that is not configured",
    { policy: { require: { deciders: { subjects: [{ issuer: "https://x.example", subject: "a" }] } } } },
    [
      `${NOBODY}stage deciders needs 1, and 0 of those who may decide can be left for it; https://x.example is not an issuer in jwt.issuers with operators: true`,
    ],
    [],
  ],
  [
    "people of the agents' issuer",
    { policy: { require: { deciders: { subjects: [{ issuer: AGENTS.issuer, subject: "a" }] } } } },
    [
      `${NOBODY}stage deciders needs 1, and 0 of those who may decide can be left for it; ${AGENTS.issuer} is not an issuer in jwt.issuers with operators: true`,
    ],
    [],
  ],
  [
    "scopes that the tool does not offer",
    { policy: { when: { tools: ["always"] }, scopes: ["once"] } },
    [`${FIELD}.scopes: always can be answered with none of them`],
    [],
  ],
  [
    "a tool that is not there",
    { policy: { when: { tools: ["deploy", "delpoy"] } } },
    [],
    [`${FIELD}.when.tools: delpoy is not a registered tool`],
  ],
  [
    "no policy, and no operator who may decide",
    {
      issuers: [AGENTS, { ...OPERATORS, subjectPermissions: { dora: ["team"] } }],
      policy: { when: { tools: ["deploy"], risk: "high" } },
    },
    [`${NOBODY}stage deciders needs 1, and 0 of those who may decide can be left for it`],
    [
      "approvals: nobody can approve deploy, always: jwt.issuers[].subjectPermissions gives no operator approvals:decide",
    ],
  ],
  [
    "tools that never ask",
    { policy: { when: { tools: ["look"] } } },
    [],
    [`${FIELD}: matches no tool that could need an approval`],
  ],
  [
    "tools that never ask, but for a rule",
    {
      policy: { when: { tools: ["look"] } },
      approvals: { rules: [{ name: "r", when: { tool: "look" }, verdict: "ask" }] },
    },
    [],
    [],
  ],
  [
    "the one who asks is the one who decides",
    {
      issuers: [{ ...AGENTS, subjectPermissions: { anna: ["do"], bot: ["do"] } }, OPERATORS],
      policy: { require: { deciders: named("Anna") } },
    },
    [],
    [`${FIELD}: nobody can approve deploy when anna requests it: requesters cannot decide their own requests`],
  ],
  [
    "embedded: whoever it says may decide",
    {
      isEmbedded: true,
      issuers: [AGENTS],
      approvals: { store: undefined },
      policy: { require: { deciders: named("a") } },
    },
    [],
    [],
  ],
  [
    "embedded: more than are named",
    { isEmbedded: true, issuers: [AGENTS], policy: { require: { deciders: named("a"), count: 2 } } },
    [`${NOBODY}stage deciders needs 2, and 1 of those who may decide can be left for it`],
    [],
  ],
];

test.each(ROWS)("nobody can approve this: %s", (_title, written, problems, notes) => {
  expect(findingsOf(written)).toEqual({ problems, notes });
});
