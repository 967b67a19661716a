import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLocalJWKSet, jwtVerify } from "jose";
import { developmentKeys, signDevelopmentToken } from "../../../src/cli/development/keys.ts";

const NOW = 1_800_000_000_000;

let directory = "";
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "stc-keys-"));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const readJwks = (path: string) => JSON.parse(readFileSync(path, "utf8"));

test.each([
  [false, "https://dev.safe-tool-call.local/agents", "safe-tool-call"],
  [true, "https://dev.safe-tool-call.local/people", "safe-tool-call-operators"],
] as const)("operator %p: signed by the key of %s, for %s", async (operator, issuer, audience) => {
  const keys = await developmentKeys(directory);
  const who = operator ? keys.operators : keys.agents;
  expect(who).toMatchObject({ issuer, audience });
  const permissions = ["customer-data:read"];
  const token = await signDevelopmentToken({
    directory,
    operator,
    sub: "ana",
    permissions,
    claims: { tenant: "acme" },
    ttlSeconds: 60,
    nowMs: NOW,
  });
  const check = { issuer, audience, algorithms: ["ES256"], currentDate: new Date(NOW + 59_000) };
  const { payload, protectedHeader } = await jwtVerify(token, createLocalJWKSet(readJwks(who.jwksFile)), check);
  expect(payload).toMatchObject({ tenant: "acme", sub: "ana", permissions, iat: NOW / 1000, exp: NOW / 1000 + 60 });
  expect(protectedHeader).toMatchObject({ alg: "ES256", typ: "JWT" });
  const other = operator ? keys.agents : keys.operators;
  await expect(jwtVerify(token, createLocalJWKSet(readJwks(other.jwksFile)), check)).rejects.toThrow();
});

test("keys are kept, public files hold nothing private, private files are private", async () => {
  const { agents } = await developmentKeys(directory);
  const before = readFileSync(agents.jwksFile, "utf8");
  await developmentKeys(directory);
  expect(readFileSync(agents.jwksFile, "utf8")).toBe(before);
  const [key] = readJwks(agents.jwksFile).keys;
  expect(Object.keys(key).sort()).toEqual(["alg", "crv", "kid", "kty", "use", "x", "y"]);
  const folder = join(agents.jwksFile, "..");
  for (const name of readdirSync(folder)) expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600);
});

test("many processes at once get one key", async () => {
  const crowded = join(directory, "crowd");
  const options = { directory: crowded, operator: false, sub: "a", permissions: [], ttlSeconds: 60, nowMs: NOW };
  const tokens = await Promise.all(Array.from({ length: 8 }, () => signDevelopmentToken(options)));
  const { agents } = await developmentKeys(crowded);
  const keys = createLocalJWKSet(readJwks(agents.jwksFile));
  for (const token of tokens) await jwtVerify(token, keys, { currentDate: new Date(NOW) });
});
