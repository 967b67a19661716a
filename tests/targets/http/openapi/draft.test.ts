import { describe, expect, test } from "bun:test";
import { type DraftSystem, draftOf, NotImportable } from "../../../../src/targets/http/openapi/draft.ts";
import type { Loose } from "../../../support/asking-service.ts";
import { answers, apiOf } from "./support.ts";

/** The draft for the first operation of a document with one path. */
function draft(path: string, item: Loose, schemas: Loose = {}, version?: string) {
  const document = apiOf({ [path]: item }, schemas, version);
  const [operation] = document.operations;
  if (operation === undefined) throw new Error("the document has no operation");
  return draftOf(document, operation);
}

const OK = answers({ type: "object", properties: { id: { type: "string" } } });
const get = (parameters: readonly Loose[], responses: Loose = OK) => ({ get: { parameters, responses } });
const post = (schema: unknown, more: Loose = {}, type = "application/json") => ({
  post: { requestBody: { required: true, content: { [type]: { schema } } }, responses: OK, ...more },
});

test.each([
  ["get", "read"],
  ["head", "read"],
  ["post", "write"],
  ["put", "write"],
  ["patch", "write"],
  ["delete", "destructive"],
] as const)("%s is classified as %s", (method, classification) => {
  expect(draft("/a", { [method]: { responses: OK } }).classification).toBe(classification);
});

describe("parameters", () => {
  test("of the path are bounded and required, of the query and headers as the document says", () => {
    const parameters = [
      { name: "pet-id", in: "path", required: true, schema: { type: "string" } },
      { name: "page[size]", in: "query", required: true, schema: { type: "integer", maximum: 100 } },
      { name: "tags", in: "query", description: "Any of them", schema: { type: "array", items: { type: "string" } } },
      { name: "ids", in: "query", explode: false, schema: { type: "array", items: { type: "integer" } } },
      { name: "X-Trace", in: "header", schema: { type: "string" } },
      { name: "Authorization", in: "header", required: true, schema: { type: "string" } },
      { name: "X-Forwarded-For", in: "header", schema: { type: "string" } },
      { name: "session", in: "cookie", schema: { type: "string" } },
    ];
    expect(draft("/pets/{pet-id}/x", get(parameters))).toMatchObject({
      http: {
        path: "/pets/{pet_id}/x",
        query: { "page[size]": "{page_size}", tags: "{tags}", ids: "{ids}" },
        headers: { "x-trace": "{X_Trace}" },
      },
      input: {
        properties: {
          pet_id: { type: "string", maxLength: 256 },
          page_size: { type: "integer", maximum: 100 },
          tags: { type: "array", items: { type: "string" }, description: "Any of them" },
          ids: { type: "string", description: "Values separated by commas." },
          X_Trace: { type: "string" },
        },
        required: ["pet_id", "page_size"],
      },
      notes: ["Optional parameters of the operation that no argument fills: session, x-forwarded-for."],
    });
  });

  test.each([
    ["^[a-z]+$", "^[a-z]+$"],
    ["[a-z]?", undefined],
    ["^[a-z/]+$", undefined],
    ["^[%0-9]+$", undefined],
    ["^a|b$", undefined],
    ["^[a-z;]+$", undefined],
    ["^[a-z?=]+$", undefined],
    ["^[a-z#]+$", undefined],
    ["^[a-z\\\\]+$", undefined],
    ["^a\\?b$", undefined],
    ["^[A-Z]{2}-?\\d+$", "^[A-Z]{2}-?\\d+$"],
    ["^[^/;#]{1,20}$", "^[^/;#]{1,20}$"],
    ["^(?:[a-z]+\\.)*[a-z]+$", "^(?:[a-z]+\\.)*[a-z]+$"],
  ])("of the path keep the pattern %s only if it cannot let other characters in", (pattern, kept) => {
    const schema = { type: "string", pattern };
    const { input } = draft("/a/{id}", get([{ name: "id", in: "path", schema }]));
    expect((input as Loose)["properties"].id.pattern).toBe(kept);
  });

  test.each([
    ["a choice", { anyOf: [{ type: "string", pattern: "^[a-z;]+$" }, { type: "integer" }] }],
    ["a combination", { type: "string", allOf: [{ pattern: "^[a-z;]+$" }, { minLength: 1 }] }],
    ["an enum", { type: "string", enum: ["a;b"], pattern: "^[a-z;]+$" }],
  ])("of the path do not keep a pattern that opens the path in %s, and a note says so", (_, schema) => {
    const { input, notes } = draft("/a/{id}", get([{ name: "id", in: "path", schema }]));
    expect(JSON.stringify(input)).not.toContain("pattern");
    expect(notes).toEqual(["Patterns left out because they could open the path: id."]);
  });

  test("that are objects are sent member by member, as their style says", () => {
    const schema = { type: "object", properties: { gte: { type: "integer" }, lt: { type: "integer" } } };
    const parameters = [
      { name: "created", in: "query", style: "deepObject", schema },
      { name: "expand", in: "query", style: "deepObject", schema: { type: "array", items: { type: "string" } } },
      { name: "page", in: "query", schema: { type: "object", properties: { limit: { type: "integer" } } } },
    ];
    expect(draft("/a", get(parameters)).http).toMatchObject({
      query: {
        "created[gte]": "{created_gte}",
        "created[lt]": "{created_lt}",
        "expand[]": "{expand}",
        limit: "{limit}",
      },
    });
  });

  test("with the same name get arguments of their own", () => {
    const parameters = [
      { name: "id", in: "path", schema: { type: "integer" } },
      { name: "id", in: "query", schema: { type: "string" } },
      { name: "__proto__", in: "query", schema: { type: "string" } },
      { name: "constructor", in: "query", schema: { type: "string" } },
    ];
    const { http, input } = draft("/a/{id}", get(parameters));
    expect(http.query).toEqual({ id: "{id_2}", constructor: "{value_constructor}" });
    expect(Object.keys((input as Loose)["properties"])).toEqual(["id", "id_2", "value_constructor"]);
  });

  test.each<readonly [string, readonly Loose[], string]>([
    ["/a/{id}", [], "describes no parameter for {id} in its path"],
    ["/a/{id}", [{ name: "id", in: "path", schema: { type: "object" } }], "the path parameter id is not one value"],
    ["/a", [{ name: "s", in: "cookie", required: true }], "the parameter s is a cookie"],
    ["/a", [{ name: "q", in: "query", required: true, content: {} }], "the parameter q is JSON in a text"],
  ])("of %s that cannot be sent are a reason", (path, parameters, reason) => {
    expect(() => draft(path, get(parameters))).toThrow(new NotImportable(reason));
  });
});

describe("what the document says and the manifest does not do", () => {
  const BASE = new URL("https://api.test/v1");
  const drafted = (item: Loose, system: DraftSystem = {}, path = "/a") => {
    const [operation] = apiOf({ [path]: item }).operations;
    if (operation === undefined) throw new Error("the document has no operation");
    return draftOf(apiOf({ [path]: item }), operation, system);
  };
  const version = { name: "Notion-Version", in: "header", required: true };

  test("a header that the system sets is left out with a note", () => {
    const item = get([{ ...version, schema: { type: "string" } }]);
    const { http, input, notes } = drafted(item, { headers: { "notion-version": "2022-06-28" } });
    expect(http.headers).toBeUndefined();
    expect(input).toEqual({ type: "object", properties: {} });
    expect(notes).toEqual(["Headers that the system sets: notion-version."]);
  });

  test.each<readonly [Loose, Loose, readonly string[] | undefined]>([
    [{ type: "string", default: "2022-06-28" }, { type: "string", default: "2022-06-28" }, undefined],
    [{ type: "string", enum: ["1", "2"], default: "2" }, { type: "string", enum: ["1", "2"], default: "2" }, undefined],
    [{ type: "string" }, { type: "string" }, ["Notion_Version"]],
    [{ type: "string", enum: ["1"], default: "2" }, { type: "string", enum: ["1"] }, ["Notion_Version"]],
  ])("a header's default %j is the argument's, if it fits", (schema, argument, required) => {
    const { http, input } = drafted(get([{ ...version, schema }]));
    expect(http.headers).toEqual({ "notion-version": "{Notion_Version}" });
    expect(input).toEqual({ type: "object", properties: { Notion_Version: argument }, ...(required && { required }) });
  });

  test.each(["matrix", "label"])("a path parameter of the style %s cannot be sent", (style) => {
    const item = get([{ name: "id", in: "path", style, schema: { type: "string" } }]);
    const reason = `the path parameter id has the style ${style}, which cannot be sent`;
    expect(() => drafted(item, {}, "/a/{id}")).toThrow(new NotImportable(reason));
  });

  const other =
    "The document names other servers for this operation: uploads.test. Requests go to the system's baseUrl.";
  test.each<readonly [string, Loose, readonly string[]]>([
    ["other servers", { servers: [{ url: "https://uploads.test" }], get: { responses: OK } }, [other]],
    ["other servers of its own", { get: { servers: [{ url: "https://uploads.test/v1" }], responses: OK } }, [other]],
    ["the system's own server", { get: { servers: [{ url: "/v1/" }], responses: OK } }, []],
    ["a server that is the system's", { get: { servers: [{ url: "https://api.test/v1" }], responses: OK } }, []],
    [
      "callbacks",
      { get: { callbacks: { done: {} }, responses: OK } },
      ["The service calls back (callbacks): no tool receives that."],
    ],
    [
      "required credentials",
      { get: { security: [{ key: [] }], responses: OK } },
      ["The document requires credentials, and the system has no auth."],
    ],
    ["optional credentials", { get: { security: [{}, { key: [] }], responses: OK } }, []],
    [
      "a description of a deletion",
      { get: { summary: "Deletes all orders", responses: OK } },
      ["Proposed as read, although its name or description says delete: judge it."],
    ],
    [
      "a name of a deletion",
      { get: { operationId: "deleteOrders", responses: OK } },
      ["Proposed as read, although its name or description says delete: judge it."],
    ],
    [
      "a description of what was deleted",
      { get: { operationId: "listDeletedOrders", summary: "Lists deleted orders", responses: OK } },
      [],
    ],
    ["a deletion that is one", { delete: { operationId: "deleteOrder", responses: OK } }, []],
    [
      "unknown formats",
      get([{ name: "q", in: "query", schema: { type: "string", format: "ksuid" } }]),
      ["Formats that are not checked: ksuid."],
    ],
    ["known formats", get([{ name: "q", in: "query", schema: { type: "string", format: "date" } }]), []],
    [
      "a default that does not fit",
      get([{ name: "q", in: "query", schema: { type: "integer", default: "many" } }]),
      ["Defaults that do not fit their own schemas are left out: 1."],
    ],
    ["a default that fits", get([{ name: "q", in: "query", schema: { type: "integer", default: 5 } }]), []],
  ])("of %s is said exactly once", (_, item, notes) => {
    expect(drafted(item, { baseUrl: BASE, hasCredentials: false }).notes).toEqual(notes);
  });

  test("parameters whose names become the same say as what they are sent", () => {
    const schema = { type: "string" };
    const parameters = ["date", "date>", "date<"].map((name) => ({ name, in: "query", description: "A day", schema }));
    const { input, notes } = drafted(get(parameters));
    expect((input as Loose)["properties"]).toMatchObject({
      date: { description: "A day" },
      date_2: { description: "Sent as date>. A day" },
      date_3: { description: "Sent as date<. A day" },
    });
    expect(notes).toEqual([
      "Arguments whose names the document has several times: date_2, date_3. Their descriptions say as what they are sent.",
    ]);
  });
});

describe("a body", () => {
  test("with clear members becomes arguments, without those that the service sets", () => {
    const schema = {
      allOf: [
        { $ref: "#/components/schemas/Base" },
        { type: "object", required: ["b"], properties: { b: { enum: [1, 2] } } },
      ],
    };
    const base = {
      type: "object",
      required: ["id", "a"],
      properties: { id: { type: "string", readOnly: true }, a: { type: "string" } },
    };
    const { http, input } = draft("/a", post(schema), { Base: base });
    expect(http.body).toBe("{*}");
    expect(input).toEqual({
      type: "object",
      properties: { a: { type: "string" }, b: { enum: [1, 2] } },
      required: ["a", "b"],
    });
  });

  test.each([
    [
      "a choice",
      {
        oneOf: [
          { type: "object", properties: { a: {} } },
          { type: "object", properties: { b: {} } },
        ],
      },
    ],
    ["a list", { type: "array", items: { type: "string" } }],
    ["a map", { type: "object", additionalProperties: { type: "integer" } }],
    ["an object with other names", { type: "object", properties: { "a.b": { type: "string" } } }],
  ])("that is %s becomes one argument", (_, schema) => {
    const { http, input } = draft("/a", post(schema));
    expect(http.body).toBe("{body}");
    expect(input).toMatchObject({ required: ["body"] });
  });

  describe("that is a form with more than 100 arguments", () => {
    const texts = (count: number, more: Loose = {}): Loose => ({
      type: "object",
      properties: {
        ...Object.fromEntries(Array.from({ length: count }, (_, index) => [`m${index}`, { type: "string" }])),
        ...more,
      },
    });
    const form = (properties: Loose, required: readonly string[] = []) =>
      draft("/a", post({ type: "object", properties, required }, {}, "application/x-www-form-urlencoded"));

    test("lacks optional objects, the deepest first, and says so", () => {
      const { http, notes } = form({ id: { type: "string" }, card: texts(40, { check: texts(90) }), bank: texts(9) });
      const names = Object.keys(http.body as Loose);
      expect([names.length, names.includes("card[m39]"), names.includes("bank[m8]")]).toEqual([50, true, true]);
      expect(notes).toEqual(["Optional parameters of the operation that no argument fills: 1 more."]);
    });

    test("keeps required objects, however deep they are", () => {
      const inner = { ...texts(1, { owner: { ...texts(2), required: ["m0"] } }), required: ["owner"] };
      const { http, notes } = form({ card: inner, other: texts(100) }, ["card"]);
      expect(http.body).toEqual({
        "card[m0]": "{card_m0}",
        "card[owner][m0]": "{card_owner_m0}",
        "card[owner][m1]": "{card_owner_m1}",
      });
      expect(notes).toEqual(["Optional parameters of the operation that no argument fills: other."]);
    });

    test("has no manifest when its own and its required members are too many", () => {
      expect(() => form(texts(101)["properties"])).toThrow(new NotImportable("needs more than 100 arguments"));
      const card = { ...texts(101), required: ["m0"] };
      expect(() => form({ card }, ["card"])).toThrow(new NotImportable("needs more than 100 arguments"));
    });
  });

  test("that is a form has its members in brackets", () => {
    const schema = {
      type: "object",
      required: ["name"],
      properties: {
        name: { type: "string" },
        address: { type: "object", properties: { city: { type: "string" } } },
        tags: { type: "array", items: { type: "string" } },
      },
    };
    expect(draft("/a", post(schema, {}, "application/x-www-form-urlencoded")).http).toMatchObject({
      body: { name: "{name}", "address[city]": "{address_city}", tags: "{tags}" },
      contentType: "application/x-www-form-urlencoded",
    });
  });

  test("that no request can hold is a reason, if it is required", () => {
    const item = post({ type: "object" }, {}, "multipart/form-data");
    expect(() => draft("/a", item)).toThrow(
      new NotImportable("the parameter body cannot be sent: it is multipart/form-data"),
    );
    const removal = { delete: { requestBody: item.post.requestBody, responses: OK } };
    expect(() => draft("/a", removal)).toThrow("cannot be sent: a DELETE request has no body");
  });
});

describe("an answer", () => {
  test.each<readonly [string, Loose, unknown]>([
    ["JSON", OK, { type: "object", properties: { id: { type: "string" } } }],
    [
      "text",
      { 200: { content: { "text/csv": {} } } },
      { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
    ],
    ["empty", { 204: {} }, { type: "object", properties: {} }],
    ["any JSON", answers({}), { type: "object", additionalProperties: true }],
    [
      "sometimes empty",
      { ...answers({ type: "object", required: ["a"], properties: { a: { type: "integer" } } }), 204: {} },
      { type: "object", properties: { a: { type: "integer" } } },
    ],
  ])("that is %s has its schema", (_, responses, output) => {
    expect(draft("/a", get([], responses)).output).toEqual(output as never);
  });

  test("that only says that a request was accepted is declared", () => {
    expect(draft("/a", get([], answers({ type: "object" }, "202"))).http.means).toEqual({ 202: "OK" });
  });

  test("that is neither JSON nor text is a reason", () => {
    const responses = { 200: { content: { "application/pdf": {} } } };
    expect(() => draft("/a", get([], responses))).toThrow(
      "its answer is application/pdf, which is neither JSON nor text",
    );
  });

  test("that the document leaves out is any JSON, with a note", () => {
    const { output, notes } = draft("/a", get([], { 404: {} }));
    expect(output).toEqual({ type: "object", additionalProperties: true });
    expect(notes[0]).toStartWith("The document describes no successful answer");
  });
});

describe("schemas", () => {
  const output = (schema: unknown, schemas: Loose = {}, version?: string) =>
    (draft("/a", get([], answers({ type: "object", properties: { x: schema } })), schemas, version).output as Loose)[
      "properties"
    ].x;
  const input = (schema: unknown, version?: string) =>
    (draft("/a", get([{ name: "x", in: "query", schema }]), {}, version).input as Loose)["properties"].x;

  test.each<readonly [unknown, unknown]>([
    [{ type: "string", nullable: true }, { type: ["string", "null"] }],
    [
      { type: "string", enum: ["a"], nullable: true },
      { type: ["string", "null"], enum: ["a", null] },
    ],
    [{ oneOf: [{ type: "string" }, { type: "integer" }] }, { anyOf: [{ type: "string" }, { type: "integer" }] }],
    [{ allOf: [{ type: "string" }] }, { type: "string" }],
    [{ type: "string", pattern: "^a$", maxLength: 3, example: "a", xml: {} }, { type: "string" }],
    [
      { type: "string", format: "date-time" },
      { type: "string", format: "date-time" },
    ],
    [{ type: "string", format: "uri" }, { type: "string" }],
    [{ type: "object" }, { type: "object", additionalProperties: true }],
    [{ properties: { a: {} } }, { type: "object", properties: { a: {} } }],
  ])("of answers: %j becomes %j", (schema, written) => {
    expect(output(schema)).toEqual(written);
  });

  test.each<readonly [unknown, unknown]>([
    [
      { type: "integer", minimum: 0, exclusiveMinimum: true },
      { type: "integer", exclusiveMinimum: 0 },
    ],
    [{ type: "integer", maximum: 2 ** 63 }, { type: "integer" }],
    [{ type: "string", pattern: "(a" }, { type: "string" }],
    [
      { type: "string", pattern: "^[a-z]+$" },
      { type: "string", pattern: "^[a-z]+$" },
    ],
    [
      { type: "string", default: "b", description: "A.\nB" },
      { type: "string", description: "A. B Default: b" },
    ],
  ])("of arguments: %j becomes %j", (schema, written) => {
    expect(input(schema)).toEqual(written);
  });

  test("of version 3.1 have bounds and types of their own", () => {
    const bound = { type: "integer", exclusiveMaximum: 5 };
    expect(input(bound, "3.1.0")).toEqual(bound);
    expect(input({ type: ["string", "null"], const: "a" }, "3.1.0")).toEqual({ type: "string", const: "a" });
  });

  test("that contain themselves end in any JSON", () => {
    const node = {
      type: "object",
      properties: { name: { type: "string" }, next: { $ref: "#/components/schemas/Node" } },
    };
    expect(output({ $ref: "#/components/schemas/Node" }, { Node: node })).toEqual({
      type: "object",
      properties: { name: { type: "string" }, next: {} },
    });
    const loop = { allOf: [{ $ref: "#/components/schemas/Loop" }] };
    expect(output({ $ref: "#/components/schemas/Loop" }, { Loop: loop })).toEqual({});
  });

  test("that grow with every level are cut where a reader can still judge them", () => {
    const schemas: Loose = { L12: { type: "string" } };
    for (let level = 0; level < 12; level += 1) {
      const properties = Object.fromEntries(
        [..."abcdefghij"].map((name) => [name, { $ref: `#/components/schemas/L${level + 1}` }]),
      );
      schemas[`L${level}`] = { type: "object", properties };
    }
    const text = JSON.stringify(output({ $ref: "#/components/schemas/L0" }, schemas));
    expect(text.length).toBeLessThan(30_000);
    expect(text).toContain('"a":{');
  });

  test("lose names that are not names, and texts lose what hides", () => {
    const properties = { a: { type: "string" }, "x\u202ey": {}, constructor: {}, ["__proto__x"]: {} };
    expect(Object.keys((output({ type: "object", properties }) as Loose)["properties"])).toEqual(["a", "__proto__x"]);
    const { description } = input({ type: "string", description: "a\u202eb\u0000c" }) as Loose;
    expect(description).toBe("a\\u202eb\\u0000c");
  });
});
