import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { sha256Hex } from "../../../../src/core/digest.ts";
import { Refusal } from "../../../../src/core/errors.ts";
import type { Binding } from "../../../../src/core/types.ts";
import { RESILIENCE_DEFAULTS } from "../../../../src/egress/resilience.ts";
import { findings } from "../../../../src/targets/http/graphql/contracts.ts";
import type { HttpHandler } from "../../../../src/targets/http/handler.ts";
import { call, handlerOf, httpSystem, refusal } from "../support.ts";
import { answered, type GraphqlBody, type GraphqlToolOptions, graphqlTool, schema } from "./support.ts";

const CANARY = "SELECT … pw='canary-7f3a' failed";
const ANN = { id: "7", name: "Ann", email: "ann@example.com" };

/** Values that the shop's resolvers return. */
const SHOP_ROOT = {
  order: ({ id }: { id: string }) => {
    if (id === "gone") return null;
    const secret = () => {
      throw Object.assign(new Error(CANARY), { extensions: { code: "canary-code", stack: CANARY } });
    };
    return { id, status: "OPEN", total: 12.5, customer: ANN, secret };
  },
  orders: () => [1, 2].map((id) => ({ id, status: "OPEN", total: 1, secret: () => Promise.reject(new Error(CANARY)) })),
  customer: () => ANN,
  cancelOrder: ({ id }: { id: string }) => {
    if (id === "fails") throw new Error(CANARY);
    return { ...SHOP_ROOT.order({ id }), status: "CANCELLED" };
  },
  deleteOrder: ({ id }: { id: string }) => {
    if (id === "fails") throw new Error(CANARY);
    return true;
  },
  version: () => "1",
};

interface Seen {
  readonly method: string;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
}

let server: Bun.Server<undefined>;
let handler: HttpHandler;
const seen: Seen[] = [];
/** Answers the next requests instead of the shop. */
let instead: ((body: Record<string, unknown>) => Response | undefined) | undefined;

beforeAll(() => {
  server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const body = (await request.json()) as GraphqlBody & Record<string, unknown>;
      seen.push({ method: request.method, headers: request.headers, body });
      const other = instead?.(body);
      if (other !== undefined) return other;
      const answer = await answered(body, SHOP_ROOT);
      const extensions = { trace: CANARY };
      return Response.json(
        { ...answer, extensions },
        { headers: { "content-type": "application/graphql-response+json" } },
      );
    },
  });
  const { port = 0 } = server;
  const resilience = { ...RESILIENCE_DEFAULTS, retries: 0 };
  handler = handlerOf(
    httpSystem(port, { baseUrl: new URL(`http://api.test:${port}`), resilience, answerBytesMax: 3_000_000 }),
  );
});
afterAll(async () => {
  await handler.close();
  await server.stop(true);
});

function bound(options: GraphqlToolOptions): Binding {
  const tool = graphqlTool(options);
  if (!("http" in tool.target)) throw new Error("not an HTTP tool");
  const found = findings(schema, tool, tool.target.http, { fields: {}, scalars: {} });
  expect(found.faults).toEqual([]);
  return handler.bind(tool, found.operation);
}

const input = z.strictObject({ id: z.string() });
const variables = { id: "{id}" };
const order = (changes: Partial<GraphqlToolOptions> = {}) =>
  bound({
    document: "query OrderGet($id: ID!) { order(id: $id) { id total } }",
    ...{ variables, input, output: z.object({}) },
    ...changes,
  });
const withSecret = (changes: Partial<GraphqlToolOptions> = {}) =>
  order({ document: "query OrderSecret($id: ID!) { order(id: $id) { id secret } }", ...changes });
const cancelled = (changes: Partial<GraphqlToolOptions> = {}) =>
  order({
    document: "mutation OrderCancel($id: ID!) { cancelOrder(id: $id) { id status secret } }",
    classification: "destructive",
    ...changes,
  });
const partial = {
  partial: "allow",
  output: z.object({ errorPaths: z.array(z.string()).optional() }),
  outputPolicy: { "errorPaths[]": "allow" },
} as const;

/** Calls a tool whose service answers this. */
async function answering(binding: Binding, body: unknown, init: ResponseInit = {}): Promise<unknown> {
  instead = () =>
    typeof body === "string"
      ? new Response(body, { headers: { "content-type": "application/json" }, ...init })
      : Response.json(body, init);
  try {
    return await call(binding, { id: "7" });
  } finally {
    instead = undefined;
  }
}

/** Returns code, status and HTTP status of a refusal in which nothing of the service's texts is. */
async function refused(work: () => Promise<unknown>): Promise<readonly unknown[]> {
  const { code, message, details, cause } = await refusal(work);
  expect(JSON.stringify([message, details, cause])).not.toContain("canary");
  return [code, details?.["status"], details?.["httpStatus"]];
}

describe("a request", () => {
  test("is the document as it is written, its operation's name, and the variables", async () => {
    const document = "query OrderGet($id: ID!) {\n  order(id: $id) { id total }\n}";
    expect(await call(order({ document }), { id: '7"} evil { x' })).toEqual({
      order: { id: '7"} evil { x', total: 12.5 },
    });
    const { method, headers, body } = seen.at(-1) as Seen;
    expect([method, body]).toEqual([
      "POST",
      { operationName: "OrderGet", query: document, variables: { id: '7"} evil { x' } },
    ]);
    expect([headers.get("content-type"), headers.get("accept")]).toEqual([
      "application/json",
      "application/graphql-response+json, application/json;q=0.9",
    ]);
  });

  test("leaves out a variable whose argument is missing: the document's default holds", async () => {
    const document = "query Q($first: Int! = 3) { orders(first: $first) { id } }";
    const binding = bound({
      document,
      variables: { first: "{first}" },
      input: z.strictObject({ first: z.int32().optional() }),
      output: z.object({}),
    });
    await call(binding, {});
    expect(seen.at(-1)?.body["variables"]).toEqual({});
    await call(binding, { first: 2 });
    expect(seen.at(-1)?.body["variables"]).toEqual({ first: 2 });
  });

  test("shows operation, digest and variables in its plan, and in one line", async () => {
    const sha256 = sha256Hex("mutation OrderCancel($id: ID!) { cancelOrder(id: $id) { id status secret } }");
    const binding = cancelled();
    const plan = await binding.plan({ id: "7" }, { signal: AbortSignal.timeout(1_000) });
    expect(plan).toMatchObject({
      ...{
        kind: "http",
        method: "POST",
        operation: "mutation OrderCancel",
        documentSha256: sha256,
      },
      body: { operationName: "OrderCancel", variables: { id: "7" } },
    });
    expect(binding.headline?.(plan)).toEqual({ does: "mutation OrderCancel", what: 'id: "7"' });
    expect(binding.fixedParts?.(plan)).toMatchObject({
      operation: "mutation OrderCancel",
      documentSha256: sha256,
    });
    expect(order().classificationDoubt?.()).toBeUndefined();
    const version = bound({ document: "query Version { version }", input: z.strictObject({}), output: z.object({}) });
    expect(version.headline?.(await version.plan({}, { signal: AbortSignal.timeout(1_000) }))).toEqual({
      ...{ does: "query Version", what: "without variables" },
    });
  });
});

describe("an answer", () => {
  test("is its data, never its extensions", async () => {
    expect(await call(order(), { id: "7" })).toEqual({ order: { id: "7", total: 12.5 } });
    expect(await call(order(), { id: "gone" })).toEqual({ order: null });
  });

  test("of a query with errors is refused, and what it says is withheld", async () => {
    expect(await refused(() => call(withSecret(), { id: "7" }))).toEqual(["TARGET_REFUSED", "UNKNOWN", 200]);
    const { message, cause } = await refusal(() => call(withSecret(), { id: "7" }));
    expect(message).toBe("The service answered with errors, so that its answer was withheld: it may be incomplete.");
    expect(cause).toMatchObject({ because: "GraphQL errors: 1, at order.secret", textLength: CANARY.length });
  });

  test("with errors has messages, and no extensions, where the manifest releases error texts", async () => {
    const found = await refusal(() => call(withSecret({ errors: "filtered" }), { id: "7" }));
    expect(Refusal.targetTextOf(found)).toBe(CANARY);
    expect(Refusal.targetTextOf(await refusal(() => call(withSecret(), { id: "7" })))).toBeUndefined();
    const body = { errors: [{ message: "no" }], extensions: { canary: 1 } };
    const failed = await refusal(() => answering(withSecret({ errors: "filtered" }), body, { status: 400 }));
    expect(Refusal.targetTextOf(failed)).toBe("no");
  });

  test("with errors is its data with their paths, where the manifest accepts that", async () => {
    expect(await call(withSecret(partial), { id: "7" })).toEqual({
      order: { id: "7", secret: null },
      errorPaths: ["order.secret"],
    });
    const list = bound({ document: "query Q { orders { id secret } }", input: z.strictObject({}), ...partial });
    expect(await call(list, {})).toMatchObject({ errorPaths: ["orders[0].secret", "orders[1].secret"] });
    // Without errors, there is no such member, whatever the service sends.
    expect(await answering(withSecret(partial), { data: { order: null, errorPaths: ["canary"] } })).toEqual({
      order: null,
    });
  });

  test.each([
    ["no path", [{ message: CANARY }]],
    ["a path that the document does not have", [{ message: CANARY, path: ["canary"] }]],
    ["a path with an index where no list is", [{ message: CANARY, path: ["order", 0, "secret"] }]],
    ["a path that is text", [{ message: CANARY, path: "order.secret" }]],
    ["one path of two", [{ path: ["order", "secret"] }, { path: [] }]],
    ["an error that is text", [CANARY]],
  ])("whose errors have %s says not what is missing, and is refused", async (_, errors) => {
    const body = { data: { order: { id: "7", secret: null } }, errors };
    expect(await refused(() => answering(withSecret(partial), body))).toEqual(["TARGET_REFUSED", "UNKNOWN", 200]);
  });

  test("without data is refused even where partial data is accepted", async () => {
    const errors = [{ message: CANARY, path: ["order"] }];
    expect(await refused(() => answering(withSecret(partial), { errors }))).toEqual([
      "TARGET_REFUSED",
      "INVALID_ARGUMENT",
      200,
    ]);
    expect(await refused(() => answering(withSecret(partial), { data: null, errors }))).toEqual([
      "TARGET_REFUSED",
      "UNKNOWN",
      200,
    ]);
  });

  test.each([
    ["a batch", [{ data: { order: null } }]],
    ["empty", {}],
    ["null as data", { data: null }],
    ["a list as data", { data: [] }],
    ["text as data", { data: "canary" }],
    ["errors that are no list", { data: { order: null }, errors: "canary" }],
    ["the first part of several", { data: { order: null }, hasNext: true }],
    ["another operation's", { data: { customer: null } }],
    ["two lists of errors", '{"data":{"order":null},"errors":[{"message":"canary"}],"errors":[]}'],
    ["not JSON", "<html>canary</html>"],
    ["a duplicate key", '{"data":{"order":null},"data":{"order":null}}'],
    ["too deep", `{"data":{"order":${"[".repeat(300)}${"]".repeat(300)}}}`],
    ["a list within a list of two", [[{ data: {} }], {}]],
  ])("that is %s is not read", async (_, body) => {
    expect((await refused(() => answering(order(), body)))[0]).toBe("INVALID_OUTPUT");
  });

  test("of another media type is not read", async () => {
    const headers = { "content-type": "text/plain" };
    expect((await refused(() => answering(order(), '{"data":{"order":null}}', { headers })))[0]).toBe("INVALID_OUTPUT");
    const json = { headers: { "content-type": "application/json; charset=utf-8" } };
    expect(await answering(order(), '{"data":{"order":null}}', json)).toEqual({ order: null });
  });

  test("whose list of errors is empty or null has none", async () => {
    for (const errors of [[], null])
      expect(await answering(order(), { data: { order: null }, errors })).toEqual({ order: null });
  });

  test.each([
    [400, "TARGET_REFUSED", "INVALID_ARGUMENT"],
    [401, "TARGET_FAILED", "UNAUTHENTICATED"],
    [500, "TARGET_UNAVAILABLE", "UNAVAILABLE"],
    [302, "TARGET_FAILED", "UNKNOWN"],
    // Proposed for data with errors: `means: { 294: OK }` accepts it.
    [294, "TARGET_FAILED", "UNKNOWN"],
  ])("of the status %d is %s", async (status, code, name) => {
    const body = { data: { order: null }, errors: [{ message: CANARY }] };
    expect(await refused(() => answering(order(), body, { status }))).toEqual([code, name, status]);
  });

  test("with very many errors is refused, also where partial data is accepted, with a bounded cause", async () => {
    const withErrors = (count: number) => ({
      data: { orders: [] },
      errors: Array.from({ length: count }, (_, at) => ({ message: CANARY, path: ["orders", at, "secret"] })),
    });
    const list = (more: Partial<GraphqlToolOptions> = {}) =>
      bound({ document: "query Q { orders { id secret } }", input: z.strictObject({}), output: z.object({}), ...more });
    const some = (await answering(list(partial), withErrors(1_000))) as { readonly errorPaths: readonly string[] };
    expect([some.errorPaths.length, some.errorPaths[999]]).toEqual([1_000, "orders[999].secret"]);
    for (const binding of [list(), list(partial)]) {
      expect(await refused(() => answering(binding, withErrors(20_000)))).toEqual(["TARGET_REFUSED", "UNKNOWN", 200]);
      const { cause } = await refusal(() => answering(binding, withErrors(20_000)));
      expect(JSON.stringify(cause).length).toBeLessThan(600);
    }
  });
});

describe("a mutation", () => {
  const unknown = ["OUTCOME_UNKNOWN", "UNKNOWN", 200];

  test("that was answered whole is done", async () => {
    const document = "mutation M($id: ID!) { cancelOrder(id: $id) { id status } }";
    expect(await call(cancelled({ document }), { id: "7" })).toEqual({ cancelOrder: { id: "7", status: "CANCELLED" } });
    expect(seen.at(-1)?.headers.get("idempotency-key")).toMatch(/^[0-9a-f-]{36}$/);
  });

  test("that failed may have changed something", async () => {
    expect(await refused(() => call(cancelled(), { id: "fails" }))).toEqual(unknown);
    expect(await refused(() => call(cancelled(partial), { id: "fails" }))).toEqual(unknown);
    const errors = [{ message: CANARY }];
    expect(await refused(() => answering(cancelled(), { data: null, errors }))).toEqual(unknown);
    // Some services leave out data whatever has happened.
    expect(await refused(() => answering(cancelled(), { errors }))).toEqual([
      "OUTCOME_UNKNOWN",
      "INVALID_ARGUMENT",
      200,
    ]);
    expect(await refused(() => answering(cancelled({ idempotent: true }), { data: null, errors }))).toEqual([
      ...["TARGET_FAILED", "UNKNOWN", 200],
    ]);
  });

  test("whose change was answered, with errors below it, is done: the answer is withheld", async () => {
    const found = await refusal(() => call(cancelled(), { id: "7" }));
    expect([found.code, found.message]).toEqual([
      ...["INVALID_OUTPUT", "The change was made, but the service's answer has errors and was withheld."],
    ]);
    expect(found.cause).toEqual({ operation: "OrderCancel", because: "GraphQL errors: 1, at cancelOrder.secret" });
    expect(await call(cancelled(partial), { id: "7" })).toMatchObject({
      cancelOrder: { id: "7", status: "CANCELLED" },
      errorPaths: ["cancelOrder.secret"],
    });
  });

  test("of several changes is unknown when one of them was not answered", async () => {
    const document = 'mutation M($id: ID!) { a: deleteOrder(id: "1") b: deleteOrder(id: $id) }';
    expect(await call(cancelled({ document }), { id: "7" })).toEqual({ a: true, b: true });
    expect(await refused(() => call(cancelled({ document, ...partial }), { id: "fails" }))).toEqual(unknown);
    const left = "mutation M($id: ID!) { a: deleteOrder(id: $id) b: cancelOrder(id: $id) @skip(if: true) { id } }";
    const errors = [{ message: CANARY, path: ["a"] }];
    expect(await answering(cancelled({ document: left, ...partial }), { data: { a: false }, errors })).toEqual({
      a: false,
      errorPaths: ["a"],
    });
  });

  test.each([
    [400, { errors: [{ message: CANARY }] }, "TARGET_REFUSED"],
    [400, { data: null, errors: [{ message: CANARY }] }, "OUTCOME_UNKNOWN"],
    [403, { data: { cancelOrder: null }, errors: [] }, "OUTCOME_UNKNOWN"],
    [403, "<html>", "TARGET_FAILED"],
    [429, { data: null }, "OUTCOME_UNKNOWN"],
    [429, { errors: [{ message: CANARY }] }, "TARGET_UNAVAILABLE"],
    [500, { errors: [{ message: CANARY }] }, "OUTCOME_UNKNOWN"],
    [294, { data: { cancelOrder: null } }, "OUTCOME_UNKNOWN"],
  ])("with the status %d and %j is %3$s", async (status, body, code) => {
    expect((await refused(() => answering(cancelled(), body, { status })))[0]).toBe(code);
  });

  test.each([
    ["a page", "<html>canary</html>"],
    ["a batch", [{ data: { cancelOrder: null } }]],
    ["no data", {}],
    ["null as data", { data: null }],
    ["another operation's data", { data: { deleteOrder: true } }],
    ["the first part of several", { data: { cancelOrder: { id: "7" } }, hasNext: true }],
    ["duplicate data", '{"data":{"cancelOrder":null},"data":{"cancelOrder":null}}'],
    ["more than can be read", { data: { cancelOrder: { id: "x".repeat(3_100_000) } } }],
  ])("whose answer is %s is unknown: 200 alone does not say that the change was made", async (_, body) => {
    expect((await refused(() => answering(cancelled(), body)))[0]).toBe("OUTCOME_UNKNOWN");
  });

  test.each([
    [{ data: { cancelOrder: { id: "7" } }, errors: [{ message: CANARY }] }, 1, "OUTCOME_UNKNOWN"],
    [{ data: null, errors: [{ message: CANARY }] }, 1, "OUTCOME_UNKNOWN"],
    [{ errors: [{ message: CANARY }] }, 2, "TARGET_FAILED"],
  ])("that was executed is not sent again with renewed credentials: %j", async (body, times, code) => {
    const { port = 0 } = server;
    const credentials = { header: async () => ({ authorization: "Bearer x" }), renew: async () => true };
    const other = handlerOf(httpSystem(port, { baseUrl: new URL(`http://api.test:${port}`), credentials }));
    const options: GraphqlToolOptions = {
      ...{ document: "mutation M($id: ID!) { cancelOrder(id: $id) { id } }", variables, input },
      ...{ output: z.object({}), classification: "destructive" },
    };
    const tool = graphqlTool(options);
    if (!("http" in tool.target)) throw new Error("not an HTTP tool");
    const { operation } = findings(schema, tool, tool.target.http, { fields: {}, scalars: {} });
    const before = seen.length;
    expect((await refused(() => answering(other.bind(tool, operation), body, { status: 401 })))[0]).toBe(code);
    expect(seen.length - before).toBe(times);
    await other.close();
  });
});
