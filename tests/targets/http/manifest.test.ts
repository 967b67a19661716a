import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { defineTool, httpRequest, ManifestError } from "../../../src/index.ts";
import { httpRequestPart } from "../../../src/targets/http/manifest.ts";

const input = z.strictObject({
  id: z.uuid(),
  slug: z.string().max(40),
  region: z.enum(["eu", "us"]),
  free: z.string(),
  long: z.string().max(5_000),
  maybe: z.string().max(9).optional(),
  list: z.array(z.string().max(9)),
  changed: z
    .string()
    .max(9)
    .transform((text) => `${text}/..`),
  both: z.union([z.int(), z.string().max(3)]),
});

type Request = Parameters<typeof httpRequest>[1];

function faultsOf(http: unknown, classification: "read" | "write" = "write"): readonly string[] {
  try {
    defineTool({
      ...{ name: "x_tool", description: "Changes an order", classification },
      permissions: { required: ["orders:write"] },
      input,
      target: httpRequest("orders", http as Request),
      output: z.strictObject({ ok: z.boolean() }),
      outputPolicy: { ok: "allow" },
    });
    return [];
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    return error.faults.map(({ field, message }) => `${field} ${message}`);
  }
}

const GOOD = { method: "POST", path: "/orders/{id}" } as const;

describe("a request that loads", () => {
  test.each([
    [GOOD],
    [{ method: "GET", path: "/" }],
    [{ method: "GET", path: "/{slug}.json" }],
    [{ method: "GET", path: "/{region}/{both}:verb" }],
    [{ ...GOOD, query: { "page[size]": "{maybe}", fixed: "1" }, headers: { "x-tenant": "{slug}", "if-match": "*" } }],
    [{ ...GOOD, body: { a: "{free}", b: ["{list}"], c: 1, d: null }, contentType: "application/merge-patch+json" }],
    [{ ...GOOD, body: "{*}" }],
    [{ ...GOOD, body: { a: "{free}" }, contentType: "application/x-www-form-urlencoded" }],
    [{ ...GOOD, body: "<{free}>", contentType: "text/plain" }],
    [{ ...GOOD, means: { 202: "OK", 404: "NOT_FOUND", 409: "OK", 410: "NOT_FOUND" } }],
  ])("%j, and editors accept it", (http) => {
    expect(faultsOf(http)).toEqual([]);
    expect(httpRequestPart.safeParse(http).success).toBe(true);
  });
});

describe("a request that does not load", () => {
  test.each([
    [{ ...GOOD, method: "TRACE" }, "target.http.method must be one of GET, HEAD, POST, PUT, PATCH, DELETE"],
    [{ ...GOOD, method: "get" }, "target.http.method must be one of"],
    [{ ...GOOD, path: "orders" }, "target.http.path must be text of at most 1024 characters that begins with /"],
    [{ ...GOOD, path: "https://evil.test/" }, "target.http.path must be text"],
    [{ ...GOOD, path: "//evil.test/x" }, "target.http.path must not contain //"],
    [{ ...GOOD, path: "/a/../b" }, "target.http.path must not contain . or .. as a segment"],
    [{ ...GOOD, path: "/a?b=c" }, "target.http.path must not contain ? or #: write parameters under query"],
    [{ ...GOOD, path: "/a%2fb" }, "target.http.path has characters that must be encoded"],
    [{ ...GOOD, path: "/a\\b" }, "target.http.path has characters that must be encoded"],
    [{ ...GOOD, path: "/a;b" }, "target.http.path has characters that must be encoded"],
    [{ ...GOOD, path: "/a/{id" }, "target.http.path has braces that do not enclose the name of an argument"],
    [{ ...GOOD, path: "/a/{ids}" }, "target.http.path names no argument: {ids}; did you mean id?"],
    [{ ...GOOD, path: "/a/{*}" }, "target.http.path names no argument: {*}"],
    [{ ...GOOD, path: "/a/{free}" }, "input.free is part of the path: write an enum, a bounded format"],
    [{ ...GOOD, path: "/a/{long}" }, "input.long is part of the path: write an enum, a bounded format"],
    [{ ...GOOD, path: "/a/{maybe}" }, "input.maybe is part of the path: it must not be optional"],
    [{ ...GOOD, path: "/a/{list}" }, "input.list is part of the path: it must be text, a number"],
    [{ ...GOOD, path: "/a/{changed}" }, "input.changed is part of the path: write an enum"],
    [{ ...GOOD, query: ["id"] }, "target.http.query must be a table of texts"],
    [{ ...GOOD, query: { a: 1 } }, "target.http.query.a must be text, in which {name} is replaced by an argument"],
    [{ ...GOOD, query: { a: "{nope}" } }, "target.http.query names no argument: {nope}"],
    [{ ...GOOD, headers: { "X-A": "{id}" } }, "target.http.headers.X-A must be a lower-case header name"],
    [{ ...GOOD, headers: { "x-a": "b\r\nc: d" } }, "target.http.headers.x-a must be visible ASCII"],
    [{ ...GOOD, headers: { "x:a": "b" } }, "target.http.headers.x:a must be a lower-case header name"],
    [{ method: "GET", path: "/", body: {} }, "target.http.body a GET request has no body"],
    [{ method: "DELETE", path: "/", body: {} }, "target.http.body a DELETE request has no body"],
    [{ ...GOOD, contentType: "text/plain" }, "target.http.contentType is only for a request with a body"],
    [{ ...GOOD, body: {}, contentType: "application/xml" }, "target.http.contentType must be a JSON type"],
    [{ ...GOOD, body: {}, contentType: "application/json\r\nx: y" }, "target.http.contentType must be a JSON type"],
    [{ ...GOOD, body: { a: "{" } }, "target.http.body must be JSON, in whose texts"],
    [{ ...GOOD, body: { a: () => 1 } }, "target.http.body must be JSON, in whose texts"],
    [{ ...GOOD, body: [], contentType: "text/plain" }, "target.http.body must be one text for text/plain"],
    [
      { ...GOOD, body: { a: { b: 1 } }, contentType: "application/x-www-form-urlencoded" },
      "target.http.body must be a table of texts for a form",
    ],
    [{ ...GOOD, means: { 404: "GONE" } }, "target.http.means.404 must be one of OK, NOT_FOUND"],
    [{ ...GOOD, means: { 200: "NOT_FOUND" } }, "target.http.means.200 is a success: it can only mean OK"],
    [{ ...GOOD, means: { 302: "OK" } }, "target.http.means.302 must be a status from 200 to 299 or from 400 to 499"],
    [{ ...GOOD, means: { 503: "NOT_FOUND" } }, "target.http.means.503 must be a status from 200 to 299"],
    [{ ...GOOD, means: { 401: "NOT_FOUND" } }, "target.http.means.401 concerns the proxy's own credentials"],
    [{ ...GOOD, pth: "/" }, "target.http.pth is unknown; did you mean path?"],
    ["/orders", "target.http must be { method, path, query, headers, body, contentType, graphql, means }"],
  ])("%j", (http, fault) => {
    expect(faultsOf(http).join("\n")).toContain(fault);
  });

  test.each([
    ..."authorization cookie set-cookie host content-length transfer-encoding connection te trailer upgrade".split(" "),
    ..."expect proxy-authorization forwarded x-forwarded-for x-forwarded-host idempotency-key traceparent".split(" "),
    ..."tracestate content-type accept-encoding x-http-method-override x-caller-assertion x-caller-sub".split(" "),
    ..."x_caller_assertion x_forwarded_for x.forwarded.host idempotency_key content_length x_real-ip true-client-ip".split(
      " ",
    ),
  ])("the header %s", (name) => {
    expect(faultsOf({ ...GOOD, headers: { [name]: "{slug}" } }).join()).toContain(
      `target.http.headers.${name} is set by`,
    );
  });

  test.each(["PUT", "PATCH", "DELETE"])("%s as a read", (method) => {
    expect(faultsOf({ ...GOOD, method }, "read")).toEqual([
      `target.http.method ${method} is not a read: classify the tool as write or destructive`,
    ]);
    expect(faultsOf({ ...GOOD, method: "POST" }, "read")).toEqual([]);
  });
});
