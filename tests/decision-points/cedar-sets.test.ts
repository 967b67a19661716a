import { expect, test } from "bun:test";
import fc from "fast-check";
import { loadEngine } from "../../src/decision-points/cedar/engine.ts";
import { ask, callerOf, cedarPoint, toolOf } from "./cedar-point.ts";

const TOOLS = ["pay", "refund", "read_all"].map((name) => toolOf(name));

const principals = [
  "principal",
  'principal == Client::"ann"',
  'principal == Client::"bob"',
  'principal in Team::"blue"',
];
const actions = [
  "action",
  'action == Action::"call_tool"',
  'action == Action::"list"',
  'action in [Action::"call_tool", Action::"list"]',
  'action in Action::"all"',
  'action in [Action::"list"]',
];
const resources = [
  ...["resource", 'resource == Tool::"pay"', 'resource == Tool::"refund"', 'resource == System::"inline"'],
  ...['resource in System::"inline"', 'resource in Tool::"pay"', "resource is Tool", "resource is System"],
  'resource is Tool in System::"inline"',
];
const conditions = [
  "",
  "when { context.arg_n > 3 }",
  "when { context.arg_missing }",
  'when { resource.name == "pay" }',
];

const policy = fc
  .tuple(
    fc.constantFrom("permit", "forbid"),
    ...([principals, actions, resources, conditions] as const).map((texts) => fc.constantFrom(...texts)),
  )
  .map(([effect, principal, action, resource, when]) => `${effect}(${principal}, ${action}, ${resource}) ${when};`);

const entities = [
  { uid: { type: "Client", id: "ann" }, attrs: {}, parents: [{ type: "Team", id: "blue" }] },
  { uid: { type: "Action", id: "call_tool" }, attrs: {}, parents: [{ type: "Action", id: "all" }] },
];

test("the policies that are kept for a tool decide as all policies do, errors included", async () => {
  const engine = await loadEngine();
  await fc.assert(
    fc.asyncProperty(fc.array(policy, { maxLength: 8 }), fc.integer({ min: 0, max: 6 }), async (written, n) => {
      const policies = written.join("\n");
      const { point, problems } = await cedarPoint({ policies, entities });
      expect(problems).toEqual([]);
      for (const tool of TOOLS) {
        const { system } = tool.target;
        const whole = engine.isAuthorized({
          principal: { type: "Client", id: "ann" },
          action: { type: "Action", id: "call_tool" },
          resource: { type: "Tool", id: tool.name },
          context: { arg_n: n },
          policies: { staticPolicies: Object.fromEntries(written.map((text, index) => [`policy${index}`, text])) },
          entities: [
            ...entities,
            {
              uid: { type: "Tool", id: tool.name },
              attrs: { name: tool.name },
              parents: [{ type: "System", id: system }],
            },
          ],
        });
        if (whole.type !== "success") throw new Error("the whole set was not evaluated");
        const { decision, diagnostics } = whole.response;
        const kept = ask(point, { tool, caller: callerOf(), args: { n } });
        const isDecided = diagnostics.errors.length === 0;
        expect([policies, isDecided]).toEqual([policies, typeof kept !== "string" || kept === "allow"]);
        if (isDecided) expect(kept === "allow").toBe(decision === "allow");
        if (isDecided && decision === "deny" && diagnostics.reason.length > 0)
          expect(kept).toEqual(
            [...diagnostics.reason]
              .sort()
              .slice(0, 4)
              .map((id) => `forbidden by policy ${id}`),
          );
      }
      await point?.close();
    }),
    { numRuns: 120 },
  );
});

/**
 * Cedar's documentation explains its language with a service for sharing photos. Here, the tools of such a service, and the same
 * ideas: roles, membership in groups, the owner's own things, and what nobody may do.
 */
test("rules for sharing photos, in the vocabulary of tools", async () => {
  const policies = `
@id("friends-view")   permit(principal in Group::"janes-friends", action, resource == Tool::"view_photo") when { context.arg_album == "holiday" };
@id("owner-edits")    permit(principal, action, resource in Kind::"editing") when { context.arg_owner == context.claim_sub };
@id("admins")         permit(principal, action, resource) when { context has claim_role && context.claim_role == "admin" };
@id("private-stays")  forbid(principal, action, resource in Kind::"editing") when { context has arg_tags && context.arg_tags.contains("private") }
                      unless { context.arg_owner == context.claim_sub };
@id("no-deletes")     forbid(principal, action, resource == Tool::"delete_photo") unless { context.now.toTime() >= duration("9h") };`;
  const tool = (id: string, parents: readonly string[]) => ({
    ...{ uid: { type: "Tool", id }, attrs: {} },
    parents: parents.map((kind) => ({ type: "Kind", id: kind })),
  });
  const { point, problems } = await cedarPoint({
    policies,
    entities: [
      tool("view_photo", []),
      tool("edit_photo", ["editing"]),
      tool("delete_photo", ["editing"]),
      { uid: { type: "Client", id: "john" }, attrs: {}, parents: [{ type: "Group", id: "janes-friends" }] },
    ],
  });
  expect(problems).toEqual([]);
  const [view, edit, remove] = ["view_photo", "edit_photo", "delete_photo"].map((name) => toolOf(name));
  const jane = { subject: "jane" };
  const john = { subject: "john" };
  const admin = { subject: "root", claims: { role: "admin" } };
  const none = ["no policy permits the call"];
  const rows = [
    [view, john, { album: "holiday", owner: "jane" }, "allow"],
    [view, john, { album: "work", owner: "jane" }, none],
    [edit, john, { album: "holiday", owner: "jane" }, none],
    [edit, jane, { album: "work", owner: "jane", tags: ["private"] }, "allow"],
    [edit, admin, { album: "work", owner: "jane", tags: ["sea"] }, "allow"],
    [edit, admin, { album: "work", owner: "jane", tags: ["private"] }, ["forbidden by policy private-stays"]],
    [remove, jane, { album: "work", owner: "jane" }, "allow"],
  ] as const;
  for (const [asked, caller, args, expected] of rows)
    expect([asked?.name, ask(point, { ...(asked && { tool: asked }), caller, args })]).toEqual([asked?.name, expected]);
});
