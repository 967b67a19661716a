import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import fc from "fast-check";
import { parseDocument, stringify, type ToStringOptions } from "yaml";
import { namedPaths, ownPaths } from "../../../src/runtime/config/own-paths.ts";
import { tenantConfigs } from "../../../src/runtime/config/tenants.ts";
import { ApiDocument } from "../../../src/targets/http/openapi/document.ts";
import { readConfig } from "../../support/build.ts";
import { ReloadService } from "../../support/reload-service.ts";

const root = realpathSync(mkdtempSync(join(tmpdir(), "stc-own-paths-")));
let folder: string;
let count = 0;
beforeEach(() => {
  count += 1;
  folder = join(root, String(count));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

test("a section that no list names is visited, and so are its entries; names that users choose are no paths", () => {
  const written = {
    tools: ["tools"],
    audit: { dir: "audit" },
    jwt: { issuers: [{ issuer: "https://idp.test", jwksFile: "jwks.json" }] },
    roles: { dir: { permissions: ["a:b"] } },
    bindings: [{ claim: { keyFile: "role.txt", dir: "file:///x" }, role: "dir" }],
    limits: { rates: { tools: { dir: {} } } },
  };
  const config = readConfig(written, { folder: root, environment: {}, origin: "test" });
  const own = (changed: object): readonly string[] =>
    namedPaths({ ...config, ...changed }).map(({ field, path }) => `${field} ${relative(root, path)}`);
  const today = own({});
  expect(today).toEqual([
    "tools[0] tools",
    "audit.dir audit",
    "jwt.issuers[0].jwksFile jwks.json",
    "audit.checkpointKeyFile audit.key",
  ]);
  const toy = { letters: { sealFile: "seal.pem", boxes: [{ store: "sqlite://./box", name: "x" }] } };
  const added = own(toy).filter((each) => !today.includes(each));
  expect(added).toEqual(["letters.sealFile seal.pem", "letters.boxes[0].store box"]);
});

test("agents of the service and of each tenant reach the SQLite file of none", () => {
  const tenants = { claim: "tenant", names: ["acme", "globex"] };
  const config = readConfig(
    {
      tools: ["tools"],
      audit: { dir: "audit" },
      approvals: { store: "sqlite://./var/approvals.sqlite" },
      jwt: { issuers: [{ issuer: "https://idp.test", jwksFile: "jwks.json", tenants }] },
      tenants: { acme: { tools: ["acme"] }, globex: { tools: ["globex"] } },
    },
    { folder: root, environment: {}, origin: "test" },
  );
  const stores = (of: typeof config): readonly string[] =>
    ownPaths(of).flatMap(({ path }) => (path.endsWith(".sqlite") ? [relative(join(root, "var"), path)] : []));
  const files = ["approvals.acme.sqlite", "approvals.globex.sqlite", "approvals.sqlite"];
  for (const each of [config, ...tenantConfigs(config)]) {
    expect([...new Set(stores(each))].toSorted()).toEqual(files);
  }
});

type Files = Readonly<Record<string, string>>;

function write(files: Files): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
}

/** Returns the paths that belong to the document, relative to the configuration's folder. */
function belonging(document: string): readonly string[] {
  const written = {
    tools: ["tools"],
    audit: { dir: "audit" },
    jwt: { issuers: [{ issuer: "https://idp.test", jwksFile: "jwks.json" }] },
    systems: { pets: { http: { baseUrl: "https://pets.test", openapi: document } } },
  };
  const config = readConfig(written, { folder, environment: {}, origin: "test" });
  const named = namedPaths(config).filter(({ field }) => field === "systems.pets.http.openapi");
  return named.map(({ path }) => relative(folder, path)).sort();
}

const JSON_HEAD = '"openapi": "3.0.3", "info": {}';
const YAML_HEAD = "openapi: 3.0.3\ninfo: {}\n";

/** A document whose only operation has one parameter, written as `reference`. */
const json = (reference: string): string =>
  `{ ${JSON_HEAD}, "paths": { "/pets": { "get": { "parameters": [${reference}] } } } }`;
const yaml = (reference: string): string =>
  `${YAML_HEAD}paths:\n  /pets:\n    get:\n      parameters:\n        - ${reference}\n`;

const LIMIT = '{ "limit": { "name": "limit", "in": "query" } }';

const FORMS: readonly (readonly [title: string, document: string, files: Files])[] = [
  ["JSON", json('{ "$ref": "parts.json#/limit" }'), { "parts.json": LIMIT }],
  ["JSON with escaped slashes", json('{ "$ref": "parts\\/a.json#\\/limit" }'), { "parts/a.json": LIMIT }],
  ["JSON with an escaped key", json('{ "\\u0024r\\u0065f": "parts.json#/limit" }'), { "parts.json": LIMIT }],
  ["JSON on one line", json('{"$ref":"parts.json#/limit","x":1}'), { "parts.json": LIMIT }],
  [
    "YAML whose texts mention a reference",
    yaml(`{ description: "see $ref: 'x", $ref: 'parts.yaml#/limit' }`),
    { "parts.yaml": LIMIT },
  ],
  ["YAML", yaml("$ref: ./parts.yaml#/limit"), { "parts.yaml": LIMIT }],
  ["YAML in quotes", yaml("'$ref': 'parts.yaml#/limit'"), { "parts.yaml": LIMIT }],
  ["YAML after a comment", yaml("$ref: #/limit\n            parts.yaml#/limit"), { "parts.yaml": LIMIT }],
  ["folded YAML", yaml("$ref: >-\n            parts.yaml#/limit"), { "parts.yaml": LIMIT }],
  ["YAML with an alias", yaml("{ x: &file 'parts.yaml#/limit', $ref: *file }"), { "parts.yaml": LIMIT }],
  [
    "YAML with an explicit key",
    yaml('? "\\x24re\\\n              f"\n          : parts.yaml#/limit'),
    { "parts.yaml": LIMIT },
  ],
  ["a name with a tilde", json('{ "$ref": "a~1part.json#/limit" }'), { "a~1part.json": LIMIT }],
  ["an encoded name", json('{ "$ref": "a%20part.json#/limit" }'), { "a part.json": LIMIT }],
  [
    "a chain through other folders",
    json('{ "$ref": "deep/one.json#/limit" }'),
    { "deep/one.json": '{ "limit": { "$ref": "../two.yaml#/a" } }', "two.yaml": `a: ${LIMIT.slice(11, -1)}` },
  ],
  [
    "a circle",
    json('{ "$ref": "one.json#/limit" }'),
    {
      "one.json": '{ "limit": { "$ref": "two.json#/limit" }, "x": 1 }',
      "two.json": `{ "x": { "$ref": "one.json#/x" }, ${LIMIT.slice(1)}`,
    },
  ],
];

describe.each(FORMS)("the files that an OpenAPI document refers to in %s", (_, document, files) => {
  test("belong to the service, and are those that its reader reads", () => {
    write({
      "apis/api.txt": document,
      ...Object.fromEntries(Object.entries(files).map(([path, text]) => [`apis/${path}`, text])),
    });
    const own = belonging("apis/api.txt");
    expect(own).toEqual(["apis/api.txt", ...Object.keys(files).map((path) => `apis/${path}`)].sort());
    const read = new Set<string>();
    const opened = ApiDocument.at(join(folder, "apis/api.txt"), (path) => {
      read.add(relative(folder, path));
      return readFileSync(path);
    });
    expect(opened.operations[0]?.parameters()).toMatchObject([{ name: "limit", location: "query" }]);
    expect([...read].sort()).toEqual(own as string[]);
  });
});

test("however a document is written, the files in all its references belong to the service", () => {
  const name = fc.string({ unit: fc.constantFrom(..."ab-_ .'\"$,{}[]&*!|>é/\\~"), minLength: 1, maxLength: 12 });
  const said = fc.oneof(
    name,
    name.map((text) => `$ref: ${text}`),
    name.map((text) => `see $ref: '${text}`),
  );
  const part = fc.oneof(
    name.map((text) => ({ $ref: `./x${text}y.yaml#/a` })),
    fc.record({ description: said, schema: name.map((text) => ({ $ref: `z${text}` })) }),
  );
  const written = fc.oneof(
    fc.constantFrom(undefined, 2).map((indent) => (value: unknown) => JSON.stringify(value, undefined, indent)),
    fc
      .record({
        lineWidth: fc.constantFrom(0, 20, 80),
        indent: fc.constantFrom(2, 4),
        defaultStringType: fc.constantFrom("PLAIN", "QUOTE_SINGLE", "QUOTE_DOUBLE", "BLOCK_FOLDED" as const),
        collectionStyle: fc.constantFrom("any", "flow" as const),
      })
      .map((options) => (value: unknown) => stringify(value, options as ToStringOptions)),
  );
  let filesRead = 0;
  fc.assert(
    fc.property(fc.array(part, { minLength: 1, maxLength: 4 }), written, (parts, render) => {
      const value = { openapi: "3.1.0", parts };
      const text = render(value);
      // The library writes some texts in a form that it reads as another text, or not at all.
      fc.pre(Bun.deepEquals(parseDocument(text).toJS(), value));
      write({ "apis/api.txt": text });
      const read = new Set<string>();
      const document = ApiDocument.at(join(folder, "apis/api.txt"), (path) => {
        read.add(relative(folder, path));
        return path.endsWith("/api.txt") ? readFileSync(path) : Buffer.from("{}");
      });
      for (const each of parts) {
        try {
          document.follow({ value: "schema" in each ? each.schema : each, file: "api.txt" });
        } catch {
          // The reader refuses some names, and none of the files has the part.
        }
      }
      const own = belonging("apis/api.txt");
      expect([...read].filter((path) => !own.includes(path))).toEqual([]);
      filesRead += read.size - 1;
    }),
    { seed: Number(process.env["STC_TEST_SEED"] ?? 1), numRuns: 300 },
  );
  expect(filesRead).toBeGreaterThan(100);
});

test("a file that is missing belongs to the service too: it may appear later", () => {
  write({ "api.json": json('{ "$ref": "later.json" }') });
  expect(belonging("api.json")).toEqual(["api.json", "later.json"]);
  expect(belonging("missing.json")).toEqual(["missing.json"]);
});

test.each([
  ["its own parts", '{ "$ref": "#/components/parameters/limit" }'],
  ["an address", '{ "$ref": "https://pets.test/parts.json" }'],
  ["another host", '{ "$ref": "//pets.test/parts.json" }'],
  ["an absolute path", '{ "$ref": "/etc/passwd" }'],
  ["an encoded absolute path", '{ "$ref": "%2fetc/passwd" }'],
  ["a file outside its folder", '{ "$ref": "../parts.json" }'],
  ["a folder", '{ "$ref": "deep" }'],
  ["its own folder", '{ "$ref": "." }'],
  ["a name that no file has", '{ "$ref": "a\\u0000b" }'],
  ["a value that is not text", '{ "$ref": { "x": 1 } }'],
])("a document that refers to %s has no further files", (_, reference) => {
  write({ "apis/api.json": json(reference), "apis/deep/x.json": "{}", "parts.json": "{}" });
  expect(belonging("apis/api.json")).toEqual(["apis/api.json"]);
});

test("a service whose agents could write such a file does not start", async () => {
  const service = new ReloadService({
    systems: { pets: { http: { baseUrl: "https://pets.test", openapi: "./api.json" } } },
    workspace: { project: "./work" },
  });
  try {
    service.write("api.json", json('{ "$ref": "work/parts.json#/limit" }'));
    service.write("work/parts.json", LIMIT);
    const { folder: location } = service;
    await expect(service.start()).rejects.toThrow(
      `workspace.project: ${location}/work and systems.pets.http.openapi: ${location}/work/parts.json overlap`,
    );
  } finally {
    rmSync(service.folder, { recursive: true, force: true });
  }
});
