import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readAuditStore } from "../../../src/runtime/composition/audit.ts";
import { ownPaths } from "../../../src/runtime/config/own-paths.ts";
import { readConfig } from "../../support/build.ts";

let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(join(tmpdir(), "stc-audit-store-"));
});
afterEach(() => fs.rmSync(folder, { recursive: true, force: true }));

function configOf(audit: Readonly<Record<string, unknown>>) {
  const issuer = { issuer: "https://idp.example", audience: "stc", algorithms: ["ES256"], jwksFile: "jwks.json" };
  const written = { tools: ["tools"], audit: { dir: "audit", ...audit }, jwt: { issuers: [issuer] } };
  return readConfig(written, { folder, environment: { PATH: "" }, origin: "test" });
}

const FAULTS: readonly (readonly [title: string, text: string | undefined, problem: string])[] = [
  ["that is not there", undefined, "audit.storeUrlFile: url cannot be read (ENOENT)"],
  ["that is empty", "\n", "audit.storeUrlFile: url: the URL of the audit store must be "],
  ["of another kind", "sqlite:///secret", "audit.storeUrlFile: url: the URL of the audit store must be "],
  [
    "of several lines",
    "postgres://a:secret@h/d\nmore",
    "audit.storeUrlFile: url must hold the URL of a database and nothing else",
  ],
  [
    "with a mistake",
    "postgres://a:secret@h/d?x=1\n",
    "audit.storeUrlFile: url: the URL of the audit store accepts only the parameters",
  ],
];

describe.each(FAULTS)("a file with the URL of the audit store %s", (_title, text, problem) => {
  test("is a problem of the start, which names the setting and the file and quotes nothing", async () => {
    if (text !== undefined) fs.writeFileSync(join(folder, "url"), text);
    const problems: string[] = [];
    expect(await readAuditStore(configOf({ storeUrlFile: "url" }), problems)).toBeUndefined();
    expect(problems).toEqual([expect.stringContaining(problem)]);
    expect(problems.join()).not.toContain("secret");
  });
});

test("a valid URL is no problem, and the server is not contacted", async () => {
  fs.writeFileSync(join(folder, "url"), "postgres://stc:secret@127.0.0.1:1/audit\n");
  const problems: string[] = [];
  const store = await readAuditStore(configOf({ storeUrlFile: "url" }), problems);
  expect([problems, store === undefined]).toEqual([[], false]);
  await store?.close();
  expect(await readAuditStore(configOf({}), problems)).toBeUndefined();
});

test("the file belongs to the service: no workspace contains it", () => {
  expect(ownPaths(configOf({ storeUrlFile: "url" }))).toContainEqual({
    field: "audit.storeUrlFile",
    path: join(fs.realpathSync(folder), "url"),
  });
});
