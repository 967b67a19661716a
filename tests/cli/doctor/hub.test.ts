import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { DoctorStand, nextIn, seenIn } from "../../support/doctor.ts";
import { emptyFolder, type IdentityStand, issuers, startIdentityService } from "../../support/identity-service.ts";
import type { TokenKind } from "../../support/live-tokens.ts";
import { runStc } from "../../support/stc.ts";
import { Authority, type Pair } from "../../support/tls-files.ts";

/** That of tokens "other audience": agents' own tokens have another. */
const AUDIENCE = "another-service";
const SUBJECT = "system:serviceaccount:shop:agent";
const stand = new DoctorStand();
const nobody = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
const away = Number(nobody.port);
await nobody.stop(true);

let authority: Authority;
let pair: Pair;
let hub: IdentityStand;
let port: number;

/** The section of a hub whose files are in its folder. */
const sectionOf = (port: number) => ({
  listen: { port },
  tls: { certFile: "./hub.crt", keyFile: "./hub.key", clientCaFile: "./ca.pem" },
  tokens: [{ ...workloads(), audience: AUDIENCE }],
  members: [{ certificate: "spiffe://acme.test/agents/*" }, { subject: SUBJECT }],
});

function workloads(): object {
  const [{ issuer, jwks } = { issuer: "", jwks: {} }] = issuers.profiles() as { issuer: string; jwks: object }[];
  return { issuer, jwks, algorithms: ["ES256"] };
}

async function startHub(folder: string): Promise<IdentityStand> {
  for (const [name, text] of Object.entries({ "hub.crt": pair.cert, "hub.key": pair.key, "ca.pem": authority.pem })) {
    writeFileSync(join(folder, name), text, { mode: 0o600 });
  }
  const rest = { hub: sectionOf(0), approvals: { store: "sqlite://./approvals.sqlite" } };
  return startIdentityService({ folder, rest });
}

const portOf = ({ service }: IdentityStand): number => Number(new URL(service.hubUrl ?? "").port);

beforeAll(async () => {
  authority = await Authority.create("fleet");
  pair = await authority.issue("hub");
  hub = await startHub(emptyFolder());
  port = portOf(hub);
});
afterAll(async () => {
  await hub.close();
  stand.end();
});

async function memberWith(name: string, at = port): Promise<void> {
  const own = await authority.issue("member", { names: [{ type: "url", value: `spiffe://acme.test/${name}` }] });
  stand.file("ca.pem", authority.pem);
  stand.file("member.crt", own.cert);
  stand.file("member.key", own.key);
  const tls = { caFile: "./ca.pem", certFile: "./member.crt", keyFile: "./member.key" };
  stand.configure({ hub: { url: `https://localhost:${at}`, tls } });
}

async function memberWithToken(kind: TokenKind): Promise<void> {
  stand.file("ca.pem", authority.pem);
  stand.file("token", await issuers.token({ kind, sub: SUBJECT, permissions: [] }));
  stand.configure({ hub: { url: `https://localhost:${port}`, tls: { caFile: "./ca.pem" }, tokenFile: "./token" } });
}

test("a service that is neither a hub nor a member: the check does not apply", async () => {
  stand.configure();
  expect(await stand.check("hub")).toMatchObject({ status: "not applicable" });
});

describe("a member", () => {
  test("that the hub accepts is told its name there, and is not listed by it", async () => {
    await memberWith("agents/a");
    const result = await stand.check("hub");
    expect(result).toMatchObject({ status: "ok" });
    expect(seenIn(result)).toBe(
      `https://localhost:${port} answers, and knows this member as spiffe://acme.test/agents/a`,
    );
    await memberWithToken("other audience");
    expect(seenIn(await stand.check("hub"))).toContain(`knows this member as ${SUBJECT}@`);
    const token = await issuers.token({ kind: "operator", sub: "op", permissions: ["metrics:read"] });
    const answer = await fetch(`${hub.service.url}/members`, { headers: { authorization: `Bearer ${token}` } });
    expect(await answer.json()).toMatchObject({ members: [] });
  });

  test.each([
    [
      "a name that is not one of hub.members",
      () => memberWith("others/a"),
      "hub.members has none of the certificate's",
    ],
    ["a token for another audience", () => memberWithToken("good"), "the workload token is refused: "],
  ])("with %s fails, with the hub's reason", async (_, configure, reason) => {
    await configure();
    const result = await stand.check("hub");
    expect([result.status, seenIn(result), nextIn(result)]).toEqual([
      "failed",
      expect.stringContaining(reason),
      expect.stringContaining("hub.members"),
    ]);
  });

  test("whose hub is away, or has a certificate of another authority, fails", async () => {
    await memberWith("agents/a", away);
    const result = await stand.check("hub");
    expect([result.status, nextIn(result)]).toEqual([
      "failed",
      expect.stringContaining("docs/fleet.md#without-the-hub"),
    ]);
    await memberWith("agents/a");
    stand.file("ca.pem", (await Authority.create("other")).pem);
    expect(seenIn(await stand.check("hub"))).toMatch(/^https:\S+: .*SELF_SIGNED_CERT_IN_CHAIN/);
  });

  test("is told the same by stc check --connect", async () => {
    await memberWith("agents/a");
    const { code, out } = await runStc(["check", "--config", stand.configFile, "--connect"]);
    expect([code, out]).toEqual([0, expect.stringContaining("connected: hub.url, as spiffe://acme.test/agents/a\n")]);
    await memberWith("others/a");
    const refused = await runStc(["check", "--config", stand.configFile, "--connect"]);
    expect([refused.code, refused.err]).toEqual([78, expect.stringMatching(/hub\.url: hub\.members has none of/)]);
  });
});

describe("a hub", () => {
  const configure = (at: number): void =>
    stand.configure({ hub: sectionOf(at), approvals: { store: "sqlite://./approvals.sqlite" } });

  test("that runs: members reach its port, and get the certificate of the file", async () => {
    const running = await startHub(stand.folder);
    try {
      configure(portOf(running));
      const result = await stand.check("hub");
      expect([result.status, seenIn(result)]).toEqual([
        "ok",
        `127.0.0.1:${portOf(running)} takes connections of members\nmembers get the certificate of hub.tls.certFile`,
      ]);
      // A certificate without its key is not taken over.
      stand.file("hub.crt", (await authority.issue("hub")).cert);
      const another = await stand.check("hub");
      expect([another.status, seenIn(another)]).toEqual(["warning", expect.stringContaining("another certificate")]);
      configure(away);
      expect(await stand.check("hub")).toMatchObject({ status: "failed" });
    } finally {
      await running.service.drain();
    }
  });

  test("that does not run: its port is free, or in use by something else", async () => {
    configure(away);
    expect(seenIn(await stand.check("hub"))).toBe(`hub.listen: 127.0.0.1:${away} is free: the service does not run`);
    configure(port);
    const result = await stand.check("hub");
    expect([result.status, seenIn(result)]).toEqual([
      "failed",
      `127.0.0.1:${port} is in use, and no service runs here`,
    ]);
  });

  test("learns from stc check --connect, too, whether its port is in use, and which of its files cannot be used", async () => {
    const check = () => runStc(["check", "--config", stand.configFile, "--connect"]);
    for (const [name, text] of Object.entries({ "hub.crt": pair.cert, "hub.key": pair.key, "ca.pem": authority.pem })) {
      stand.file(name, text);
    }
    configure(away);
    const free = await check();
    expect([free.code, free.out]).toEqual([0, expect.stringContaining("free, or this service's own: hub.listen\n")]);
    configure(port);
    const taken = await check();
    const problem = `hub.listen: ${port} is in use, and this service does not run`;
    expect([taken.code, taken.err]).toEqual([78, expect.stringContaining(problem)]);
    const running = await startHub(stand.folder);
    try {
      configure(portOf(running));
      expect((await check()).code).toBe(0);
    } finally {
      await running.service.drain();
    }
    configure(away);
    const { key } = await authority.issue("hub");
    for (const [name, text, usable, problem] of [
      ["hub.key", key, pair.key, /hub\.tls: keyFile is not the key of/],
      ["ca.pem", "nothing", authority.pem, /hub\.tls: .*ca\.pem/],
      ["hub.crt", "nothing", pair.cert, /hub\.tls: .*hub\.crt/],
    ] as const) {
      stand.file(name, text);
      const { code, err } = await check();
      expect([code, err]).toEqual([78, expect.stringMatching(problem)]);
      stand.file(name, usable);
    }
  }, 60_000);
});
