import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { StartupError } from "../../src/core/errors.ts";
import { MODULES } from "../../src/modules.ts";
import { readIssuers } from "../../src/runtime/composition/identity.ts";
import type { Config } from "../../src/runtime/config/config.ts";
import { inspectRepository } from "../../src/targets/command/git-repository.ts";
import { readRepositories, resolveCommands } from "../../src/targets/command/kind.ts";
import { readConfigFile } from "../support/build.ts";
import { contextFor } from "../support/kinds.ts";
import { makeSigningKey } from "../support/tokens.ts";
import { temporaryDirectory } from "../targets/command/temporary-directory.ts";

const folder = temporaryDirectory();
const file = join(folder, "stc.yaml");

const LINES = {
  tools: "tools: [./tools]",
  audit: "audit: { dir: ./audit }",
  jwt: "jwt: { issuers: [{ issuer: https://idp.example, jwksFile: ./jwks.json }] }",
};

/** A configuration with these lines instead of, or beside, the good ones. */
function yaml(changes: Readonly<Record<string, string>> = {}): string {
  return `${Object.values({ ...LINES, ...changes }).join("\n")}\n`;
}

function read(text: string): Config {
  writeFileSync(file, text);
  return readConfigFile(file, { PATH: process.env["PATH"] });
}

function problemsOf(text: string): readonly string[] {
  try {
    read(text);
    return [];
  } catch (error) {
    if (!(error instanceof StartupError)) throw error;
    return error.problems.map((problem) => problem.replace(`${file}: `, ""));
  }
}

const grpc = (rest: string): string => yaml({ systems: `systems: { s: { proto: ./proto, ${rest} } }` });

describe("configurations that platform engineers write are accepted", () => {
  test.each([
    ["comments and a section that is commented out", `# ours\n${yaml({ limits: "limits:\n#  x: 1", log: "log:" })}`],
    ["no list of a system yet", yaml({ systems: "systems:\n  git:\n" })],
    ["Windows line ends", yaml().replaceAll("\n", "\r\n")],
    ["a byte order mark", `\ufeff${yaml()}`],
    ["a host", grpc("endpoint: 'orders.svc:9090', plaintext: true")],
    ["an IPv6 address", grpc("endpoint: '[::1]:9090', plaintext: true")],
    ["the dns resolver", grpc("endpoint: 'dns:///orders.svc:9090', plaintext: true")],
    ["an absolute path", yaml({ audit: "audit: { dir: /var/lib/stc/audit }" })],
    ["a name with dots, dash and underscore", yaml({ systems: "systems: { team: { namespaces: [a.b, c-d, e_f] } }" })],
  ] as const)("%s", (_title, text) => {
    expect(problemsOf(text)).toEqual([]);
  });
});

const SCHEME = "must be host:port or [IPv6]:port: no scheme, no Unix socket";

describe("a typical mistake is named so that it can be fixed", () => {
  test.each([
    ["an empty file", "", "(top level): must be a table of keys and values (it is empty)"],
    ["a list", "- tools", "(top level): must be a table of keys and values"],
    ["an anchor", yaml({ x: "x: &a 1\ny: *a" }), "YAML aliases (*name) are not supported: write the value out"],
    ["two documents", `${yaml()}---\n${yaml()}`, "holds several YAML documents: keep one"],
    ["a tab", "server:\n\tport: 1\n", "Tabs are not allowed as indentation at line 2, column 1"],
    ["a key twice", yaml({ again: "audit: { dir: ./b }" }), "has the key audit twice in one table (line 4)"],
    ["a section left out", yaml({ audit: "" }), "audit: is missing; it is a table of keys and values"],
    ["text for a section", yaml({ audit: "audit: ./audit" }), "audit: must be a table of keys and values"],
    ["text for a list", yaml({ tools: "tools: ./tools" }), "tools: must be a list: [first, second]"],
    [
      "a number in quotes",
      yaml({ server: 'server: { port: "80" }' }),
      "server.port: must be a number from 0 to 65535, without quotes, or off",
    ],
    ["a misspelt key", yaml({ server: "server: { prot: 1 }" }), "server.prot: is not a known key; did you mean port?"],
    [
      "a misspelt section",
      yaml({ x: "comands: { allowed: [] }" }),
      "comands: is not a known key; did you mean commands?",
    ],
    ["too few", yaml({ x: "limits: { concurrentCallsMax: 0 }" }), "limits.concurrentCallsMax: must be at least 1"],
    ["too many", yaml({ x: "server: { port: 0, bodyDepthMax: 1000 }" }), "server.bodyDepthMax: must be at most 256"],
    ["too short", yaml({ x: "audit: { dir: '' }", audit: "" }), "audit.dir: must have at least 1 character"],
    [
      "a collector without scheme",
      yaml({ x: "telemetry: { traces: { endpoint: 'collector:4318' } }" }),
      "telemetry.traces.endpoint: must be a URL that begins with https:// or http://",
    ],
    [
      "the shell's home",
      yaml({ audit: "audit: { dir: ~/audit }" }),
      "audit.dir: ~ and variables are not expanded here",
    ],
    ["a variable", yaml({ audit: `audit: { dir: "$\{DIR}" }` }), "audit.dir: ~ and variables are not expanded here"],
    ["no audit", yaml({ audit: "audit: { dir: ./a, enabled: false }" }), "audit.enabled: cannot be set: the audit is"],
    [
      "a symmetric algorithm",
      yaml({ jwt: "jwt: { issuers: [{ issuer: x, algorithms: [HS256], jwksFile: x }] }" }),
      "jwt.issuers[0].algorithms[0]: must be one of ES256, ES384",
    ],
    [
      "a URL without scheme",
      yaml({ jwt: "jwt: { issuers: [{ issuer: x, jwksUri: idp.example/jwks }] }" }),
      "jwt.issuers[0].jwksUri: must be a URL that begins with https://",
    ],
    ["a Unix socket", grpc("endpoint: 'unix:/run/x.sock', plaintext: true"), `systems.s.endpoint: ${SCHEME}`],
    ["a URL for an endpoint", grpc("endpoint: 'http://x:80', plaintext: true"), `systems.s.endpoint: ${SCHEME}`],
    ["an endpoint without port", grpc("endpoint: orders, plaintext: true"), `systems.s.endpoint: ${SCHEME}`],
    ["IPv6 without brackets", grpc("endpoint: '::1:9090', plaintext: true"), `systems.s.endpoint: ${SCHEME}`],
    [
      "a misspelt endpoint",
      grpc("endpont: 'x:1', plaintext: true"),
      "systems.s.endpont: is not a known key; did you mean endpoint?",
    ],
    ["no endpoint", grpc("plaintext: true"), "systems.s.endpoint: is missing; it is text"],
    ["plaintext: false", grpc("endpoint: 'x:1', plaintext: false"), "systems.s.plaintext: must be true, or left out"],
    [
      "a header's name",
      grpc("endpoint: 'x:1', plaintext: true, metadata: { X-Team: a }"),
      "systems.s.metadata.X-Team: is not a usable key: it must be a lower-case header name",
    ],
    [
      "a list's odd name",
      yaml({ systems: "systems: { git: { repositories: { 'a b': . } } }" }),
      "systems.git.repositories.a b: is not a usable key: it must be a name of letters",
    ],
  ] as const)("%s", (_title, text, want) => {
    expect(problemsOf(text)[0]).toStartWith(want);
  });
});

test("several misspelt keys are each reported with their own suggestion", () => {
  expect(problemsOf(yaml({ server: "server: { prot: 1, hots: x, whatever: 1 }" }))).toEqual([
    "server.prot: is not a known key; did you mean port?",
    "server.hots: is not a known key; did you mean host?",
    "server.whatever: is not a known key",
  ]);
});

describe("the files that are named", () => {
  const { jwk, publicKey, privateKey } = makeSigningKey("RS256", "rsa-1");
  const ec = makeSigningKey("ES256", "ec-1");
  const files = {
    "key.pem": publicKey.export({ type: "spki", format: "pem" }),
    "pkcs1.pem": publicKey.export({ type: "pkcs1", format: "pem" }),
    "private.pem": privateKey.export({ type: "pkcs8", format: "pem" }),
    "jwks.json": JSON.stringify({
      keys: [{ kty: "future" }, ec.jwk, { ...jwk, use: "enc" }, jwk, { ...jwk, alg: "PS512" }],
    }),
    "notes.txt": "hello",
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);

  function issuerProblems(profile: string): readonly string[] {
    const problems: string[] = [];
    readIssuers(
      read(yaml({ jwt: `jwt: { issuers: [{ issuer: https://idp.example, ${profile} }] }` })),
      MODULES,
      problems,
    );
    return problems;
  }

  test.each([
    "jwksFile: ./jwks.json",
    "jwksFile: ./jwks.json, algorithms: [PS512]",
    "publicKeyFile: ./key.pem, algorithms: [RS256, PS256]",
    "publicKeyFile: ./pkcs1.pem",
  ])("%s is accepted", (profile) => {
    expect(issuerProblems(profile)).toEqual([]);
  });

  test.each([
    ["jwksFile: ./key.pem", "jwksFile: ./key.pem: is PEM, not JSON: name it as publicKeyFile"],
    ["jwksFile: ./notes.txt", "jwksFile: ./notes.txt: is not JSON"],
    ["jwksFile: ./gone.json", "jwksFile: ./gone.json cannot be read (ENOENT)"],
    ["publicKeyFile: ./private.pem", "publicKeyFile: ./private.pem: a private or secret key: give only the public key"],
    ["publicKeyFile: ./notes.txt", "publicKeyFile: ./notes.txt: not a public key or certificate in PEM"],
    ["publicKeyFile: ./key.pem, algorithms: [ES256]", "publicKeyFile: ./key.pem: no key fits ES256"],
  ])("%s is named with its field and file", (profile, want) => {
    expect(issuerProblems(profile)).toEqual([`jwt.issuers[0].${want}`]);
  });

  test.each([
    ["nosuchprogram", "no program nosuchprogram was found on the service's PATH"],
    ["./bin/tool", "./bin/tool must be a plain program name such as git, or an absolute path"],
    ["git log", "git log must be a plain program name such as git, or an absolute path"],
    ["/nonexistent/tool", "no program /nonexistent/tool was found"],
  ])("the command %p", (allowed, want) => {
    const problems: string[] = [];
    resolveCommands(contextFor(read(yaml({ commands: `commands: { allowed: ["${allowed}"] }` })), "cli", problems));
    expect(problems).toEqual([`commands.allowed[0]: ${want}`]);
  });

  test.each([
    ["[payments]", "systems.git.repositories: must map names to directories: { payments: /srv/git/payments }"],
    ["{ payments: ./gone }", "systems.git.repositories.payments: ./gone: there is no such directory"],
  ])("repositories %s", (repositories, want) => {
    const problems: string[] = [];
    readRepositories(
      contextFor(read(yaml({ systems: `systems: { git: { repositories: ${repositories} } }` })), "cli", problems),
    );
    expect(problems).toEqual([want]);
  });

  test.each([
    ["objects/info/alternates", "run `git repack -a -d` in it, then remove that file"],
    ["commondir", "it is a part of another repository; name that one"],
  ])("a repository with %s gets an instruction", (lent, want) => {
    const directory = temporaryDirectory();
    for (const part of ["objects/info", "refs"]) mkdirSync(join(directory, part), { recursive: true });
    writeFileSync(join(directory, "HEAD"), "ref: refs/heads/main\n");
    writeFileSync(join(directory, lent), "/elsewhere\n");
    expect(inspectRepository(directory)).toEqual({ fault: expect.stringContaining(want) });
  });
});
