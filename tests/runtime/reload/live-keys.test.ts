import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { z } from "zod";
import { MODULES } from "../../../src/modules.ts";
import { liveKeys } from "../../../src/runtime/config/config.ts";
import { reloaded, reloadedKeys } from "../../../src/runtime/config/values.ts";
import { isLive, restartProblems } from "../../../src/runtime/reload/fingerprints.ts";
import { OPERATING_PAGE, withReloadTable } from "../../deploy/configuration-reference.ts";
import { readConfig } from "../../support/build.ts";

const LIVE = liveKeys(MODULES);

test("the page has the table that the settings' marks give", () => {
  const page = readFileSync(OPERATING_PAGE, "utf8");
  expect(withReloadTable(page)).toBe(page);
});

test("a mark is found below optional and default values, and nothing below it is listed again", () => {
  const schema = z.object({
    kept: z.string(),
    whole: reloaded(z.object({ inner: reloaded(z.string()) }), "all of it").optional(),
    some: z.object({ one: reloaded(z.string().default("")), other: z.string() }).prefault({ other: "", one: "" }),
  });
  expect(reloadedKeys(schema)).toEqual([
    { key: "whole", adopts: "all of it" },
    { key: "some.one", adopts: "" },
  ]);
});

test("a schema that serves a marked and another key is adopted for the marked one alone", () => {
  const text = z.string();
  expect(reloadedKeys(z.object({ live: reloaded(text), kept: text }))).toEqual([{ key: "live", adopts: "" }]);
});

test.each([
  ["tools", true],
  ["tools[0]", true],
  ["toolsFile", false],
  ["approvals.mode", true],
  ["approvals.modeSecondsMax", false],
  ["approvals.store", false],
  ["server.port", false],
  ["reload.trigger", false],
])("%s: %p", (key, live) => {
  expect(isLive(key, LIVE)).toBe(live);
});

function configOf(changes: Readonly<Record<string, unknown>>): ReturnType<typeof readConfig> {
  const issuers = [{ issuer: "https://x", jwksFile: "x" }];
  const written = { tools: ["."], audit: { dir: "audit" }, jwt: { issuers }, ...changes };
  return readConfig(written, { folder: "/", environment: {}, origin: "test" });
}

test.each<readonly [Readonly<Record<string, unknown>>, readonly string[]]>([
  [{}, []],
  [{ tools: ["./other"], log: { level: "error" }, commands: { launchers: 3 } }, []],
  [{ approvals: { mode: "yolo", rules: [] } }, []],
  [{ server: { port: 1, operator: {} } }, ["server.port: needs a restart", "server.operator: needs a restart"]],
  [
    { audit: { dir: "other", retentionDays: 3 } },
    ["audit.dir: needs a restart", "audit.retentionDays: needs a restart"],
  ],
  [{ approvals: { store: "sqlite://./x" } }, ["approvals.store: needs a restart"]],
  [{ reload: { trigger: "off" } }, ["reload.trigger: needs a restart"]],
  [{ systems: { lists: { names: ["a"] } } }, []],
])("%j", (changes, problems) => {
  expect([...restartProblems(configOf({}), configOf(changes), LIVE)].sort()).toEqual([...problems].sort());
});
