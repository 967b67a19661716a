import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import Ajv from "ajv";
import { parse, stringify } from "yaml";
import { BLOCKS } from "../support/documented.ts";
import { runStc } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";
import { SCHEMA_FILE, schemaContent } from "./configuration-reference.ts";

const schema = JSON.parse(schemaContent());
const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false });
const validate = ajv.compile(schema);
/** Blocks of pages show parts of a configuration. */
const validatePart = ajv.compile({ ...schema, $id: "urn:safe-tool-call:part", required: [], anyOf: [{}] });
const SECTIONS = Object.keys(schema.properties);

function problemsOf(check: typeof validate, value: unknown): readonly string[] {
  if (check(value)) return [];
  return (check.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}

test("the file that editors read is current: else run `bun run docs:configuration`", () => {
  expect(readFileSync(SCHEMA_FILE, "utf8")).toBe(schemaContent());
});

test("`stc schema configuration` prints it", async () => {
  const { code, out } = await runStc(["schema", "configuration"]);
  expect([code, JSON.parse(out)]).toEqual([0, schema]);
});

const FILES = [...new Bun.Glob("{docs,deploy}/**/*.yaml").scanSync(PROJECT)]
  .sort()
  .map((path) => [path, readFileSync(join(PROJECT, path), "utf8")] as const)
  .filter(([, source]) => /^tools:/m.test(source) && /^jwt:/m.test(source));

describe("the schema accepts", () => {
  test("every configuration among the examples", () => {
    expect(FILES.length).toBeGreaterThan(5);
    expect(FILES.map(([path, source]) => [path, problemsOf(validate, parse(source))])).toEqual(
      FILES.map(([path]) => [path, []]),
    );
  });

  test("every block of a page that is a part of a configuration", () => {
    const blocks = BLOCKS.filter(({ language }) => language === "yaml").flatMap(({ name, text }) => {
      const value: unknown = parse(text);
      const keys = typeof value === "object" && value !== null ? Object.keys(value) : [];
      return keys.length > 0 && keys.every((key) => SECTIONS.includes(key)) ? [[name, value] as const] : [];
    });
    expect(blocks.length).toBeGreaterThan(20);
    const problems = blocks.flatMap(([name, value]) =>
      problemsOf(validatePart, value).map((problem) => [name, problem]),
    );
    expect(problems).toEqual([]);
  });
});

const GOOD = {
  tools: ["./tools"],
  audit: { dir: "audit" },
  jwt: { issuers: [{ issuer: "https://x", audience: "a", algorithms: ["ES256"], jwksUri: "https://x/jwks.json" }] },
};

test("the schema accepts a member's own file without tools, which its bundle brings", () => {
  const { tools: _, ...own } = GOOD;
  const files = { keysFile: "./keys.pem", timestampKeysFile: "./online.pem" };
  const bundle = { url: "https://x/bundle.tar.gz", dir: "./b", fleet: "shop", environment: "test", ...files };
  expect(problemsOf(validate, { ...own, bundle })).toEqual([]);
});

const TENANT = {
  tools: ["./acme"],
  systems: { lists: { a: ["b"] } },
  audit: { retentionDays: 9 },
  limits: { rates: {} },
};

test("the schema accepts the sections that a tenant may have", () => {
  expect(problemsOf(validate, { ...GOOD, tenants: { acme: TENANT, globex: null } })).toEqual([]);
});

describe("the schema refuses", () => {
  test("nothing of what the wrong configurations below are made of", () => {
    expect(problemsOf(validate, GOOD)).toEqual([]);
  });

  test.each([
    ["an unknown section", { ...GOOD, audits: {} }],
    ["an unknown key", { ...GOOD, audit: { dir: "audit", direktory: "x" } }],
    ["a number over its bound", { ...GOOD, server: { port: 70_000 } }],
    ["a text for a number", { ...GOOD, limits: { concurrentCallsMax: "many" } }],
    ["a value that is none of a list", { ...GOOD, log: { level: "loud" } }],
    ["no tools", { audit: GOOD.audit, jwt: GOOD.jwt }],
    ["an unknown key of an issuer", { ...GOOD, jwt: { issuers: [{ issuer: "https://x", jwksUrl: "https://x" }] } }],
    [
      "an unknown key of a gRPC system",
      { ...GOOD, systems: { a: { endpoint: "x:1", proto: "p", plaintext: true, tlss: { a: [1] } } } },
    ],
    ["an unknown key of a tenant", { ...GOOD, tenants: { acme: { ...TENANT, limits: { odd: 1 } } } }],
    ["a section of the service in a tenant", { ...GOOD, tenants: { acme: { ...TENANT, server: {} } } }],
    ["a key of the service in a tenant", { ...GOOD, tenants: { acme: { ...TENANT, audit: { dir: "x" } } } }],
    ["a tenant's name in upper case", { ...GOOD, tenants: { Acme: TENANT } }],
    ["an HTTP system without its address", { ...GOOD, systems: { a: { http: { addresses: ["private"] } } } }],
  ])("%s", (_, value) => {
    expect(problemsOf(validate, parse(stringify(value)))).not.toEqual([]);
  });
});

test("most keys have a description for editors", () => {
  let [described, all] = [0, 0];
  const count = (shape: { readonly properties?: object }): void => {
    for (const inner of Object.values(shape.properties ?? {}) as {
      readonly description?: string;
      readonly type?: unknown;
    }[]) {
      all += 1;
      if (inner.description !== undefined || inner.type === "object") described += 1;
      count(inner as object);
    }
  };
  count(schema);
  for (const kind of Object.values(schema.definitions)) count(kind as object);
  expect(all).toBeGreaterThan(150);
  expect(described / all).toBeGreaterThan(0.85);
});
