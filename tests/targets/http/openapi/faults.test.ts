import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { ManifestError } from "../../../../src/core/errors.ts";
import type { HttpTarget, Tool } from "../../../../src/core/types.ts";
import { ApiContracts, documentFindings } from "../../../../src/targets/http/openapi/faults.ts";
import { answers, apiOf } from "./support.ts";

const ORDER = {
  type: "object",
  required: ["id", "state"],
  properties: {
    id: { type: "string" },
    state: { enum: ["open", "sent"] },
    total: { type: "integer" },
    buyer: { type: "object", properties: { email: { type: "string" } } },
    lines: { type: "array", items: { type: "object", properties: { sku: { type: "string" } } } },
    note: { type: "string", nullable: true },
    parent: { $ref: "#/components/schemas/Order" },
    secret: { type: "string", writeOnly: true },
    etag: { type: "string", readOnly: true },
  },
};

const NEW = { content: { "application/json": { schema: { $ref: "#/components/schemas/Order" } } }, required: true };

const DOCUMENT = apiOf(
  {
    "/orders": {
      get: {
        parameters: [
          { name: "limit", in: "query", schema: { type: "integer" } },
          { name: "state", in: "query", required: true, schema: { type: "string", enum: ["open", "sent"] } },
          { name: "filter", in: "query", style: "deepObject", schema: { type: "object" } },
          { name: "X-Tenant", in: "header", required: true, schema: { type: "string" } },
        ],
        responses: answers({ type: "array", items: { $ref: "#/components/schemas/Order" } }),
      },
      post: { requestBody: NEW, responses: answers({ $ref: "#/components/schemas/Order" }, "201") },
    },
    "/orders/{id}": {
      parameters: [{ name: "id", in: "path", required: true, schema: { type: "integer" } }],
      get: { responses: answers({ $ref: "#/components/schemas/Order" }) },
    },
    "/orders/mine": { get: { responses: answers({ type: "object", additionalProperties: { type: "number" } }) } },
    "/any": { get: { responses: answers({ oneOf: [{ type: "object", properties: { a: {} } }, { type: "string" }] }) } },
  },
  { Order: ORDER },
);

interface Given {
  readonly input?: z.ZodType;
  readonly output?: z.ZodType;
}

function findings(http: HttpTarget["http"], { input = z.object({}), output = z.unknown() }: Given = {}) {
  const { faults, notes } = documentFindings(DOCUMENT, { input, output } as Pick<Tool, "input" | "output">, http);
  const line = ({ field, message }: { readonly field: string; readonly message: string }) => `${field}: ${message}`;
  return { faults: faults.map(line), notes: notes.map(line) };
}

const LIST = {
  method: "GET",
  path: "/orders",
  query: { state: "{state}" },
  headers: { "x-tenant": "acme" },
} as const satisfies HttpTarget["http"];
const STATE = { state: z.enum(["open", "sent"]) };
const CREATE = { method: "POST", path: "/orders", body: { id: "{id}", state: "{state}" } } as const;
const FIELDS = { id: z.string(), ...STATE };

describe("a manifest that fits its document", () => {
  test.each<readonly [string, HttpTarget["http"], Given]>([
    ["a list", LIST, { input: z.object(STATE), output: z.array(z.object({ id: z.string(), total: z.number() })) }],
    [
      "a list with members of an object",
      { ...LIST, query: { ...LIST.query, "filter[a]": "1" } },
      { input: z.object(STATE) },
    ],
    ["a body of texts", CREATE, { input: z.object(FIELDS) }],
    [
      "a body of all arguments",
      { ...CREATE, body: "{*}" },
      { input: z.object({ ...FIELDS, note: z.string().nullable() }) },
    ],
    ["a body that is one argument", { ...CREATE, body: "{order}" }, { input: z.object({ order: z.object(FIELDS) }) }],
    ["a parameter of the path", { method: "GET", path: "/orders/{order}" }, { input: z.object({ order: z.int() }) }],
    [
      "a path before one with a parameter",
      { method: "GET", path: "/orders/mine" },
      { output: z.record(z.string(), z.number()) },
    ],
    ["a fixed parameter", { method: "GET", path: "/orders/7" }, { output: z.object({ id: z.string() }) }],
    [
      "nested fields, and recursion",
      { method: "GET", path: "/orders/7" },
      {
        output: z.object({
          lines: z.array(z.object({ sku: z.string() })),
          parent: z.object({ parent: z.object({ buyer: z.object({ email: z.string() }) }) }),
        }),
      },
    ],
    [
      "one of several answers",
      { method: "GET", path: "/any" },
      { output: z.union([z.object({ a: z.unknown() }), z.string()]) },
    ],
  ])("%s: has no findings", (_, http, given) => {
    expect(findings(http, given)).toEqual({ faults: [], notes: [] });
  });
});

describe("a manifest that does not fit its document", () => {
  test.each<readonly [string, HttpTarget["http"], Given, readonly string[]]>([
    [
      "unknown path",
      { method: "GET", path: "/order" },
      {},
      ["target.http.path: is not a path of the document, which has 4; did you mean /orders?"],
    ],
    [
      "unknown method",
      { method: "DELETE", path: "/orders" },
      {},
      ["target.http.method: DELETE is no method of this path in the document; it has GET, POST"],
    ],
    [
      "unknown and missing query parameters",
      { ...LIST, query: { limitt: "1" } },
      {},
      [
        "target.http.query.limitt: the operation has no such parameter; it has limit, state, filter; did you mean limit?",
        "target.http.query: lacks state, which the operation requires",
      ],
    ],
    [
      "a missing header",
      { ...LIST, headers: {} },
      { input: z.object(STATE) },
      ["target.http.headers: lacks x-tenant, which the operation requires"],
    ],
    [
      "a required parameter from an optional argument",
      LIST,
      { input: z.object({ state: STATE.state.optional() }) },
      ["input.state: is optional here, and the operation requires it"],
    ],
    [
      "a required body from an optional argument",
      { ...CREATE, body: "{order}" },
      { input: z.object({ order: z.object(FIELDS).optional() }) },
      ["input.order: is optional here, and the operation requires it"],
    ],
    [
      "a parameter of another type",
      { ...LIST, query: { ...LIST.query, limit: "{limit}" } },
      { input: z.object({ ...STATE, limit: z.string() }) },
      ["input.limit: is string here, and number in the document"],
    ],
    [
      "a parameter of the path of another type",
      { method: "GET", path: "/orders/{order}" },
      { input: z.object({ order: z.uuid() }) },
      ["input.order: is string here, and number in the document"],
    ],
    [
      "a value that the document does not have",
      LIST,
      { input: z.object({ state: z.enum(["open", "snt"]) }) },
      ["input.state: the document has no value snt; it has open, sent; did you mean sent?"],
    ],
    [
      "fields of the body",
      { ...CREATE, body: { id: "{id}", stat: "open", total: "{id}", etag: "1" } },
      { input: z.object({ id: z.string() }) },
      [
        "target.http.body.stat: the document has no such field; it has id, state, total, buyer, lines, note, parent, secret; did you mean state?",
        "input.id: is string here, and number in the document",
        "target.http.body.etag: the document has no such field; it has id, state, total, buyer, lines, note, parent, secret",
        "target.http.body: lacks state, which the operation requires",
      ],
    ],
    [
      "fields of all arguments",
      { ...CREATE, body: "{*}" },
      { input: z.object({ id: z.string(), sate: z.string(), buyer: z.object({ mail: z.string() }) }) },
      [
        "input.sate: the document has no such field; it has id, state, total, buyer, lines, note, parent, secret; did you mean state?",
        "input.buyer.mail: the document has no such field; it has email; did you mean email?",
        "target.http.body: lacks state, which the operation requires",
      ],
    ],
    [
      "a body that is missing",
      { method: "POST", path: "/orders" },
      {},
      ["target.http.body: is missing: the operation requires a body"],
    ],
    [
      "a body of another type",
      { ...CREATE, contentType: "text/plain", body: "x" },
      {},
      ["target.http.contentType: the operation does not take text/plain; it takes application/json"],
    ],
    [
      "fields of the output",
      { method: "GET", path: "/orders/7" },
      {
        output: z.object({
          identifier: z.string(),
          total: z.string(),
          totl: z.number().optional(),
          secret: z.string(),
          lines: z.object({}),
          state: z.enum(["closed"]),
          buyer: z.object({ emial: z.string() }),
        }),
      },
      [
        "output.identifier: no answer has this field; they have id, state, total, buyer, lines, note, parent, etag",
        "output.total: is string here, and number in the document",
        "output.secret: no answer has this field; they have id, state, total, buyer, lines, note, parent, etag",
        "output.lines: is object here, and list in the document",
        "output.state: accepts no value of the document, which has open, sent",
        "output.buyer.emial: no answer has this field; they have email; did you mean email?",
      ],
    ],
  ])("%s: is refused with the name that was probably meant", (_, http, given, faults) => {
    expect(findings(http, given).faults).toEqual([...faults]);
  });

  test("an optional field that a later answer may have, and a value that would be withheld, are notes", () => {
    const output = z.object({ weight: z.number().optional(), state: z.enum(["open"]) });
    expect(findings({ method: "GET", path: "/orders/7" }, { output })).toEqual({
      faults: [],
      notes: [
        "output.weight: no answer has this field; they have id, state, total, buyer, lines, note, parent, etag",
        "output.state: an answer with sent would be withheld: the output schema does not accept it",
      ],
    });
  });
});

test("a body where the operation takes none is refused", () => {
  const document = apiOf({ "/a": { post: { responses: {} } } });
  const tool = { input: z.object({}), output: z.unknown() };
  const { faults } = documentFindings(document, tool, { method: "POST", path: "/a", body: {} });
  expect(faults).toEqual([{ field: "target.http.body", message: "the operation takes no body" }]);
});

test("a document that cannot be followed is a fault of the tools that need that part", () => {
  const document = apiOf({ "/a": { get: { parameters: [{ $ref: "https://x.example/p" }] } }, "/b": { get: {} } });
  const tool = { input: z.object({}), output: z.unknown() };
  expect(documentFindings(document, tool, { method: "GET", path: "/b" }).faults).toEqual([]);
  const [fault] = documentFindings(document, tool, { method: "GET", path: "/a" }).faults;
  expect(fault?.message).toContain(
    "the document is not usable here: the reference https://x.example/p leaves this machine",
  );
});

test("the report names each document's digest, and a base URL with another path", () => {
  const contracts = new ApiContracts();
  const file = { openapi: "3.1.0", servers: [{ url: "https://api.example/v2/" }], paths: { "/a": { get: {} } } };
  const readFile = () => Buffer.from(JSON.stringify(file));
  contracts.add("shop", "/api.json", { readFile, baseUrl: new URL("https://shop.internal/") });
  const tool = {
    name: "a",
    input: z.object({}),
    output: z.unknown(),
    target: { system: "shop", http: { method: "GET", path: "/b" } },
  };
  expect(() => contracts.check(tool as unknown as Tool)).toThrow(ManifestError);
  const { contracts: states, notes } = contracts.report();
  expect(states).toEqual([
    { system: "shop", origin: "openapi", sha256: expect.stringMatching(/^[0-9a-f]{64}$/), isPinned: true },
  ]);
  expect(notes).toEqual([
    "systems.shop.http.baseUrl: its path is /, and that of the document's servers /v2: requests go to baseUrl",
  ]);
});
