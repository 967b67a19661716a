import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DEVELOPMENT_SERVER_NAME, type PemPair } from "../../../../src/cli/development/certificates.ts";
import type { CertificateEvent } from "../../../../src/core/target-kind.ts";
import { certificateFiles } from "../../../../src/egress/rotation.ts";
import { type GrpcHandler, grpcHandler } from "../../../../src/targets/grpc/handler.ts";
import { until } from "../../../support/until.ts";
import { makeAuthority } from "../support/authority.ts";
import { call, refusal } from "../support/calls.ts";
import { FILES } from "../support/files.ts";
import { type Lab, labSystem, startLab } from "../support/lab.ts";
import { rotateUnderLoad } from "../support/rotation-load.ts";
import { labTool, runContext } from "../support/tool.ts";

const NOW = 1_800_000_000_000;
const VALID_UNTIL = 4_102_444_800_000;
const at = (ms: number): Date => new Date(ms);
const EXPIRED = { notBefore: at(946_684_800_000), notAfter: at(978_307_200_000) };
const FUTURE = { notBefore: at(4_000_000_000_000), notAfter: at(4_102_444_800_000) };

/** Root and client certificates of one authority. */
interface Installed {
  readonly rootCert: string;
  readonly client: PemPair;
}

let first: Installed;
let second: Installed;
let foreign: Installed;
let expired: Installed;
let future: Installed;
let lab: Lab;

beforeAll(async () => {
  const [own, other] = await Promise.all([makeAuthority("own"), makeAuthority("other")]);
  const { rootCert } = own;
  const [one, two, old, early, strange] = await Promise.all([
    own.client(),
    own.client(),
    own.client(EXPIRED),
    own.client(FUTURE),
    other.client(),
  ]);
  first = { rootCert, client: one };
  second = { rootCert, client: two };
  expired = { rootCert, client: old };
  future = { rootCert, client: early };
  foreign = { rootCert: other.rootCert, client: strange };
  lab = await startLab({ certificates: await own.set() });
});
afterAll(() => lab.close());

let folder: string;
let handler: GrpcHandler;
let events: CertificateEvent[];
let now = NOW;
let generation = 0;

/** Like a mounted secret: `ca.pem` → `..data/ca.pem`, and `..data` is a link that is replaced as a whole. */
function install({ rootCert, client }: Installed): void {
  generation += 1;
  const name = `..generation-${generation}`;
  mkdirSync(join(folder, name));
  writeFileSync(join(folder, name, "ca.pem"), rootCert);
  writeFileSync(join(folder, name, "client.pem"), client.cert);
  writeFileSync(join(folder, name, "client-key.pem"), client.key);
  symlinkSync(name, join(folder, "..next"));
  renameSync(join(folder, "..next"), join(folder, "..data"));
}

let touches = 0;

/** Rewrites the files without a change. */
function touch(): void {
  touches += 1;
  utimesSync(join(folder, "client.pem"), touches, touches);
}

const clientOf = ({ client }: Installed) => ({ rootCert: first.rootCert, client });
const fingerprint = ({ client }: Installed): string => new X509Certificate(client.cert).fingerprint256;

function start(initial: Installed = first, through = ""): void {
  install(clientOf(initial));
  const names = ["ca.pem", "client.pem", "client-key.pem"] as const;
  for (const name of names) symlinkSync(`..data/${name}`, join(folder, name));
  const [rootCert, clientCert, clientKey] = names.map((name) => join(folder, through, name)) as [
    string,
    string,
    string,
  ];
  const source = certificateFiles({ rootCert, clientCert, clientKey, serverName: DEVELOPMENT_SERVER_NAME }, FILES);
  const system = labSystem(lab.port, { tls: source.read(), certificates: source });
  handler = grpcHandler({ systems: new Map([["lab", system]]) });
  events = [];
  now = NOW;
  handler.watch({ now: () => now, report: (event) => events.push(event) });
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "stc-rotation-"));
});
afterEach(async () => {
  await handler.close();
  rmSync(folder, { recursive: true, force: true });
});

async function peer(classification: "read" | "write" = "read"): Promise<string> {
  const answer = await call(handler.bind(labTool({ method: "Inspect", classification })), {});
  return (answer as { headers: Record<string, string> }).headers["lab-peer"] ?? "";
}

const reported = (type: CertificateEvent["type"]): Promise<CertificateEvent> =>
  until(type, () => events.find((event) => event.type === type));

describe("new certificates", () => {
  test("are used for the following calls, on every channel; calls in progress are not affected", async () => {
    start();
    expect([await peer(), await peer("write")]).toEqual([fingerprint(first), fingerprint(first)]);
    const controller = new AbortController();
    const hanging = handler.bind(labTool({ method: "Hang" }));
    const plan = await hanging.plan({}, { signal: controller.signal });
    const work = refusal(hanging.run(plan, runContext({ signal: controller.signal })));
    await lab.hangBegun();
    install(clientOf(second));
    expect(await reported("certificates.changed")).toEqual({
      type: "certificates.changed",
      system: "lab",
      expiresAt: "2100-01-01T00:00:00.000Z",
      rootSha256: [expect.stringMatching(/^[0-9a-f]{64}$/)],
    });
    expect([await peer(), await peer("write")]).toEqual([fingerprint(second), fingerprint(second)]);
    controller.abort(new DOMException("disconnected", "AbortError"));
    expect((await work).code).toBe("CANCELLED");
    await lab.hangCancelled();
  });

  test("are used before the first call too, and again", async () => {
    start();
    install(clientOf(second));
    await reported("certificates.changed");
    expect(await peer()).toBe(fingerprint(second));
    events = [];
    install(clientOf(first));
    await reported("certificates.changed");
    expect(await peer()).toBe(fingerprint(first));
  });

  test("are found where the configuration names the folder that is exchanged", async () => {
    start(first, "..data");
    expect(await peer()).toBe(fingerprint(first));
    for (const set of [second, first]) {
      events = [];
      install(clientOf(set));
      await reported("certificates.changed");
      expect(await peer()).toBe(fingerprint(set));
    }
  });

  test("are found in a folder that was removed and created again, each time", async () => {
    start();
    for (const set of [second, first]) {
      events = [];
      const links = ["ca.pem", "client.pem", "client-key.pem"];
      rmSync(folder, { recursive: true });
      expect((await reported("certificates.refused")).reason).toMatch(/cannot be read \(ENOENT\)/);
      expect(await peer()).toMatch(/./);
      mkdirSync(folder);
      for (const name of links) symlinkSync(`..data/${name}`, join(folder, name));
      install(clientOf(set));
      await reported("certificates.changed");
      expect(await peer()).toBe(fingerprint(set));
    }
  });

  test("are found where files are overwritten one at a time", async () => {
    start();
    expect(await peer()).toBe(fingerprint(first));
    writeFileSync(join(folder, "client.pem"), second.client.cert);
    await reported("certificates.refused");
    writeFileSync(join(folder, "client-key.pem"), second.client.key);
    await reported("certificates.changed");
    expect(await peer()).toBe(fingerprint(second));
    expect(readFileSync(join(folder, "..data", "client.pem"), "utf8")).toBe(second.client.cert);
  });

  test("are named in plans", async () => {
    start();
    const binding = handler.bind(labTool({ method: "Inspect" }));
    const before = (await binding.plan({}, { signal: new AbortController().signal }))["tls"];
    install({ rootCert: first.rootCert + foreign.rootCert, client: first.client });
    await reported("certificates.changed");
    const after = (await binding.plan({}, { signal: new AbortController().signal }))["tls"];
    expect(before).toMatchObject({ rootSha256: { length: 1 } });
    expect(after).toMatchObject({ rootSha256: { length: 2 } });
  });

  test("replace a set that no longer made connections", async () => {
    start(expired);
    expect(events.map(({ type }) => type)).toEqual(["certificates.expired"]);
    expect((await refusal(peer())).code).toBe("TARGET_UNAVAILABLE");
    install(clientOf(second));
    await reported("certificates.changed");
    expect(await until("a call to get through", () => peer().catch(() => undefined))).toBe(fingerprint(second));
  });
});

describe("an invalid set is refused once, and the old one stays in use", () => {
  const broken = { cert: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" };
  test.each([
    ["a key of another certificate", () => ({ cert: second.client.cert, key: first.client.key }), /is not the key of/],
    ["an expired certificate", () => expired.client, /has expired/],
    ["a certificate of the future", () => future.client, /not valid yet/],
    ["no certificate", () => ({ cert: "", key: second.client.key }), /holds no PEM/],
    ["a broken certificate", () => ({ ...broken, key: second.client.key }), /./],
    ["a broken key", () => ({ cert: second.client.cert, key: "no key" }), /./],
    ["one that the service does not trust", () => foreign.client, /no connection could be made/],
  ] as const)("%s", async (_title, client, reason) => {
    start();
    expect(await peer()).toBe(fingerprint(first));
    install({ rootCert: first.rootCert, client: client() });
    const { reason: message } = await reported("certificates.refused");
    expect(message).toMatch(reason);
    expect(JSON.stringify(events)).not.toContain("PRIVATE");
    expect(await peer()).toBe(fingerprint(first));
    touch();
    install(clientOf(second));
    await reported("certificates.changed");
    expect(await peer()).toBe(fingerprint(second));
    expect(events.filter(({ type }) => type === "certificates.refused")).toHaveLength(1);
  });

  test("roots that did not issue the service's certificate", async () => {
    start();
    await peer();
    install({ rootCert: foreign.rootCert, client: first.client });
    expect((await reported("certificates.refused")).reason).toMatch(/no connection/);
    expect(await peer()).toBe(fingerprint(first));
  });

  test("a missing file", async () => {
    start();
    await peer();
    rmSync(join(folder, "client.pem"));
    expect((await reported("certificates.refused")).reason).toMatch(/cannot be read \(ENOENT\)/);
    expect(await peer()).toBe(fingerprint(first));
  });
});

test.each(["ca.pem", "client.pem", "client-key.pem"])("a pipe instead of %s does not block", async (name) => {
  start();
  await peer();
  rmSync(join(folder, name));
  expect(Bun.spawnSync(["mkfifo", join(folder, name)]).exitCode).toBe(0);
  expect((await reported("certificates.refused")).reason).toMatch(/cannot be read \(a pipe\)/);
  expect(await peer()).toBe(fingerprint(first));
  rmSync(join(folder, name));
  symlinkSync(`..data/${name}`, join(folder, name));
  install(clientOf(second));
  await reported("certificates.changed");
  expect(await peer()).toBe(fingerprint(second));
});

test("a certificate that ends without a successor is reported once", async () => {
  start();
  now = VALID_UNTIL;
  touch();
  expect(await reported("certificates.expired")).toMatchObject({ expiresAt: "2100-01-01T00:00:00.000Z" });
  touch();
  now = NOW;
  install(second);
  await reported("certificates.changed");
  expect(events.map(({ type }) => type)).toEqual(["certificates.expired", "certificates.changed"]);
});

test("certificates are exchanged under load, and no call is lost", async () => {
  const { answered, refused, identities, events } = await rotateUnderLoad({
    seconds: 3,
    callsPerSecond: 1_000,
    rotations: 3,
  });
  expect(refused).toEqual([]);
  expect(answered).toBe(3_000);
  expect(new Set(events)).toEqual(new Set(["certificates.changed"]));
  expect(identities).toBe(events.length + 1);
  expect(events.length).toBeGreaterThan(1);
});
