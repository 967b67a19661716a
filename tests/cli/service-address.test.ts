import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { welcome } from "../../src/cli/development/welcome.ts";
import { environmentOf, runStc } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-service-address-"));
const tokenFile = join(folder, "token");
writeFileSync(tokenFile, "a-token\n");
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Nothing listens on port 1. */
describe("a client command", () => {
  test("asks the port that moves the service, and says how another one is named", async () => {
    const env = environmentOf({ STC_PORT: "1", STC_TOKEN_FILE: tokenFile });
    expect(await runStc(["halts"], { env })).toEqual({
      code: 2,
      out: "",
      err: "no answer from http://127.0.0.1:1 (ECONNREFUSED); name the service with --url or STC_URL, or its port on this machine with STC_PORT\n",
    });
  });

  test("asks the service that STC_URL names, whatever STC_PORT says", async () => {
    const env = environmentOf({ STC_PORT: "2", STC_URL: "http://127.0.0.1:1", STC_TOKEN_FILE: tokenFile });
    const { err } = await runStc(["halts"], { env });
    expect(err).toBe("no answer from http://127.0.0.1:1 (ECONNREFUSED)\n");
  });
});

const FACTS = { url: "http://127.0.0.1:9000", consoleLink: "http://x", auditDir: "/a", hasGit: false, hasBash: true };

describe("the welcome", () => {
  test("prints commands that find a service which the environment has moved", () => {
    const text = welcome({ ...FACTS, environment: { STC_PORT: "9000", STC_AUDIT_DIR: "/var/log/a b" } });
    expect(text).toMatch(/^ +STC_AUDIT_DIR='\/var\/log\/a b' npx .* stc audit tail$/m);
    expect(text).toMatch(/^ +STC_PORT=9000 npx .* stc console --dev$/m);
  });

  test("names no variable that is not set", () => {
    expect(welcome({ ...FACTS, environment: { STC_PORT: "" } })).not.toMatch(/STC_(?:PORT|HOST|AUDIT_DIR)/);
  });
});

test("scripts that use packages for development install them: `run start` installs those of the service alone", () => {
  const { scripts } = JSON.parse(readFileSync(join(PROJECT, "package.json"), "utf8")) as {
    readonly scripts: Readonly<Record<string, string>>;
  };
  const documented = ["test", "check", "test:all", "test:fleet", "release"];
  const without = documented.filter((name) => !scripts[name]?.startsWith("bun install --frozen-lockfile --silent &&"));
  expect(without).toEqual([]);
});
