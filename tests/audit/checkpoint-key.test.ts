import { afterAll, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import fs from "node:fs";
import { join } from "node:path";
import { readCheckpointKey } from "../../src/runtime/composition/audit.ts";
import { readConfig } from "../support/build.ts";
import { temporaryDirectory } from "./support/chained-log.ts";

const folder = temporaryDirectory();
afterAll(() => fs.rmSync(folder, { recursive: true }));

function problemsWith(pem: string | undefined): readonly string[] {
  if (pem !== undefined) fs.writeFileSync(join(folder, "key.pem"), pem);
  const audit = { dir: "audit", checkpointKeyFile: pem === undefined ? "none.pem" : "key.pem" };
  const issuer = { issuer: "https://idp.example", jwksUri: "https://idp.example/jwks.json" };
  const written = { tools: ["./tools"], audit, jwt: { issuers: [issuer] } };
  const problems: string[] = [];
  const key = readCheckpointKey(readConfig(written, { folder, environment: {}, origin: "test" }), problems);
  expect(key === undefined).toBe(problems.length > 0);
  return problems;
}

const pemOf = (key: { export(options: { type: "pkcs8"; format: "pem" }): string | Buffer }): string =>
  String(key.export({ type: "pkcs8", format: "pem" }));

test("an Ed25519 private key signs checkpoints", () => {
  expect(problemsWith(pemOf(generateKeyPairSync("ed25519").privateKey))).toEqual([]);
});

test.each([
  ["a key of another kind", pemOf(generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey)],
  ["a public key", String(generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "pem" }))],
  ["no key", "secret words"],
])("%s is refused, and nothing of it is quoted", (_name, pem) => {
  expect(problemsWith(pem)).toEqual([
    "audit.checkpointKeyFile: key.pem holds no Ed25519 private key (PEM, PKCS8): make one with stc audit keys --new FILE",
  ]);
});

test("a missing file is named", () => {
  expect(problemsWith(undefined)).toEqual(["audit.checkpointKeyFile: none.pem cannot be read (ENOENT)"]);
});
