import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import { Refusal } from "../../../src/core/errors.ts";
import type { HttpTarget } from "../../../src/core/types.ts";
import { fieldsOf, patternsOf } from "../../../src/targets/http/manifest.ts";
import { RequestBuilder } from "../../../src/targets/http/request.ts";
import { refusal } from "./support.ts";

const ORIGIN = "https://api.test";

function builderOf(http: Partial<HttpTarget["http"]>, input = z.object({})): RequestBuilder {
  const fields = fieldsOf(input);
  return new RequestBuilder({
    baseUrl: new URL(`${ORIGIN}/v1/`),
    http: { method: "GET", path: "/", ...http },
    patternsOf: (name) => (fields[name] === undefined ? [] : patternsOf(fields[name])),
  });
}

describe("a path parameter", () => {
  const plain = builderOf({ path: "/a/{id}/b" });

  test.each([
    ["x", "/v1/a/x/b"],
    ["ä b", "/v1/a/%C3%A4%20b/b"],
    ["a'(b)*!", "/v1/a/a%27%28b%29%2A%21/b"],
    ["a:b@c,d=e&f+g", "/v1/a/a%3Ab%40c%2Cd%3De%26f%2Bg/b"],
    ["...", "/v1/a/.../b"],
    [".a", "/v1/a/.a/b"],
    [42, "/v1/a/42/b"],
    [true, "/v1/a/true/b"],
  ])("%j becomes one segment", (id, path) => {
    expect(plain.build({ id }).url).toBe(`${ORIGIN}${path}`);
  });

  test.each([
    ["", "must not be empty"],
    [".", "must not be . or .."],
    ["..", "must not be . or .."],
    ["%2e", "must not contain %"],
    ["a/b", "must not contain /"],
    ["../x", "must not contain /"],
    ["a\\b", "must not contain \\"],
    ["a%2fb", "must not contain %"],
    ["a;b", "must not contain ;"],
    ["a?b", "must not contain ?"],
    ["a#b", "must not contain #"],
    ["a\nb", "control characters"],
    ["a\u0000", "control characters"],
    ["a\u0085", "control characters"],
    ["\ud800", "well-formed"],
    [null, "must be text"],
    [undefined, "is missing"],
    [["a"], "must be text"],
    [{}, "must be text"],
    [Number.NaN, "must be text"],
  ])("%j is refused", async (id, message) => {
    const got = await refusal(() => plain.build({ id }));
    expect([got.code, got.message]).toEqual(["INVALID_INPUT", expect.stringContaining(message)]);
    expect(got.details).toEqual({ issues: [{ path: "id", message: expect.stringContaining(message) }] });
  });

  test("a character that the schema's pattern names is sent encoded; dots never are a segment", async () => {
    const named = builderOf({ path: "/a/{id}" }, z.object({ id: z.string().regex(/^[a-z./%]{1,20}$/) }));
    expect(named.build({ id: "a/../b" }).url).toBe(`${ORIGIN}/v1/a/a%2F..%2Fb`);
    expect(named.build({ id: "100%" }).url).toBe(`${ORIGIN}/v1/a/100%25`);
    expect((await refusal(() => named.build({ id: ".." }))).code).toBe("INVALID_INPUT");
    expect((await refusal(() => named.build({ id: "a;b" }))).code).toBe("INVALID_INPUT");
    const anything = builderOf({ path: "/a/{id}" }, z.object({ id: z.string().regex(/^.{1,20}$/) }));
    expect((await refusal(() => anything.build({ id: "a/b" }))).code).toBe("INVALID_INPUT");
  });

  test.each([
    [/^[^/].*$/, "a/../../admin"],
    [/^(?!.*[/]{2}).+$/, "a/b"],
    [/^(?:a)?.+$/, "a?b"],
    [/^\w+.*$/, "a\\b"],
    [/^[[^\/]].*$/v, "a/b"],
    [/^(?=.*#).+$/, "a#b"],
  ] as const)("%p names no character that means something in a path", async (pattern, id) => {
    expect(pattern.test(id)).toBe(true);
    const excluding = builderOf({ path: "/a/{id}" }, z.object({ id: z.string().max(20).regex(pattern) }));
    expect((await refusal(() => excluding.build({ id }))).message).toContain("must not contain");
  });

  test.each([
    [/^[a-z/]+$/, "a/b", "a%2Fb"],
    [/^a\?(?:b|;)$/, "a?;", "a%3F%3B"],
    [/^[\]\\#]+$/, "]\\#", "%5D%5C%23"],
  ] as const)("%p names characters, which are sent encoded", (pattern, id, segment) => {
    const naming = builderOf({ path: "/a/{id}" }, z.object({ id: z.string().max(20).regex(pattern) }));
    expect(naming.build({ id }).url).toBe(`${ORIGIN}/v1/a/${segment}`);
  });

  test("parts of one segment cannot make dots together", async () => {
    const both = builderOf({ path: "/a/{x}{y}/.{z}" });
    expect(both.build({ x: "a.", y: ".b", z: "git" }).url).toBe(`${ORIGIN}/v1/a/a..b/.git`);
    expect((await refusal(() => both.build({ x: "a", y: "b", z: "." }))).code).toBe("INVALID_INPUT");
  });

  test("no text of any kind changes origin, prefix or the number of segments", () => {
    const builder = builderOf(
      { path: "/a/{x}-{y}/c", query: { q: "{q}", [`we"ird&`]: "{x}" } },
      z.object({ x: z.string().regex(/[/%;?#\\]/), y: z.string() }),
    );
    const hostile = fc.oneof(
      fc.string({ unit: "grapheme" }),
      fc.string({ unit: fc.constantFrom(...`./\\%25;?#@:&=+ \r\n\t\u0000é`) }),
      fc.constantFrom("..", "//evil.test", "@evil.test", "%2e%2e", "\\\\evil", "?x", "#x", "http://evil.test"),
    );
    const property = fc.property(hostile, hostile, hostile, (x, y, q) => {
      let url: URL;
      try {
        url = new URL(builder.build({ x, y, q }).url);
      } catch (error) {
        return error instanceof Refusal && error.code === "INVALID_INPUT";
      }
      const segments = url.pathname.split("/");
      return (
        url.origin === ORIGIN &&
        segments.length === 5 &&
        url.pathname.startsWith("/v1/a/") &&
        url.pathname.endsWith("/c") &&
        decodeURIComponent(segments[3] ?? "") === `${x}-${y}` &&
        url.searchParams.get("q") === q &&
        [...url.searchParams].length === 2
      );
    });
    fc.assert(property, { numRuns: 1_000 });
  });
});

describe("a header parameter", () => {
  const builder = builderOf({ headers: { "x-a": "{a}", "x-b": "v={b};w" } });

  test.each([
    [
      { a: "x y", b: "1" },
      { "x-a": "x y", "x-b": "v=1;w" },
    ],
    [{ b: 2 }, { "x-b": "v=2;w" }],
    [{ a: null, b: 2 }, { "x-b": "v=2;w" }],
  ])("%j", (args, headers) => {
    expect(builder.build(args).headers).toEqual(headers);
  });

  test.each(["a\r\nx-evil: 1", "a\nb", "a\u0000", "é", "", " a", "a ", "a\tb", "\u2028", "x".repeat(5_000)])(
    "%j is refused",
    async (a) => {
      const got = await refusal(() => builder.build({ a, b: "1" }));
      expect([got.code, got.details]).toMatchObject(["INVALID_INPUT", { issues: [{ path: "a" }] }]);
    },
  );

  test("a list, and a missing part of a text, are refused", async () => {
    expect((await refusal(() => builder.build({ a: ["x", "y"], b: "1" }))).code).toBe("INVALID_INPUT");
    expect((await refusal(() => builder.build({ a: "x" }))).details).toEqual({
      issues: [{ path: "b", message: "is missing" }],
    });
  });
});

describe("a query", () => {
  const builder = builderOf({ query: { "page[size]": "{size}", q: "{q}", on: "1" } });

  test.each([
    [{}, "?on=1"],
    [{ size: 5, q: "a&b=c#d?e+f g%" }, "?page%5Bsize%5D=5&q=a%26b%3Dc%23d%3Fe%2Bf%20g%25&on=1"],
    [{ q: ["a", "b"] }, "?q=a&q=b&on=1"],
    [{ q: [] }, "?on=1"],
    [{ q: "\n\u0000" }, "?q=%0A%00&on=1"],
  ])("%j", (args, query) => {
    expect(builder.build(args).url).toBe(`${ORIGIN}/v1/${query}`);
  });

  test("objects, lone surrogates and URLs without end are refused", async () => {
    for (const q of [{ a: 1 }, [{}], "\udc00", "x".repeat(9_000)]) {
      expect((await refusal(() => builder.build({ q }))).code).toBe("INVALID_INPUT");
    }
  });
});

describe("a body", () => {
  const builder = builderOf({ method: "POST", body: { a: "{a}", rest: "{*}", list: ["{a}", "{none}", 1] } });

  test("that is one missing argument is not sent", () => {
    const whole = builderOf({ method: "POST", body: "{a}" });
    expect([whole.build({}).body, whole.build({ a: null }).body, whole.build({ a: [] }).body]).toEqual([
      undefined,
      null,
      [],
    ]);
  });

  test("holds values as JSON, leaves missing ones out, and cannot be broken out of", () => {
    const a = '","admin":true,"x":"';
    expect(builder.build({ a, b: { c: [null, 1.5, { d: undefined }] }, at: new Date(0) }).body).toEqual({
      a,
      rest: { b: { c: [null, 1.5, {}] }, at: "1970-01-01T00:00:00.000Z" },
      list: [a, 1],
    });
  });

  test.each([[() => 1], [1n], [new Map()], [Number.NaN], ["\ud800"], [new (class X {})()]])(
    "a value that is not JSON is refused: %p",
    async (b) => {
      expect((await refusal(() => builder.build({ a: 1, b }))).details).toMatchObject({ issues: [{ path: "b" }] });
    },
  );
});
