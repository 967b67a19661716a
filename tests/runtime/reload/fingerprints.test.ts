import { afterAll, beforeEach, expect, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { MODULES } from "../../../src/modules.ts";
import { liveKeys } from "../../../src/runtime/config/config.ts";
import { type Fingerprint, fingerprintOf, startupFileProblems } from "../../../src/runtime/reload/fingerprints.ts";
import { readConfig } from "../../support/build.ts";

const LIVE = liveKeys(MODULES);
const root = mkdtempSync(join(tmpdir(), "stc-prints-"));
let folder: string;
let count = 0;
afterAll(() => rmSync(root, { recursive: true, force: true }));

function write(path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

function print(changes: Readonly<Record<string, unknown>> = {}): Fingerprint {
  const written = {
    tools: ["./tools", "./more/one.ts"],
    audit: { dir: "./audit", hashKeyFile: "./hash.key" },
    jwt: { issuers: [{ issuer: "https://x", jwksFile: "./jwks.json" }] },
    systems: {
      lab: { endpoint: "h:1", proto: "./proto", tls: { rootCert: "./ca.pem" } },
      pets: { http: { baseUrl: "https://pets.test", openapi: "./apis/pets.yaml" } },
      shop: { http: { baseUrl: "https://shop.test", graphql: { schemaFile: "./apis/shop.graphql" } } },
    },
    ...changes,
  };
  const origin = join(folder, "stc.yaml");
  return fingerprintOf(readConfig(written, { folder, environment: {}, origin }));
}

beforeEach(() => {
  count += 1;
  folder = join(root, String(count));
  write("tools/a.ts", 'import { b } from "./lib/b.ts";\nexport const a = b;\n');
  write("tools/lib/b.ts", "export const b = 1;\n");
  write("more/one.ts", 'import "../far/away.ts";\n');
  write("far/away.ts", "export const far = 1;\n");
  write("apis/pets.yaml", "openapi: 3.0.3\npaths: { /pets: { $ref: 'pets/list.yaml' } }\n");
  write("apis/pets/list.yaml", "get: { parameters: [{ $ref: '../limit.yaml' }] }\n");
  for (const path of [
    "hash.key",
    "jwks.json",
    "ca.pem",
    "proto/x.proto",
    "audit/2026.jsonl",
    "other",
    "apis/shop.graphql",
  ])
    write(path, "one");
});

const PARTS = ["configurationSha256", "filesSha256", "manifests"] as const;

test.each<readonly [string, string, readonly string[]]>([
  ["a manifest", "tools/a.ts", ["manifests"]],
  ["what it imports", "tools/lib/b.ts", ["manifests"]],
  ["what lies beside the folders and is imported", "far/away.ts", ["manifests"]],
  ["a new manifest", "tools/deep/new.ts", ["manifests"]],
  ["a file that is no manifest", "tools/notes.txt", []],
  ["a test beside the manifests", "tools/a.test.ts", []],
  ["keys", "jwks.json", ["filesSha256"]],
  ["a key that is read once", "hash.key", ["filesSha256"]],
  ["a contract", "proto/x.proto", ["filesSha256"]],
  ["a new part of the contract", "proto/deep/y.proto", ["filesSha256"]],
  ["an OpenAPI document", "apis/pets.yaml", ["filesSha256"]],
  ["a file that it refers to", "apis/pets/list.yaml", ["filesSha256"]],
  ["a new file that another file of it refers to", "apis/limit.yaml", ["filesSha256"]],
  ["a file next to it", "apis/notes.yaml", []],
  ["a GraphQL schema", "apis/shop.graphql", ["filesSha256"]],
  ["certificates, which are followed by themselves", "ca.pem", []],
  ["the audit", "audit/2026.jsonl", []],
  ["what nothing names", "other", []],
])("%s: %s", (_title, path, changed) => {
  const before = print();
  write(path, "export const two = 2;\n");
  const after = print();
  expect(PARTS.filter((part) => JSON.stringify(after[part]) !== JSON.stringify(before[part]))).toEqual([
    ...changed,
  ] as never);
  expect(after.sha256 === before.sha256).toBe(changed.length === 0);
});

test("the same configuration has the same fingerprint; another value gives another one", () => {
  expect(print().sha256).toBe(print().sha256);
  const other = print({ limits: { concurrentCallsMax: 7 } });
  expect(PARTS.filter((part) => JSON.stringify(other[part]) !== JSON.stringify(print()[part]))).toEqual([
    "configurationSha256",
  ]);
});

test("replicas with one policy have the same digest, wherever their files are; their inputs are told apart", () => {
  const replica = (instance: string, port: number): Fingerprint => {
    write("audit/signing.pem", instance);
    const audit = { dir: `./${instance}`, checkpointKeyFile: "./audit/signing.pem", hashKeyFile: "./hash.key" };
    return print({ instance, audit, server: { port, console: { port: port + 1 } } });
  };
  const one = replica("replica-1", 8787);
  cpSync(folder, `${folder}-other`, { recursive: true });
  folder = `${folder}-other`;
  const other = replica("replica-2", 9787);
  expect(other.sha256).toBe(one.sha256);
  expect(other.inputsSha256).not.toBe(one.inputsSha256);
  write("hash.key", "two");
  expect(replica("replica-2", 9787).sha256).not.toBe(one.sha256);
});

test("a value that decides calls, and the name of a manifest, are part of the digest of the policy", () => {
  const { sha256 } = print();
  expect(print({ approvals: { mode: "autoEdit" } }).sha256).not.toBe(sha256);
  expect(print({ server: { resource: "https://other.test" } }).sha256).not.toBe(sha256);
  renameSync(join(folder, "tools/a.ts"), join(folder, "tools/z.ts"));
  expect(print().sha256).not.toBe(sha256);
});

test("a file that is read once and has changed needs a restart; one that is newly named is a change of the configuration", () => {
  const before = print();
  write("hash.key", "two");
  write("jwks.json", "two");
  expect(startupFileProblems(before, print(), LIVE)).toEqual([
    "audit.hashKeyFile: the file has changed, which needs a restart",
  ]);
  expect(startupFileProblems(before, print({ audit: { dir: "./audit" } }), LIVE)).toEqual([]);
});

test("a missing, looping or non-regular file has a fingerprint too", () => {
  rmSync(join(folder, "jwks.json"));
  rmSync(join(folder, "proto"), { recursive: true });
  symlinkSync("proto", join(folder, "proto"));
  rmSync(join(folder, "tools/lib/b.ts"));
  symlinkSync("nowhere", join(folder, "tools/b.ts"));
  symlinkSync("/dev/zero", join(folder, "jwks.json"));
  expect(print().sha256).toMatch(/^[0-9a-f]{64}$/);
});

test("every relevant file and folder is named for watchers", () => {
  const wanted = [
    "stc.yaml",
    "tools",
    "tools/lib",
    "tools/a.ts",
    "tools/lib/b.ts",
    "far/away.ts",
    "jwks.json",
    "proto/x.proto",
    "apis/pets/list.yaml",
    "apis/limit.yaml",
  ];
  const { files } = print();
  expect(wanted.filter((path) => !files.includes(join(folder, path)))).toEqual([]);
  expect(files.filter((path) => /audit\/|ca\.pem/.test(path))).toEqual([]);
});
