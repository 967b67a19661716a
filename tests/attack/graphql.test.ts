import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { buildSchema } from "graphql";
import { AskingService, type Loose, type Reply } from "../support/asking-service.ts";
import { answered, type GraphqlBody } from "../targets/http/graphql/support.ts";

const CANARY = "canary-90ab";
const MAIL = `${CANARY}-mail-that-is-long@example.test`;
const SCHEMA = `
scalar Time scalar Json enum Status { OPEN SENT }
input Filter { status: [Status!], least: Float, text: String, sub: Filter }
input Key @oneOf { id: ID, number: Int }
type Person { label: String!, email: String, friends: [Person!] }
type Query {
  echo(id: ID!, n: Int, f: Float, s: Status, b: Boolean, filter: Filter, key: Key, list: [ID!], at: Time, j: Json): Boolean
  person(id: ID!): Person
}
type Mutation { rename(id: ID!, name: String!): Person }
`;
const READ = { classification: "read", permissions: { required: ["a:b"] } };
const TARGET = { system: "api", http: { method: "POST", path: "/graphql" } };

function tool(name: string, graphql: object, more: object): string {
  const http = { ...TARGET.http, graphql };
  return JSON.stringify({ name, description: `Calls ${name}`, ...READ, target: { ...TARGET, http }, ...more });
}

const FILTER = {
  type: "object",
  properties: {
    status: { type: "array", items: { enum: ["OPEN", "SENT"] } },
    least: { type: "number" },
    text: { type: "string" },
    sub: { type: "object", properties: { text: { type: "string" } }, additionalProperties: false },
  },
  additionalProperties: false,
};
const one = (name: string, schema: object) => ({
  type: "object",
  properties: { [name]: schema },
  required: [name],
  additionalProperties: false,
});
const ECHO = {
  type: "object",
  properties: {
    id: { type: ["string", "integer"] },
    n: { type: ["integer", "null"], minimum: -2147483648, maximum: 2147483647 },
    f: { type: "number" },
    s: { enum: ["OPEN", "SENT"] },
    b: { type: "boolean" },
    filter: FILTER,
    key: { anyOf: [one("id", { type: "string" }), one("number", { type: "integer", minimum: 0, maximum: 9 })] },
    list: { type: "array", items: { type: "string" } },
    at: { type: "string" },
    j: {},
  },
  required: ["id"],
};
const PERSON = {
  type: ["object", "null"],
  properties: { mail: { type: ["string", "null"] }, title: { type: ["string", "null"] } },
};
const BY_ID = { type: "object", properties: { id: { type: "string" } }, required: ["id"] };
const output = (name: string, more = {}) => ({ type: "object", properties: { [name]: PERSON, ...more } });
const policy = (name: string) => ({ [`${name}.title`]: "allow", [`${name}.mail`]: "mask" });
const PATHS = { errorPaths: { type: "array", items: { type: "string" } } };
const QUERY = { document: "query Get($id: ID!) { person(id: $id) { title: label mail: email } }", variables: "{*}" };
const RENAME = {
  document: 'mutation Set($id: ID!) { rename(id: $id, name: "x") { title: label mail: email } }',
  variables: "{*}",
};

class Attacked extends AskingService {
  readonly seen: GraphqlBody[] = [];
  /** Arguments that the resolver received. */
  readonly given: Loose[] = [];
  instead: (() => Response) | undefined;
  #api: Bun.Server<undefined> | undefined;

  async start(): Promise<void> {
    const schema = buildSchema(SCHEMA);
    const root = {
      echo: (args: Loose) => this.given.push(args) > 0,
      person: () => ({ label: "Ann", email: MAIL }),
      rename: () => ({ label: "Ann", email: MAIL }),
    };
    this.#api = Bun.serve({
      ...{ hostname: "127.0.0.1", port: 0, maxRequestBodySize: 50_000_000 },
      fetch: async (request) => {
        const body = (await request.json()) as GraphqlBody;
        this.seen.push(body);
        return this.instead?.() ?? Response.json(await answered(body, root, schema));
      },
    });
    mkdirSync(join(this.folder, "tools"));
    writeFileSync(join(this.folder, "schema.graphql"), SCHEMA);
    const document =
      "query Echo($id: ID!, $n: Int, $f: Float, $s: Status, $b: Boolean, $filter: Filter, $key: Key, $list: [ID!], $at: Time, $j: Json) { echo(id: $id, n: $n, f: $f, s: $s, b: $b, filter: $filter, key: $key, list: $list, at: $at, j: $j) }";
    const written = {
      echo: tool(
        "echo",
        { document, variables: "{*}" },
        {
          input: ECHO,
          output: { type: "object", properties: { echo: { type: ["boolean", "null"] } } },
          outputPolicy: { echo: "allow" },
        },
      ),
      get: tool("get", QUERY, { input: BY_ID, output: output("person"), outputPolicy: policy("person") }),
      get_partial: tool(
        "get_partial",
        { ...QUERY, partial: "allow" },
        {
          ...{ input: BY_ID, output: output("person", PATHS) },
          outputPolicy: { ...policy("person"), "errorPaths[]": "allow" },
        },
      ),
      set: tool("set", RENAME, {
        ...{ input: BY_ID, output: output("rename"), outputPolicy: policy("rename"), classification: "write" },
      }),
    };
    for (const [name, text] of Object.entries(written))
      writeFileSync(join(this.folder, `tools/${name}.tool.yaml`), text);
    const graphql = {
      schemaFile: "schema.graphql",
      fields: { "Person.email": "mask" },
      scalars: { Time: "string", Json: "any" },
    };
    const { port } = this.#api;
    const http = { baseUrl: `http://127.0.0.1:${port}`, addresses: ["loopback"], answerBytesMax: 2_000_000, graphql };
    await this.run({ tools: ["tools"], systems: { api: { http } }, approvals: { store: "sqlite://approvals.sqlite" } });
  }

  /** Sends arguments as they are written. */
  async call(name: string, args: string, approval?: string): Promise<Reply> {
    const token = await this.agent({ permissions: ["a:b"] });
    const approved = approval === undefined ? "" : `,"approval":{"id":"${approval}"}`;
    return this.send("POST", "/call", { token, body: `{"tool":"${name}","args":${args}${approved}}` });
  }

  /** Returns the reply to a call that a person has approved. */
  async approved(name: string, args: string): Promise<Reply> {
    const { body } = await this.call(name, args);
    await this.decide(body.approval.id, "approve");
    return this.call(name, args, body.approval.id);
  }

  override async end(): Promise<void> {
    await super.end();
    await this.#api?.stop(true);
  }
}

const service = new Attacked();
beforeAll(() => service.start());
afterAll(() => service.end());

const id = (rest: string) => `{"id":"7",${rest}}`;
const filter = (value: string) => id(`"filter":${value}`);

describe("the values of an agent", () => {
  test.each([
    ...[
      `{"id":9007199254740991}`,
      `{"id":1e15}`,
      `{"id":"\\u0000"}`,
      `{"id":"{n}"}`,
      `{"id":"$id"}`,
      `{"id":"\\"} evil { x"}`,
    ],
    ...[id(`"n":null`), id(`"n":-2147483648`), id(`"n":5.0`), id(`"n":1E1`), id(`"f":5e-324`), id(`"f":-0.25`)],
    ...[
      filter("{}"),
      filter(`{"status":["OPEN"],"least":1,"text":"x","sub":{"text":"\\u2028"}}`),
      id(`"key":{"number":3}`),
    ],
    ...[id(`"list":[]`), id(`"list":["5"]`), id(`"j":{"a":[1,null,{"toJSON":"c"}]}`), id(`"j":null`), id(`"at":"x"`)],
  ])("%s arrive as they are, and the service takes them", async (args) => {
    const { http, body } = await service.call("echo", args);
    expect([http, body.result]).toEqual([200, { echo: true }]);
    const { id: given, ...others } = service.given.at(-1);
    const { id: sent, ...sentOthers } = JSON.parse(args);
    // A service reads an ID as text.
    expect([given, { ...others }]).toEqual([String(sent), sentOthers]);
  });

  test.each([
    ...[
      `{"id":9007199254740993}`,
      `{"id":1e400}`,
      `{"id":null}`,
      `{"id":true}`,
      `{"id":["7"]}`,
      `{"id":{}}`,
      `{}`,
      `["7"]`,
    ],
    ...[id(`"n":2147483648`), id(`"n":"5"`), id(`"n":1.5`), id(`"n":true`), id(`"f":1e400`), id(`"f":"NaN"`)],
    ...[id(`"s":"open"`), id(`"s":"OPEN "`), id(`"s":"\\u041ePEN"`), id(`"s":0`), id(`"s":["OPEN"]`), id(`"b":1`)],
    ...[
      filter("[]"),
      filter(`"x"`),
      filter(`{"role":"admin"}`),
      filter(`{"status":"OPEN"}`),
      filter(`{"status":[null]}`),
    ],
    ...[filter(`{"sub":{"sub":{}}}`), filter(`{"__proto__":{"role":1}}`), filter(`{"constructor":1}`)],
    ...["{}", `{"id":"1","number":2}`, `{"id":null}`, `{"id":"1","number":null}`].map((key) => id(`"key":${key}`)),
    ...[`"5"`, "5", "[5]", `[["5"]]`, "[null]"].map((list) => id(`"list":${list}`)),
    ...[
      id(`"at":5`),
      id(`"j":9007199254740993`),
      id(`"j":"\\ud800"`),
      id(`"j":{"a":1,"a":2}`),
      id(`"j":{"__proto__":1}`),
    ],
    ...[
      id(`"j":${"[".repeat(2_000)}${"]".repeat(2_000)}`),
      `{"id":"\\ud800"}`,
      id(`"id":"8"`),
      id(`"__proto__":{"n":1}`),
    ],
    ...[id(`"query":"{ x }"`), id(`"operationName":"X"`), id(`"ID":"8"`), id(`"*":1`)],
  ])("%s are refused, and nothing is sent", async (args) => {
    const before = service.seen.length;
    const { http, body } = await service.call("echo", args);
    expect([http, body.error.code]).toEqual([400, expect.stringMatching(/^(?:INVALID_INPUT|MALFORMED_REQUEST)$/)]);
    expect(service.seen).toHaveLength(before);
  });
});

const JSON_TYPE = { "content-type": "application/json" };
const DATA = { person: { title: "Ann", mail: MAIL }, rename: { title: "Ann", mail: MAIL } };
const ERRORS = [{ message: `${CANARY} ${MAIL}`, path: ["person", "mail"], extensions: { stack: CANARY } }];

type Answer = readonly [name: string, body: unknown, code: string, init?: ResponseInit];

describe("the answers of a service", () => {
  const answering = async (body: unknown, init: ResponseInit = {}, call: () => Promise<Reply>): Promise<Reply> => {
    const isText = typeof body === "string" || Buffer.isBuffer(body);
    service.instead = () => new Response(isText ? body : JSON.stringify(body), { headers: JSON_TYPE, ...init });
    try {
      return await call();
    } finally {
      service.instead = undefined;
    }
  };
  const isClean = ({ body }: Reply): void => {
    const all = JSON.stringify([body, service.entry(body.traceId), service.journal()]);
    expect(all).not.toContain(CANARY);
    expect(service.entry(body.traceId)?.decision).toBe(body.error === undefined ? "ALLOWED" : "ERROR");
  };

  test.each<Answer>([
    ["with further members", { data: { ...DATA, errorPaths: [CANARY], [CANARY]: CANARY }, extensions: { CANARY } }, ""],
    [
      "with keys of prototypes",
      `{"data":{"__proto__":{"person":"${CANARY}"},"person":{"__proto__":{"title":"${CANARY}"}}}}`,
      "",
    ],
    [
      "with a mark of its bytes",
      Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from(JSON.stringify({ data: DATA }))]),
      "",
    ],
    ["with errors under another name", { data: DATA, Errors: ERRORS }, ""],
    ["with errors", { data: DATA, errors: ERRORS }, "TARGET_REFUSED"],
    [
      "with errors under an escaped name",
      `{"data":{"person":null},"err\\u006frs":[{"message":"${CANARY}"}]}`,
      "TARGET_REFUSED",
    ],
    [
      "with errors that are none",
      { data: DATA, errors: [null, CANARY, [CANARY], { message: { CANARY } }] },
      "TARGET_REFUSED",
    ],
    ["of other types", { data: { person: { title: { a: MAIL }, mail: [MAIL] } } }, "INVALID_OUTPUT"],
    ["that are lists", { data: { person: [DATA.person] } }, "INVALID_OUTPUT"],
    ["of text", { data: { person: CANARY } }, "INVALID_OUTPUT"],
    ["for another operation", { data: { people: DATA.person } }, "INVALID_OUTPUT"],
    ["for a batch", [{ data: DATA }], "INVALID_OUTPUT"],
    [
      "with two errors members",
      `{"data":{"person":null},"errors":[{"message":"${CANARY}"}],"errors":[]}`,
      "INVALID_OUTPUT",
    ],
    ["with two members of one name", `{"data":{"person":{"title":"${CANARY}","title":"b"}}}`, "INVALID_OUTPUT"],
    ["in several parts", { data: DATA, hasNext: true }, "INVALID_OUTPUT"],
    [
      "as a stream",
      `--x\r\n\r\n${CANARY}`,
      "INVALID_OUTPUT",
      { headers: { "content-type": "multipart/mixed; boundary=x" } },
    ],
    ["as events", `data: ${CANARY}\n\n`, "INVALID_OUTPUT", { headers: { "content-type": "text/event-stream" } }],
    ["twice", `${JSON.stringify({ data: DATA })}\n${JSON.stringify({ data: DATA })}`, "INVALID_OUTPUT"],
    ["elsewhere", { data: DATA }, "TARGET_FAILED", { status: 307, headers: { ...JSON_TYPE, location: `/${CANARY}` } }],
    ["with a refusal", { data: DATA, errors: ERRORS }, "TARGET_REFUSED", { status: 400 }],
    ["deeper than any document", `{"data":{"person":${"[".repeat(5_000)}${"]".repeat(5_000)}}}`, "INVALID_OUTPUT"],
  ])("%s: what is not of the document stays inside", async (_, body, code, init = {}) => {
    const reply = await answering(body, init, () => service.call("get", `{"id":"7"}`));
    expect(reply.body.error?.code ?? "").toBe(code);
    isClean(reply);
  });

  test("with errors where partial data is accepted: the masked field stays masked, the path says what is missing", async () => {
    const reply = await answering({ data: DATA, errors: ERRORS }, {}, () => service.call("get_partial", `{"id":"7"}`));
    expect(reply.body.result).toMatchObject({ person: { title: "Ann" }, errorPaths: ["person.mail"] });
    isClean(reply);
  });

  test.each<Answer>([
    ["whole", { data: DATA }, ""],
    ["with errors below it", { data: DATA, errors: ERRORS }, "INVALID_OUTPUT"],
    ["null, with errors", { data: { rename: null }, errors: ERRORS }, "OUTCOME_UNKNOWN"],
    ["a page", `<html>${CANARY}`, "OUTCOME_UNKNOWN", { headers: { "content-type": "text/html" } }],
    ["another operation's", { data: { person: null } }, "OUTCOME_UNKNOWN"],
    ["a refusal with data", { data: DATA, errors: ERRORS }, "OUTCOME_UNKNOWN", { status: 429 }],
    ["a failure", { errors: ERRORS }, "OUTCOME_UNKNOWN", { status: 503 }],
    ["a refusal", { errors: ERRORS }, "TARGET_REFUSED", { status: 400 }],
  ])("to a change, %s: the change is sent once", async (_, body, code, init = {}) => {
    const before = service.seen.length;
    const reply = await answering(body, init, () => service.approved("set", `{"id":"7"}`));
    expect([reply.body.error?.code ?? "", service.seen.length - before]).toEqual([code, 1]);
    isClean(reply);
  });
});
