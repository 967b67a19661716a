import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineTool } from "safe-tool-call";
import { z } from "zod";
import { AskingService, type Loose, type Reply } from "../support/asking-service.ts";
import { RawServer } from "../support/raw-server.ts";
import { decision, evaluations, pointAt } from "./authzen-service.ts";

/**
 * The Todo scenario of the OpenID AuthZEN working group's interoperability tests (https://authzen-interop.net): its users, roles,
 * actions and decisions. Its actions are tools here, and its resources their arguments: the mapping of COAZ-MCP.
 */
const USERS = {
  rick: { id: "CiRmZDA2MTRkMy1jMzlhLTQ3ODEtYjdiZC04Yjk2ZjVhNTEwMGQSBWxvY2Fs", email: "rick@the-citadel.com" },
  morty: { id: "CiRmZDE2MTRkMy1jMzlhLTQ3ODEtYjdiZC04Yjk2ZjVhNTEwMGQSBWxvY2Fs", email: "morty@the-citadel.com" },
  summer: { id: "CiRmZDI2MTRkMy1jMzlhLTQ3ODEtYjdiZC04Yjk2ZjVhNTEwMGQSBWxvY2Fs", email: "summer@the-smiths.com" },
  beth: { id: "CiRmZDM2MTRkMy1jMzlhLTQ3ODEtYjdiZC04Yjk2ZjVhNTEwMGQSBWxvY2Fs", email: "beth@the-smiths.com" },
  jerry: { id: "CiRmZDQ2MTRkMy1jMzlhLTQ3ODEtYjdiZC04Yjk2ZjVhNTEwMGQSBWxvY2Fs", email: "jerry@the-smiths.com" },
} as const;
type User = keyof typeof USERS;

const ROLES: Readonly<Record<User, readonly string[]>> = {
  ...{ rick: ["admin", "evil_genius"], morty: ["editor"], summer: ["editor"] },
  ...{ beth: ["viewer"], jerry: ["viewer"] },
};

const ACTIONS = ["can_read_user", "can_read_todos", "can_create_todo", "can_update_todo", "can_delete_todo"] as const;

interface Case {
  readonly user: User;
  readonly action: (typeof ACTIONS)[number];
  readonly owner: User;
  readonly isAllowed: boolean;
}

/** `another`: whose todo it is that is not the user's own. */
function casesOf(user: User, another: User, decisions: readonly boolean[]): readonly Case[] {
  const [create = false, own = false, others = false, deleteOwn = false, deleteOthers = false] = decisions;
  const row = (action: Case["action"], owner: User, isAllowed: boolean): Case => ({ user, action, owner, isAllowed });
  return [
    ...[row("can_read_user", "beth", true), row("can_read_user", user, true), row("can_read_todos", user, true)],
    row("can_create_todo", user, create),
    ...[row("can_update_todo", user, own), row("can_update_todo", another, others)],
    ...[row("can_delete_todo", user, deleteOwn), row("can_delete_todo", another, deleteOthers)],
  ];
}

/** Create; update one's own and another's; delete one's own and another's. */
const CASES = [
  ...casesOf("rick", "morty", [true, true, true, true, true]),
  ...casesOf("morty", "rick", [true, true, false, true, false]),
  ...casesOf("summer", "rick", [true, true, false, true, false]),
  ...casesOf("beth", "rick", [false, false, false, false, false]),
  ...casesOf("jerry", "rick", [false, false, false, false, false]),
];

const RULES = `
permit(principal, action, resource) when { ["can_read_user", "can_read_todos"].contains(resource.name) };
permit(principal in Team::"editor", action, resource == Tool::"can_create_todo");
permit(principal in Team::"admin", action, resource == Tool::"can_create_todo");
permit(principal in Team::"evil_genius", action, resource == Tool::"can_update_todo");
permit(principal in Team::"admin", action, resource == Tool::"can_delete_todo");
permit(principal in Team::"editor", action, resource)
when { ["can_update_todo", "can_delete_todo"].contains(resource.name) && context has arg_owner && context.arg_owner == principal.email };
`;

const input = z.strictObject({ owner: z.string().max(100) });
const TOOLS = ACTIONS.map((name) =>
  defineTool({
    ...{ name, description: "Works on todos", classification: "read", permissions: { required: ["todos:use"] } },
    ...{ input, inputPolicy: { "*": "allow" }, output: z.strictObject({}), outputPolicy: {}, handler: () => ({}) },
  }),
);

class Scenario extends AskingService {
  async start(decisionPoints: readonly object[]): Promise<this> {
    writeFileSync(join(this.folder, "todo.cedar"), RULES);
    const entities = Object.entries(USERS).map(([user, { id, email }]) => ({
      ...{ uid: { type: "Client", id }, attrs: { email } },
      parents: ROLES[user as User].map((role) => ({ type: "Team", id: role })),
    }));
    writeFileSync(join(this.folder, "users.json"), JSON.stringify(entities));
    const subjects = Object.values(USERS).map(({ id }) => ({ role: "user", subject: id }));
    const roles = { user: { permissions: ["todos:use"] } };
    await this.run({ tools: TOOLS, roles, bindings: subjects, decisionPoints });
    return this;
  }

  async asks(path: string, body: object): Promise<Loose> {
    const token = await this.person({ sub: "todo-backend", permissions: ["policy:evaluate"] });
    const reply = await this.send("POST", `/access/v1/${path}`, { token, body });
    expect(reply.http).toBe(200);
    return reply.body;
  }

  async calls({ user, action, owner }: Case): Promise<Reply> {
    const token = await this.agent({ sub: USERS[user].id, permissions: ["todos:use"] });
    const body = { tool: action, args: { owner: USERS[owner].email } };
    return this.send("POST", "/call", { token, body });
  }
}

const questionOf = ({ action, owner }: Omit<Case, "user">): Loose => ({
  resource: { type: "tool", id: action },
  context: { arguments: { owner: USERS[owner].email } },
});
const subjectOf = (user: User): Loose => ({ type: "user", id: USERS[user].id });
const CALL = { name: "tools/call" };

describe("as the scenario's policy decision point", () => {
  const scenario = new Scenario();
  beforeAll(() =>
    scenario.start([{ name: "todo", cedar: { policiesFile: "todo.cedar", entitiesFile: "users.json" } }]),
  );
  afterAll(() => scenario.end());

  test.each(CASES)("$user: $action of $owner: $isAllowed", async (row) => {
    const body = { subject: subjectOf(row.user), action: CALL, ...questionOf(row) };
    expect((await scenario.asks("evaluation", body)).decision).toBe(row.isAllowed);
    expect((await scenario.calls(row)).http).toBe(row.isAllowed ? 200 : 403);
  });

  test.each([
    ["rick", ["rick", "jerry"], [true, true]],
    ["morty", ["rick", "morty"], [false, true]],
    ["jerry", ["rick", "jerry"], [false, false]],
  ] as const)("%s asks in one request which of the todos of %j may be updated", async (user, owners, expected) => {
    const batch = owners.map((owner) => questionOf({ action: "can_update_todo", owner, isAllowed: true }));
    const answer = await scenario.asks("evaluations", { subject: subjectOf(user), action: CALL, evaluations: batch });
    expect(answer.evaluations.map(({ decision: is }: Loose) => is)).toEqual([...expected]);
  });

  test("questions without arguments are decided without them", async () => {
    const asked = (user: User, action: string): Promise<Loose> =>
      scenario.asks("evaluation", { subject: subjectOf(user), action: CALL, resource: { type: "tool", id: action } });
    expect((await asked("rick", "can_update_todo")).decision).toBe(true);
    expect((await asked("morty", "can_update_todo")).decision).toBe(false);
    expect((await asked("morty", "can_create_todo")).decision).toBe(true);
  });

  test("the scenario's own actions and resources are denied, because they are not a tool's", async () => {
    const answer = await scenario.asks("evaluation", {
      ...{ subject: subjectOf("rick"), action: { name: "can_delete_todo" } },
      resource: { type: "todo", id: "7240d0db-8ff0-41ec-98b2-34a096273b92", properties: { ownerID: "x" } },
    });
    expect(answer).toMatchObject({ decision: false });
  });
});

describe("as a client of the scenario's policy decision point", () => {
  const scenario = new Scenario();
  let pdp: RawServer;
  beforeAll(async () => {
    pdp = await RawServer.start();
    pdp.answer = ({ text }) => {
      const { subject, action, resource, context } = JSON.parse(text.split("\r\n\r\n")[1] ?? "");
      const found = CASES.find(
        (row) =>
          USERS[row.user].id === subject.id &&
          row.action === resource.id &&
          (context.arguments === undefined || USERS[row.owner].email === context.arguments.owner),
      );
      return decision(action.name === "tools/call" && found?.isAllowed === true);
    };
    await scenario.start([pointAt(pdp, { timeoutMs: 30_000 })]);
  });
  afterAll(async () => {
    await scenario.end();
    pdp.close();
  });

  test.each(CASES)("$user: $action of $owner: $isAllowed", async (row) => {
    const { http, body } = await scenario.calls(row);
    expect([http, body.error?.code]).toEqual(row.isAllowed ? [200, undefined] : [403, "POLICY_DENIED"]);
  });

  test("a question without arguments is passed on without them", async () => {
    pdp.requests.length = 0;
    const question = { subject: subjectOf("morty"), action: CALL, resource: { type: "tool", id: "can_create_todo" } };
    expect((await scenario.asks("evaluation", question)).decision).toBe(true);
    const [sent] = evaluations(pdp);
    expect(sent?.body).toMatchObject({ subject: { id: USERS.morty.id }, resource: { id: "can_create_todo" } });
    expect(sent?.body.context).not.toHaveProperty("arguments");
  });
});
