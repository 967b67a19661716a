import { describe, expect, test } from "bun:test";
import { posix } from "node:path";
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

const ENCODINGS: readonly ((text: string) => string)[] = [
  (text) => text,
  (text) => encodeURIComponent(text),
  (text) => text.replaceAll(".", "%2e"),
  (text) => text.replace(/[/\\]/g, (separator) => (separator === "/" ? "%2F" : "%5c")),
];

/** How servers read a path: decoded one to three times, with or without `\` as `/`, whole or without parameters, query and fragment. */
const READINGS: readonly ((path: string) => string)[] = [1, 2, 3].flatMap((times) =>
  [/\//g, /[/\\]/g].flatMap((separators) =>
    [/(?!)/g, /;[^/\\]*|[?#].*$/gs].map((ignored) => (path: string) => {
      const decoded = Array.from({ length: times }).reduce((read: string) => unescaped(read), path);
      return decoded.replace(ignored, "").replace(separators, "/");
    }),
  ),
);

function unescaped(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (escapes) => Buffer.from(escapes.replaceAll("%", ""), "hex").toString());
}

/** Returns whether a path has nothing to normalise. */
function isBelow(path: string, folder: string): boolean {
  return posix.normalize(path) === path && path.startsWith(`${folder}/`);
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

  test("a character that the schema's pattern does not name is refused", async () => {
    const named = builderOf({ path: "/a/{id}" }, z.object({ id: z.string().regex(/^[a-z./%]{1,20}$/) }));
    expect(named.build({ id: "100%" }).url).toBe(`${ORIGIN}/v1/a/100%25`);
    expect((await refusal(() => named.build({ id: "a;b" }))).message).toContain("must not contain ;");
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

  describe("whose pattern names every guarded character", () => {
    const named = builderOf({ path: "/docs/{page}" }, z.object({ page: z.string().regex(/^[^a][a]|[/\\%;?#]/) }));

    test.each([
      ["guide/intro", "guide%2Fintro"],
      ["a.b/c..d", "a.b%2Fc..d"],
      [".../..x/.y/z.", "...%2F..x%2F.y%2Fz."],
      ["100%", "100%25"],
      ["50%25 of 2%2B2", "50%2525%20of%202%252B2"],
      ["caf%C3%A9/%e9", "caf%25C3%25A9%2F%25e9"],
      ["%zz/%2", "%25zz%2F%252"],
      ["a;v=1/b;w", "a%3Bv%3D1%2Fb%3Bw"],
      ["#general", "%23general"],
      ["what?/..or", "what%3F%2F..or"],
      ["\u6771\u4eac\uff0f", "%E6%9D%B1%E4%BA%AC%EF%BC%8F"],
      ["to be ... or", "to%20be%20...%20or"],
      ["wait\u2026", "wait%E2%80%A6"],
      ["C:\\docs\\a.txt", "C%3A%5Cdocs%5Ca.txt"],
    ])("%j is sent", (page, sent) => {
      expect(named.build({ page }).url).toBe(`${ORIGIN}/v1/docs/${sent}`);
    });

    test.each([
      ["guide/../../orders"],
      ["guide/./x"],
      ["guide//x"],
      ["/x"],
      ["x/"],
      ["..;x"],
      ["guide/..;a=b/x"],
      [";x"],
      ["a/;x/b"],
      ["..?x"],
      ["a/..#x"],
      ["..\\x"],
      ["a\\\\b"],
      ["%2e%2e/"],
      ["%2E"],
      ["guide%2f..%5c..%2Forders"],
      ["%252e%252e%252f"],
      ["a%3b%2f../b"],
      ["%c0%ae%C0%AE/x"],
      ["%e0%80%ae./x"],
      ["%f0%80%80%ae./x"],
      ["%f8%80%80%80%ae./x"],
      ["%c0%2e%c0%2e/x"],
      ["a%c0%2f../x"],
      ["a/.. /b"],
      ["a/..%20/b"],
      ["\uff0e\uff0e"],
      ["a/..\uff0fb"],
      ["a/%uff0e%uff0e/b"],
      ["a%c0%af../x"],
      ["%u002e%u002E/x"],
      ["a%00"],
      ["a/..%0d/b"],
      ["a%2509b"],
      [`%${"25".repeat(8)}41`],
    ])("%j is refused", async (page) => {
      const got = await refusal(() => named.build({ page }));
      const message = "must not be . or .. in a path, nor contain such a segment or an empty one, also when decoded";
      expect([got.code, got.details]).toEqual(["INVALID_INPUT", { issues: [{ path: "page", message }] }]);
    });

    test("two values of one segment are refused when they hold such a segment together", async () => {
      const both = builderOf(
        { path: "/a/{x}{y}" },
        z.object({ x: z.string().regex(/[/%]/), y: z.string().regex(/[/%]/) }),
      );
      expect(both.build({ x: "b/%2", y: "1/c" }).url).toBe(`${ORIGIN}/v1/a/b%2F%2521%2Fc`);
      const got = await refusal(() => both.build({ x: "b/%2", y: "e/c" }));
      expect(got.details).toEqual({ issues: [{ path: "(path)", message: "do not make a valid path" }] });
    });

    test("a value that is sent stays in its place, however a server reads the path", () => {
      const separator = fc.constantFrom("/", "\\", "//", ";x/", "?x/", "#/");
      const segment = fc.oneof(
        fc.constantFrom(".", "..", "", "...", "a.b", "..a", "intro", "..;v=1", "%", "25", "é"),
        fc.string({ unit: fc.constantFrom(..."./\\%;25cefa"), maxLength: 8 }),
      );
      const text = fc.tuple(segment, fc.array(fc.tuple(separator, segment), { maxLength: 4 }));
      const encodings = fc.array(fc.constantFrom(...ENCODINGS), { maxLength: 2 });
      let sent = 0;
      const property = fc.property(text, encodings, (parts, encodes) => {
        const page = encodes.reduce((value, encode) => encode(value), parts.flat(2).join(""));
        let path: string;
        try {
          path = new URL(named.build({ page }).url).pathname;
        } catch (error) {
          return error instanceof Refusal && error.code === "INVALID_INPUT";
        }
        sent += 1;
        return READINGS.every((reading) => isBelow(reading(path), "/v1/docs"));
      });
      fc.assert(property, { numRuns: 2_000 });
      expect(sent).toBeGreaterThan(100);
    });

    test("ordinary pages are sent, encoded or not", () => {
      const word = fc
        .string({ unit: fc.constantFrom(..."abz019._-é ~"), minLength: 1, maxLength: 8 })
        .map((text) => `${text}x`);
      const page = fc.array(word, { minLength: 1, maxLength: 5 }).map((words) => words.join("/"));
      const property = fc.property(page, fc.constantFrom(...ENCODINGS), (plain, encode) => {
        const { url } = named.build({ page: encode(plain) });
        return url === `${ORIGIN}/v1/docs/${encodeURIComponent(encode(plain))}`;
      });
      fc.assert(property, { numRuns: 500 });
    });
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
