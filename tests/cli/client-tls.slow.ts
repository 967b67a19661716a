import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { clientTls } from "../../src/cli/connection.ts";
import { callHeaders, type IdentityStand, issuers, startIdentityService } from "../support/identity-service.ts";
import { type Ended, run, runStc, STC } from "../support/stc.ts";
import { Authority } from "../support/tls-files.ts";
import { AGENTS_ISSUER } from "../support/tokens.ts";

const SPIFFE = "spiffe://prod.example/ns/agents/sa/runner";

let folder: string;
let stand: IdentityStand;

const at = (name: string): string => join(folder, name);

/** A service that nobody reaches without a certificate. */
beforeAll(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-client-tls-")));
  const [servers, clients, strangers] = await Promise.all([
    Authority.create("servers"),
    Authority.create("clients"),
    Authority.create("strangers"),
  ]);
  const [server, runner, plain, stranger] = await Promise.all([
    servers.issue("server"),
    clients.issue("runner", { names: [{ type: "url", value: SPIFFE }] }),
    clients.issue("plain"),
    strangers.issue("stranger"),
  ]);
  const files: Readonly<Record<string, string>> = {
    ...{ "server.pem": server.cert, "server-key.pem": server.key },
    ...{ "servers.pem": servers.pem, "clients.pem": clients.pem, "strangers.pem": strangers.pem },
    ...{ "runner.pem": runner.cert, "runner-key.pem": runner.key },
    ...{ "plain.pem": plain.cert, "plain-key.pem": plain.key },
    ...{ "stranger.pem": stranger.cert, "stranger-key.pem": stranger.key },
    empty: "",
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(at(name), text);
  const { authorization = "" } = await callHeaders();
  writeFileSync(at("token"), authorization.slice("Bearer ".length));
  writeFileSync(at("operator"), await issuers.token({ kind: "operator", sub: "o", permissions: ["approvals:decide"] }));
  stand = await startIdentityService({
    folder,
    server: {
      tls: {
        ...{ certFile: "./server.pem", keyFile: "./server-key.pem" },
        ...{ clientCaFile: "./clients.pem", clientCertificates: "require" },
      },
    },
    jwt: {
      clientCertificates: [{ spiffeId: SPIFFE, issuer: AGENTS_ISSUER, subject: "runner", permissions: ["self:read"] }],
    },
    rest: { approvals: { store: "sqlite://./approvals.sqlite" } },
  });
});
afterAll(async () => {
  await stand.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Given {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly token?: string;
  readonly more?: Readonly<Record<string, string>>;
}

const place = (name: string | undefined): string | undefined => (name === undefined ? undefined : at(name));

/** As variables say it. */
function stc(words: readonly string[], { ca, cert, key, token, more }: Given): Promise<Ended> {
  const env = {
    STC_URL: stand.service.url,
    STC_CA_FILE: place(ca),
    STC_CLIENT_CERT_FILE: place(cert),
    STC_CLIENT_KEY_FILE: place(key),
    STC_TOKEN_FILE: place(token),
    ...more,
  };
  return runStc(words, { env });
}

const CALL = ["call", "whoami", "{}", "--json"] as const;
const PLAIN = { ca: "servers.pem", cert: "plain.pem", key: "plain-key.pem", token: "token" } as const;
const RUNNER = { ca: "servers.pem", cert: "runner.pem", key: "runner-key.pem" } as const;

describe("variables", () => {
  test.concurrent.each([
    ["a token, over a connection that shows a certificate", CALL, PLAIN, 0, '"status":"success"', ""],
    ["a certificate that stands for its caller, no token", CALL, RUNNER, 0, '"status":"success"', ""],
    ["a certificate that stands for nobody, no token", CALL, { ...PLAIN, token: undefined }, 1, "UNAUTHENTICATED", ""],
    ["health", ["health"], PLAIN, 0, "", ""],
    ["readiness", ["health", "--ready"], PLAIN, 0, "", ""],
    ["an operator's command", ["approvals", "list", "--json"], { ...PLAIN, token: "operator" }, 0, "approvals", ""],
    ["an authority that did not sign it", CALL, { ...PLAIN, ca: "strangers.pem" }, 2, "", "UNABLE_TO_VERIFY"],
    ["no authority", CALL, { ...PLAIN, ca: undefined }, 2, "", "UNABLE_TO_VERIFY"],
    ["no certificate", CALL, { ca: "servers.pem", token: "token" }, 2, "", "no answer from https://"],
    [
      "a certificate that the service does not trust",
      CALL,
      { ...PLAIN, cert: "stranger.pem", key: "stranger-key.pem" },
      2,
      "",
      "no answer from https://",
    ],
    [
      "no authority, where the environment switches verification off",
      CALL,
      { ...PLAIN, ca: undefined, more: { NODE_TLS_REJECT_UNAUTHORIZED: "0" } },
      2,
      "",
      "UNABLE_TO_VERIFY",
    ],
    [
      "health, where the environment switches verification off",
      ["health"],
      { more: { NODE_TLS_REJECT_UNAUTHORIZED: "0" } },
      2,
      "",
      "UNABLE_TO_VERIFY",
    ],
    ["a missing file", CALL, { ...PLAIN, ca: "nothing.pem" }, 64, "", "nothing.pem cannot be read (ENOENT)"],
    ["a certificate alone", CALL, { ...PLAIN, key: undefined }, 64, "", "belong together"],
    ["health with a missing file", ["health"], { ca: "nothing.pem" }, 64, "", "cannot be read (ENOENT)"],
    ["no token and no certificate", CALL, { ca: "servers.pem" }, 64, "", "no token: set STC_TOKEN_FILE"],
  ] as const)("%s", async (_title, words, given, code, out, err) => {
    const ended = await stc(words, given as Given);
    expect([ended.code, ended.err, ended.out]).toEqual([
      code,
      expect.stringContaining(err),
      expect.stringContaining(out),
    ]);
  });
});

test("flags come before variables", async () => {
  const flags = ["--ca-file", at("servers.pem"), "--client-cert-file", at("plain.pem")];
  const words = [...CALL, ...flags, "--client-key-file", at("plain-key.pem"), "--token-file", at("token")];
  const { code, out } = await stc(words, { ca: "nothing.pem", cert: "nothing.pem", key: "nothing.pem" });
  expect([code, JSON.parse(out)]).toEqual([0, expect.objectContaining({ status: "success" })]);
  const health = ["health", ...flags, "--client-key-file", at("plain-key.pem"), "--url", stand.service.url];
  expect(await runStc(health)).toEqual({ code: 0, out: "", err: "" });
});

test("a key may come through a pipe that the shell creates", async () => {
  const script = 'exec "$@" --client-key-file <(cat "$KEY")';
  const env = { STC_URL: stand.service.url, STC_CA_FILE: at("servers.pem"), STC_CLIENT_CERT_FILE: at("plain.pem") };
  const { code, out } = await run(["bash", "-c", script, "bash", ...STC, ...CALL, "--token-file", at("token")], {
    env: { ...env, KEY: at("plain-key.pem") },
  });
  expect([code, JSON.parse(out)]).toEqual([0, expect.objectContaining({ status: "success" })]);
});

describe("files", () => {
  test.each([
    ["no authority in it", { caFile: "empty" }, "empty does not contain a PEM certificate"],
    ["a key in the place of an authority", { caFile: "plain-key.pem" }, "does not contain a PEM certificate"],
    ["a key alone", { clientKeyFile: "plain-key.pem" }, "belong together"],
    [
      "no certificate in it",
      { clientCertFile: "empty", clientKeyFile: "plain-key.pem" },
      "empty does not contain a PEM certificate",
    ],
    [
      "no key in it",
      { clientCertFile: "plain.pem", clientKeyFile: "plain.pem" },
      "plain.pem does not contain a PEM private key",
    ],
    [
      "a key of another certificate",
      { clientCertFile: "plain.pem", clientKeyFile: "runner-key.pem" },
      "runner-key.pem is not the key of the first certificate in",
    ],
  ] as const)("%s", (_title, names, message) => {
    const options = Object.fromEntries(Object.entries(names).map(([key, name]) => [key, at(name)]));
    const read = () => clientTls(options, {});
    expect(read).toThrow(message);
    expect(read).not.toThrow("BEGIN");
  });

  test("are read again each time; while they do not match, the former ones apply", () => {
    const read = (name: string): string => readFileSync(at(name), "utf8");
    writeFileSync(at("cert"), read("plain.pem"));
    writeFileSync(at("key"), read("plain-key.pem"));
    const tls = clientTls({ clientCertFile: at("cert"), clientKeyFile: at("key") }, {});
    writeFileSync(at("cert"), read("runner.pem"));
    expect(tls.read()).toEqual({ rejectUnauthorized: true, cert: read("plain.pem"), key: read("plain-key.pem") });
    writeFileSync(at("key"), read("runner-key.pem"));
    expect(tls.read()).toEqual({ rejectUnauthorized: true, cert: read("runner.pem"), key: read("runner-key.pem") });
    rmSync(at("key"));
    expect(tls.read().key).toBe(read("runner-key.pem"));
  });

  test("named by an empty variable are ignored", () => {
    const empty = { STC_CA_FILE: "", STC_CLIENT_CERT_FILE: "", STC_CLIENT_KEY_FILE: "" };
    const tls = clientTls({}, empty);
    expect([tls.hasCertificate, tls.read()]).toEqual([false, { rejectUnauthorized: true }]);
  });
});
