import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type IdentityStand, startIdentityService } from "../support/identity-service.ts";
import { type Ended, runStc } from "../support/stc.ts";
import { Authority } from "../support/tls-files.ts";

/** `tls` shows a certificate that is in nobody's name here; `shut` asks for one, and has doors for its own machine. */
const stands: Record<"plain" | "tls" | "shut", IdentityStand | undefined> = {
  plain: undefined,
  tls: undefined,
  shut: undefined,
};
let folder: string;

beforeAll(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-health-")));
  const authority = await Authority.create("ours");
  for (const name of ["own", "other"]) {
    const { cert, key } = await authority.issue("stc.example");
    writeFileSync(join(folder, `${name}.pem`), cert);
    writeFileSync(join(folder, `${name}-key.pem`), key);
  }
  writeFileSync(join(folder, "ca.pem"), authority.pem);
  const tls = { certFile: "./own.pem", keyFile: "./own-key.pem" };
  const closed = { ...tls, clientCaFile: "./ca.pem", clientCertificates: "require" };
  stands.plain = await startIdentityService({});
  stands.tls = await startIdentityService({ folder, server: { tls } });
  const rest = { audit: { dir: "./shut", durability: "write" } };
  stands.shut = await startIdentityService({ folder, server: { tls: closed, socket: "./call.sock" }, rest });
});
afterAll(async () => {
  await Promise.all(Object.values(stands).map((stand) => stand?.close()));
  rmSync(folder, { recursive: true, force: true });
});

function portOf(stand: keyof typeof stands): number {
  return Number(new URL(stands[stand]?.service.url ?? "").port);
}

interface Asked {
  readonly env?: Readonly<Record<string, string>>;
  readonly words?: readonly string[];
}

/** Beside a service whose configuration is this text. */
function health(text: string, { env = {}, words = [] }: Asked = {}): Promise<Ended> {
  const file = join(folder, `${Bun.hash(text)}.yaml`);
  writeFileSync(file, text);
  return runStc(["health", ...words], { env: { STC_CONFIG: file, ...env }, cwd: "/" });
}

const serverOf = (server: Readonly<Record<string, unknown>>): string => JSON.stringify({ server });
const NAMED = { certFile: "./own.pem", keyFile: "./own-key.pem" };
const REQUIRED = { ...NAMED, clientCaFile: "./ca.pem", clientCertificates: "require" };

test.each<readonly [string, () => string, readonly string[]]>([
  ["a plain port", () => serverOf({ port: portOf("plain") }), []],
  ["whether it takes calls", () => serverOf({ port: portOf("plain") }), ["--ready"]],
  ["every interface", () => serverOf({ host: "0.0.0.0", port: portOf("plain") }), []],
  ["a port with TLS, under a name that this machine has not", () => serverOf({ port: portOf("tls"), tls: NAMED }), []],
  ["a socket beside doors that ask for certificates", () => serverOf({ tls: REQUIRED, socket: "./call.sock" }), []],
  ["the operators' port", () => serverOf({ port: 1, operator: { port: portOf("plain") } }), []],
  ["other sections that are wrong", () => `tools: 7\nserver: { port: ${portOf("plain")} }\nlimits: { x: 1 }`, []],
])("a service is found by its configuration: %s", async (_title, text, words) => {
  expect(await health(text(), { words })).toEqual({ code: 0, out: "", err: "" });
});

test("a service with another certificate is a different service", async () => {
  const tls = { ...NAMED, certFile: "./other.pem" };
  const { code, err } = await health(serverOf({ port: portOf("tls"), tls }));
  expect([code, err]).toEqual([2, expect.stringContaining("(ANOTHER_CERTIFICATE)")]);
});

test.each<readonly [string, Readonly<Record<string, unknown>>]>([
  ["a certificate that is not there", { tls: { ...NAMED, certFile: "./gone.pem" } }],
  ["no certificate at all", { tls: { ...NAMED, certFile: "./own-key.pem" } }],
  ["nobody at the port", { port: 1 }],
])("%s: no service answers, and nothing of the file is quoted", async (_title, server) => {
  const { code, err } = await health(serverOf({ port: portOf("tls"), ...server }));
  expect(code).toBe(2);
  expect(err).toStartWith("no answer from http");
  expect(err).not.toContain("PRIVATE KEY");
});

test("explicit settings win: an address, an authority, a port", async () => {
  const nowhere = serverOf({ port: 1 });
  const url = stands.plain?.service.url ?? "";
  expect((await health(nowhere)).code).toBe(2);
  expect((await health(nowhere, { env: { STC_URL: url } })).code).toBe(0);
  expect((await health(nowhere, { words: ["--url", url] })).code).toBe(0);
  expect((await health(nowhere, { env: { STC_PORT: String(portOf("plain")) } })).code).toBe(0);
  const tls = serverOf({ port: portOf("tls"), tls: NAMED });
  const { code, err } = await health(tls, { words: ["--ca-file", join(folder, "own.pem")] });
  expect([code, err]).toEqual([2, expect.stringContaining("UNABLE_TO_VERIFY")]);
  const file = join(folder, "named.yaml");
  writeFileSync(file, serverOf({ port: portOf("plain") }));
  expect((await health(nowhere, { words: ["--config", file] })).code).toBe(0);
});

test.each(["server: [", "server: { port: no }", ""])(
  "a file that is being written (%j) does not make a healthy service unhealthy",
  async (text) => {
    expect((await health(text, { env: { STC_PORT: String(portOf("plain")) } })).code).toBe(0);
  },
);
