import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { MODULES } from "../../../src/modules.ts";
import { configSchema } from "../../../src/runtime/config/config.ts";
import { isLive, LIVE_KEYS, restartProblems } from "../../../src/runtime/reload/fingerprints.ts";
import { readConfig } from "../../support/build.ts";

const page = readFileSync(join(import.meta.dir, "../../../docs/operating.md"), "utf8");
const section = page.slice(page.indexOf("\n## Reload\n"), page.indexOf("\n## Rotate\n"));

test("the page names exactly the keys that a reload adopts", () => {
  const named = [...section.matchAll(/^\| `([\w.]+)` \|/gm)].map(([, key]) => key ?? "");
  expect(named).toEqual([...LIVE_KEYS]);
});

test("each of them is a key of the configuration", () => {
  const shape = z.toJSONSchema(configSchema(MODULES), { io: "input", unrepresentable: "any" });
  const missing = LIVE_KEYS.filter((key) => {
    const found = key.split(".").reduce<unknown>((at, name) => {
      const properties = (at as { readonly properties?: Readonly<Record<string, unknown>> } | undefined)?.properties;
      return properties?.[name];
    }, shape);
    return found === undefined;
  });
  expect(missing).toEqual([]);
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
  expect(isLive(key)).toBe(live);
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
  expect([...restartProblems(configOf({}), configOf(changes))].sort()).toEqual([...problems].sort());
});
