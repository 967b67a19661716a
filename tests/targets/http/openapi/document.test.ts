import { describe, expect, test } from "bun:test";
import { answers, apiOf, documentOf } from "./support.ts";

const GET = { get: { operationId: "a", responses: answers({ type: "object" }) } };

describe("an OpenAPI document", () => {
  test.each([
    ["3.0 in JSON", JSON.stringify({ openapi: "3.0.3", paths: { "/a": GET } })],
    ["3.1 in JSON", JSON.stringify({ openapi: "3.1.0", paths: { "/a": GET } })],
    ["3.0 in YAML", "openapi: 3.0.0\npaths:\n  /a:\n    get: { operationId: a }\n"],
    [
      "3.0 with bounds of 64 bits",
      `{"openapi":"3.0.3","x":[9223372036854775807],"paths":{"/a":${JSON.stringify(GET)}}}`,
    ],
    ["3.0 with a tag of YAML itself", "openapi: !!str 3.0.0\npaths:\n  /a:\n    get: { operationId: a }\n"],
    ["3.0 in flow style", "{openapi: 3.0.0, paths: {/a: {get: {operationId: a}}}}"],
    ["3.1 as a number", "openapi: 3.1\npaths:\n  /a:\n    get: { operationId: a }\n"],
    ["3.0 as a number", "openapi: 3.0\npaths:\n  /a:\n    get: { operationId: a }\n"],
    ["3.0 with a name << in JSON", JSON.stringify({ openapi: "3.0.3", paths: { "/a": GET }, x: { "<<": {} } })],
    ["3.0 with a name << in quotes", 'openapi: 3.0.0\nx: { "<<": {} }\npaths:\n  /a:\n    get: { operationId: a }\n'],
    ["3.1 in YAML with anchors", "openapi: 3.1.1\nx: &op { operationId: a }\npaths:\n  /a:\n    get: *op\n"],
  ])("of version %s is read", (_, text) => {
    const { operations } = documentOf({ "api.yaml": text });
    expect(operations.map(({ method, path, id }) => [method, path, id])).toEqual([["GET", "/a", "a"]]);
  });

  test.each<readonly [string, unknown, string]>([
    ["of version 3.2", { openapi: "3.2.0" }, "openapi: must be 3.0 or 3.1, got 3.2.0"],
    ["of version 2.0", { swagger: "2.0" }, "is a Swagger 2.0 document: convert it to OpenAPI 3.0 or 3.1"],
    ["without a version", {}, "is not an OpenAPI document: openapi is missing"],
    ["that is a list", "- a", "must be a table: openapi, paths, …"],
    ["with a merge key", "openapi: 3.0.0\na: &a { b: 1 }\nc:\n  <<: *a\n", "has a YAML merge key (<<)"],
    [
      "with a key __proto__",
      '{"openapi":"3.0.0","__proto__":{"paths":{}}}',
      "is not JSON that can be used: the key __proto__",
    ],
    ["with a key __proto__ in YAML", "openapi: 3.0.0\n__proto__: {}\n", "has a key __proto__"],
    [
      "with a key twice in JSON",
      '{"openapi":"3.0.0","paths":{"/a":{"get":{"x":1,"x":2}}}}',
      'is not JSON that can be used: duplicate key (in paths["/a"].get.x)',
    ],
    [
      "with a tag of a program",
      "openapi: 3.0.0\nx: !!js/function 'a'\n",
      "Unresolved tag: tag:yaml.org,2002:js/function",
    ],
    ["with a tag of its own", "openapi: 3.0.0\nx: !secret a\n", "Unresolved tag: !secret"],
    ["of version 4", "openapi: 4\n", "openapi: must be 3.0 or 3.1, got 4"],
    ["with a key twice", "openapi: 3.0.0\npaths: {}\npaths: {}\n", "is not valid YAML: Map keys must be unique"],
    ["with an alias bomb", bomb(), "is not usable YAML: Excessive alias count"],
    ["nested too deeply", `{"openapi":"3.0.0","x":${"[".repeat(500)}${"]".repeat(500)}}`, "is nested more than 128"],
    ["nested far too deeply", `{"a":${"[".repeat(200_000)}${"]".repeat(200_000)}}`, "is "],
    ["with paths as a list", { openapi: "3.0.0", paths: [] }, "paths: must be a table"],
    ["that is not UTF-8", Buffer.from([0x7b, 0xff]), "must be UTF-8"],
  ])("%s is refused with the reason", (_, text, message) => {
    expect(() => documentOf({ "api.json": text })).toThrow(message);
  });

  test("that is missing is refused without its path", () => {
    expect(() => documentOf({ "api.json": undefined })).toThrow("it cannot be read (ENOENT)");
  });
});

function bomb(): string {
  const lines = ["openapi: 3.0.0", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"];
  for (let at = 1; at < 12; at += 1)
    lines.push(
      `a${at}: &a${at} [${Array(10)
        .fill(`*a${at - 1}`)
        .join(", ")}]`,
    );
  return `${lines.join("\n")}\n`;
}

describe("a reference", () => {
  const withRef = (reference: string, files: Readonly<Record<string, unknown>> = {}) =>
    documentOf({
      "api.json": {
        openapi: "3.0.0",
        paths: { "/a": { get: { parameters: [{ $ref: reference }] } } },
        components: {
          parameters: { "a/b~c": { name: "x", in: "query" }, loop: { $ref: "#/components/parameters/loop" } },
        },
      },
      ...files,
    }).operations[0];

  test("inside the document, with escapes, is followed", () => {
    expect(withRef("#/components/parameters/a~1b~0c")?.parameters()[0]?.name).toBe("x");
  });

  test("through a chain of references is followed to its end", () => {
    const links = Object.fromEntries(
      Array.from({ length: 100 }, (_, index) => [`p${index}`, { $ref: `#/components/parameters/p${index + 1}` }]),
    );
    const parameters = { ...links, p100: { name: "end", in: "query" } };
    const paths = { "/a": { get: { parameters: [{ $ref: "#/components/parameters/p0" }] } } };
    const document = documentOf({ "api.json": { openapi: "3.0.0", paths, components: { parameters } } });
    expect(document.operations[0]?.parameters()[0]?.name).toBe("end");
  });

  test("to a file next to the document is followed, and so are the file's own", () => {
    const files = { "parts/one.json": { p: { $ref: "two.yaml#/p" } }, "parts/two.yaml": "p: { name: y, in: query }\n" };
    expect(withRef("parts/one.json#/p", files)?.parameters()[0]?.name).toBe("y");
  });

  test.each([
    ["https://evil.example/a.json#/p", "leaves this machine: only files in the document's folder are read"],
    ["//evil.example/a.json", "leaves this machine"],
    ["file:///etc/passwd", "leaves this machine"],
    ["FILE:///etc/passwd", "leaves this machine"],
    ["C:\\secrets.json", "leaves this machine"],
    ["/etc/passwd", "leaves the document's folder"],
    ["../secrets.json", "leaves the document's folder"],
    ["parts/../../secrets.json", "leaves the document's folder"],
    ["%2e%2e/secrets.json", "leaves the document's folder"],
    ["%2Fetc%2Fpasswd", "leaves the document's folder"],
    ["missing.json", "the file missing.json cannot be read (ENOENT)"],
    ["#/components/parameters/none", "names nothing"],
    ["#/__proto__/x", "names nothing"],
    ["#/constructor", "names nothing"],
    ["#anchor", "is not a JSON pointer"],
    ["#/components/parameters/loop", "leads to itself"],
  ])("%s is refused with the reason", (reference, message) => {
    expect(() => withRef(reference)?.parameters()).toThrow(message);
  });
});

test("the digest covers every file that was read", () => {
  const files = (part: string) => ({
    "api.json": { openapi: "3.0.0", paths: { "/a": { $ref: "part.json" } } },
    "part.json": part,
  });
  const [one, other] = [documentOf(files('{"get":{}}')), documentOf(files('{"get": {}}'))];
  expect(one.sha256).toMatch(/^[0-9a-f]{64}$/);
  expect(one.sha256).not.toBe(other.sha256);
});

test("parameters of an operation replace those of its path", () => {
  const document = apiOf({
    "/a": {
      parameters: [
        { name: "x", in: "query", required: true },
        { name: "x", in: "header" },
      ],
      get: { parameters: [{ name: "x", in: "query" }] },
    },
  });
  const found = document.operations[0]?.parameters().map(({ location, isRequired }) => [location, isRequired]);
  expect(found).toEqual([
    ["query", false],
    ["header", false],
  ]);
});
