import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MODULES } from "../../src/modules.ts";
import { openStore } from "../../src/runtime/composition/approvals.ts";
import { ownPaths } from "../../src/runtime/config/own-paths.ts";
import { readConfig } from "../support/build.ts";

let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(join(tmpdir(), "stc-store-url-"));
});
afterEach(() => fs.rmSync(folder, { recursive: true, force: true }));

function configOf(approvals: Readonly<Record<string, unknown>>) {
  const issuer = { issuer: "https://idp.example", audience: "stc", algorithms: ["ES256"], jwksFile: "jwks.json" };
  const written = { tools: ["tools"], audit: { dir: "audit" }, jwt: { issuers: [issuer] }, approvals };
  return readConfig(written, { folder, environment: { PATH: "" }, origin: "test" });
}

const webhooks = { targets: [], integrations: new Map() };
const parts = {
  stores: MODULES.approvalStores,
  webhooks,
  clock: () => 0,
  claimant: () => undefined,
  journal: async () => {},
  log: () => {},
};

test("a URL is stored in a file, never in the configuration, and there is one store", () => {
  expect(() => configOf({ store: "postgres://stc:secret@db/approvals" })).toThrow(/approvals\.store.*storeUrlFile/s);
  expect(() => configOf({ store: "postgres://stc:secret@db/approvals" })).not.toThrow("secret");
  expect(() => configOf({ store: "sqlite://./a.sqlite", storeUrlFile: "url" })).toThrow(
    /approvals\.storeUrlFile.*cannot be set together with approvals\.store/s,
  );
});

test("the file belongs to the service: no workspace contains it", () => {
  expect(ownPaths(configOf({ storeUrlFile: "url" }))).toContainEqual({
    field: "approvals.storeUrlFile",
    path: join(fs.realpathSync(folder), "url"),
  });
});

const FAULTS: readonly (readonly [title: string, text: string | undefined, message: string])[] = [
  ["that is not there", undefined, "approvals.storeUrlFile: url cannot be read (ENOENT)"],
  ["that is empty", "", "url must hold a postgres:// URL and nothing else"],
  ["of another kind", "sqlite:///secret", "url must hold a postgres:// URL and nothing else"],
  ["of several lines", "postgres://a:secret@h/d\nmore", "url must hold a postgres:// URL and nothing else"],
  [
    "with a mistake",
    "postgres://a:secret@h/d?x=1\n",
    "the URL of the approvals store accepts only the parameters sslmode",
  ],
  [
    "of a server that is not there",
    "postgres://a:secret@127.0.0.1:1/d",
    "approvals store postgres://127.0.0.1:1/d: cannot be reached",
  ],
];

describe.each(FAULTS)("a file %s", (_title, text, message) => {
  test("prevents the start and is not quoted", async () => {
    if (text !== undefined) fs.writeFileSync(join(folder, "url"), text);
    const opened = openStore(configOf({ storeUrlFile: "url" }), parts);
    await expect(opened).rejects.toThrow(message);
    await expect(opened).rejects.not.toThrow("secret");
  });
});
