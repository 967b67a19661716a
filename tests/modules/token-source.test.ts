import { afterAll, afterEach, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { type BuildModules, MODULES } from "../../src/modules.ts";
import { jwksKeys } from "../../src/pipeline/identity/issuer-keys.ts";
import type { TokenSource } from "../../src/pipeline/identity/token-sources.ts";
import { assemble, readConfig } from "../support/build.ts";
import { ModuleWorld } from "./module-world.ts";

const settings = { jwkFile: z.string().min(1) };

/** A token source of a build: a file with a single key. */
const singleKey: TokenSource<"jwkFile", typeof settings> = {
  key: "jwkFile",
  settings,
  isForLibrary: false,
  open({ jwkFile }, { read }) {
    const text = read("jwkFile", jwkFile);
    return text === undefined ? undefined : jwksKeys({ keys: [JSON.parse(text)] });
  },
};

const BUILD: BuildModules = { ...MODULES, tokenSources: [...MODULES.tokenSources, singleKey] };
const world = new ModuleWorld();
afterEach(() => world.stop());
afterAll(() => world.end());

type Issuer = Readonly<Record<string, unknown>> & { readonly jwks: { readonly keys: readonly unknown[] } };

/** The configuration's issuers; the first one has these keys instead of its own. */
function issuersWith(keys: Readonly<Record<string, unknown>>) {
  const [{ jwks, ...first }, ...others] = world.issuers.profiles() as unknown as [Issuer, ...Issuer[]];
  writeFileSync(join(world.folder, "key.json"), JSON.stringify(jwks.keys[0]));
  return { issuers: [{ ...first, ...keys }, ...others] };
}

const read = (jwt: unknown) =>
  readConfig(world.sections({ jwt }), { folder: world.folder, environment: {}, origin: "c" }, BUILD);

test("a token source that one line of the build registers verifies tokens", async () => {
  await world.start(BUILD, { jwt: issuersWith({ jwkFile: "./key.json" }) });
  expect((await world.call("pay", { amount: 1 })).http).toBe(200);
});

test("an issuer names exactly one of the build's sources", () => {
  const message =
    "needs exactly one of jwksUri, jwksFile, publicKeyFile, jwkFile (or, in the library, jwks, publicKey)";
  expect(() => read(issuersWith({}))).toThrow(message);
  expect(() => read(issuersWith({ jwkFile: "./key.json", jwksFile: "./keys.json" }))).toThrow(message);
});

test("a file that cannot be read is reported with its setting", async () => {
  const failed = assemble(read(issuersWith({ jwkFile: "./gone.json" })), {}, BUILD);
  await expect(failed).rejects.toThrow("jwt.issuers[0].jwkFile: ./gone.json cannot be read (ENOENT)");
});
