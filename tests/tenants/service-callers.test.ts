import { afterAll, beforeAll, expect, test } from "bun:test";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openAuditLog } from "../../src/audit/audit-log.ts";
import { makeCertificates } from "../../src/cli/development/certificates.ts";
import { sha256Hex } from "../../src/core/digest.ts";
import { draftOf } from "../audit/support/open.ts";
import { runStc } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

/** Commands about a service know its own callers alone, although its section `jwt` lists those of its tenants first. */

const folder = mkdtempSync(join(tmpdir(), "stc-service-callers-"));
const service = join(folder, "stc.yaml");
const member = join(folder, "member.yaml");
const OF_TENANTS = "https://tenants.test";
const OWN = "https://platform.test";
const MACHINES = "https://machines.test";
const args = { order: "A-7" };

/** Refuses the callers of the tenants' issuer. */
const POLICIES = `permit (principal, action, resource);
forbid (principal in Issuer::"${OF_TENANTS}", action, resource);
`;
const FIXTURES = `tool: get_order
calls:
  - { args: { order: A-7 }, verdict: allow }
`;

const issuerOf = (issuer: string, subject: string) => ({
  issuer,
  jwksUri: `${issuer}/keys`,
  subjectPermissions: { [subject]: ["orders:read"] },
});
const machineOf = (subject: string, tenant?: string) => ({
  ...{ spiffeId: `spiffe://machines.test/${subject}`, issuer: MACHINES, subject, permissions: ["orders:read"] },
  ...(tenant !== undefined && { tenant }),
});

beforeAll(async () => {
  cpSync(join(PROJECT, "docs/examples/tenants/tools"), join(folder, "tools"), { recursive: true });
  const { rootCert, server } = await makeCertificates({ notBefore: new Date(0), notAfter: new Date("2099-01-01") });
  const files = {
    "tools/get-order.test.yaml": FIXTURES,
    "own.cedar": POLICIES,
    "ca.pem": rootCert,
    "cert.pem": server.cert,
    "key.pem": server.key,
    token: "a-token",
  };
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
  const systems = { orders: { http: { baseUrl: "https://orders.invalid" } } };
  const ofTenants = { ...issuerOf(OF_TENANTS, "theirs"), tenants: { names: ["acme"] } };
  const common = {
    ...{ tools: ["./tools"], systems, audit: { dir: "./audit" } },
    decisionPoints: [{ name: "own", cedar: { policiesFile: "./own.cedar" } }],
  };
  const configured = {
    ...common,
    server: { tls: { certFile: "./cert.pem", keyFile: "./key.pem", clientCaFile: "./ca.pem" } },
    jwt: {
      issuers: [ofTenants, issuerOf(OWN, "ours")],
      clientCertificates: [machineOf("their-machine", "acme"), machineOf("our-machine")],
    },
    tenants: { acme: { tools: ["./tools"], systems } },
  };
  writeFileSync(service, JSON.stringify(configured));
  const hub = { url: "https://hub.test:9789", tokenFile: "./token", tenant: "acme" };
  writeFileSync(member, JSON.stringify({ ...common, hub, jwt: { issuers: [ofTenants] } }));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const run = (file: string, ...words: readonly string[]) => runStc([...words, "--config", file]);
const planned = (file: string, ...words: readonly string[]) =>
  run(file, "plan", "get_order", JSON.stringify(args), ...words);

test("stc plan takes the only issuer of the service's own agents, and refuses that of tenants", async () => {
  const own = await planned(service, "--sub", "ours", "--json");
  expect([own.err, own.code]).toEqual(["", 0]);
  expect(JSON.parse(own.out).decisionPoints.own).toMatchObject({ answer: { verdict: "allow" } });
  const other = await planned(service, "--sub", "theirs", "--iss", OF_TENANTS);
  expect([other.code, other.err]).toEqual([64, expect.stringContaining(`--iss must name one of ${OWN}\n`)]);
});

test("stc check --matrix and stc access export list the service's own callers alone", async () => {
  const { matrix, verdicts } = JSON.parse((await run(service, "check", "--matrix", "--json")).out);
  expect(matrix.map(({ subjects }: { readonly subjects: unknown }) => subjects)).toEqual([["ours"]]);
  expect(verdicts[0].subjects).toMatchObject([{ iss: OWN, sub: "ours" }]);
  const { access } = JSON.parse((await run(service, "access", "export", "--format", "json")).out);
  expect(access.map(({ subject }: { readonly subject: string }) => subject).sort()).toEqual(["our-machine", "ours"]);
});

test("stc test and stc try call as an agent of the service itself", async () => {
  const tested = await run(service, "test");
  expect([tested.code, tested.err]).toEqual([0, ""]);
  const tried = JSON.parse((await run(service, "try", "get_order", JSON.stringify(args), "--json")).out);
  expect(tried.notApplied).toMatchObject({ verdict: "allow" });
});

test("a replay at the service judges recorded calls of tenants' callers as not authenticated", async () => {
  const log = openAuditLog({
    dir: join(folder, "audit"),
    ...{ instance: "test", clock: Date.now, durability: "write", queueEntriesMax: 10 },
  });
  const callers = [
    { iss: OF_TENANTS, sub: "theirs" },
    { iss: OWN, sub: "ours" },
    { iss: MACHINES, sub: "their-machine" },
    { iss: MACHINES, sub: "our-machine" },
  ];
  const sent = { args, argsHash: sha256Hex(JSON.stringify(args)), hashAlg: "sha256" } as const;
  for (const { iss, sub } of callers) {
    await log.append(
      draftOf(`t-${sub}`, {
        caller: { sub, permissions: ["orders:read"], iss },
        tool: { name: "get_order", classification: "read", targetSystem: "orders" },
        approval: { by: "auto" },
        request: sent,
      }),
    );
  }
  await log.close();
  const { changes, unchanged } = JSON.parse((await run(service, "replay", "--json")).out);
  expect(unchanged).toBe(2);
  expect(changes.map(({ sub, now }: Record<string, string>) => [sub, now]).sort()).toEqual([
    ["their-machine", "UNAUTHENTICATED"],
    ["theirs", "UNAUTHENTICATED"],
  ]);
});

test("a member of a tenant knows the tenant's callers, and its decision points see the tenant", async () => {
  const { out, err } = await planned(member, "--sub", "theirs", "--json");
  expect(err).toBe("");
  expect(JSON.parse(out).decisionPoints.own.asks).toMatchObject({ context: { claim_iss: OF_TENANTS, tenant: "acme" } });
  const explained = await run(member, "explain", "get_order", JSON.stringify(args), "--sub", "theirs", "--json");
  expect(JSON.parse(explained.out).caller).toMatchObject({ iss: OF_TENANTS, sub: "theirs" });
});
