import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { decodeJwt, decodeProtectedHeader } from "jose";
import { DEVELOPMENT_SERVER_NAME } from "../../src/cli/development/certificates.ts";
import { type RunningService, startService } from "../../src/cli/service.ts";
import { readConfig } from "../support/build.ts";
import { LiveIssuers, type TokenKind } from "../support/live-tokens.ts";
import { until } from "../support/until.ts";
import { type Authority, makeAuthority } from "../targets/grpc/support/authority.ts";
import { LAB_PROTO_FOLDER, type Lab, startLab } from "../targets/grpc/support/lab.ts";

const MANIFESTS = `
import { defineTool, grpcMethod } from "safe-tool-call";
import { z } from "zod";
const shared = { classification: "read", permissions: { required: ["lab:use"] } };
export const inspect = defineTool({
  ...shared, name: "lab_inspect", description: "Inspect",
  input: z.strictObject({}),
  target: grpcMethod("lab", "lab.v1.Lab", "Inspect"),
  output: z.object({ headers: z.record(z.string(), z.string()) }), outputPolicy: { headers: "allow" }, scan: { headers: "off" },
});
export const list = defineTool({
  ...shared, name: "lab_list", description: "List",
  input: z.strictObject({ items: z.int() }),
  target: grpcMethod("lab", "lab.v1.Lab", "List", { stream: { itemsMax: 3, bytesMax: 1000 } }),
  output: z.object({ items: z.array(z.object({ label: z.string() })), truncated: z.boolean() }),
  outputPolicy: { "items[].label": "allow", truncated: "allow" },
});
`;

let folder: string;
let authority: Authority;
let lab: Lab;
let service: RunningService;
const issuers = new LiveIssuers();

const tlsPath = (name: string): string => join(folder, "tls", name);

async function installClient(): Promise<void> {
  const { cert, key } = await authority.client();
  writeFileSync(tlsPath("client.pem"), cert);
  writeFileSync(tlsPath("client-key.pem"), key);
}

beforeAll(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-grpc-")));
  for (const name of ["tls", "tools"]) mkdirSync(join(folder, name));
  authority = await makeAuthority("own");
  writeFileSync(tlsPath("ca.pem"), authority.rootCert);
  await installClient();
  const { privateKey } = generateKeyPairSync("ed25519");
  writeFileSync(join(folder, "assertion.pem"), privateKey.export({ type: "pkcs8", format: "pem" }));
  writeFileSync(join(folder, "tools", "lab.ts"), MANIFESTS);
  lab = await startLab({ certificates: await authority.set(), health: true });
  const tls = { rootCert: "tls/ca.pem", clientCert: "tls/client.pem", clientKey: "tls/client-key.pem" };
  const written = {
    server: { port: 0 },
    tools: ["./tools"],
    audit: { dir: "./audit" },
    jwt: { issuers: issuers.profiles() },
    systems: {
      lab: {
        endpoints: [`127.0.0.1:${lab.port}`],
        proto: LAB_PROTO_FOLDER,
        tls: { ...tls, serverName: DEVELOPMENT_SERVER_NAME },
        health: true,
        breaker: { failuresMax: 3, openMs: 200 },
      },
    },
    assertion: { issuer: "https://proxy.test", keyFile: "assertion.pem" },
    log: { level: "silent" },
  };
  service = await startService(readConfig(written, { folder, environment: {}, origin: "test" }));
});

afterAll(async () => {
  await service.drain();
  lab.close();
  rmSync(folder, { recursive: true, force: true });
});

async function tokenOf(kind: TokenKind, permissions: readonly string[]): Promise<Record<string, string>> {
  const authorization = await issuers.authorization({ kind, sub: "somebody", permissions });
  return authorization === undefined ? {} : { authorization };
}

async function callTool(tool: string, args: unknown): Promise<Record<string, unknown>> {
  const headers = { ...(await tokenOf("good", ["lab:use"])), "content-type": "application/json" };
  const response = await fetch(`${service.url}/call`, {
    method: "POST",
    headers,
    body: JSON.stringify({ tool, args }),
  });
  return (await response.json()) as Record<string, unknown>;
}

function journal(): readonly Record<string, unknown>[] {
  const place = join(folder, "audit", "journal");
  return readdirSync(place)
    .filter((name) => name.endsWith(".jsonl"))
    .flatMap((name) => readFileSync(join(place, name), "utf8").split("\n").slice(0, -1))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe("/readyz", () => {
  const ready = async (headers: Record<string, string>): Promise<unknown> => {
    const response = await fetch(`${service.url}/readyz`, { headers });
    expect(response.status).toBe(200);
    return response.json();
  };

  test.each([
    ["nobody", "none", []],
    ["an agent", "good", ["metrics:read"]],
    ["an operator who may not read metrics", "operator", ["audit:read"]],
    ["a forged token", "other key", ["metrics:read"]],
    ["an expired token", "expired", ["metrics:read"]],
  ] as const)("tells %s only that it is ready", async (_title, kind, permissions) => {
    expect(await ready(await tokenOf(kind, permissions))).toEqual({ status: "ready" });
  });

  test("gives no details to a web page", async () => {
    const headers = { ...(await tokenOf("operator", ["metrics:read"])), origin: "https://evil.example" };
    expect(await ready(headers)).toEqual({ status: "ready" });
  });

  test("tells operators the state of each system", async () => {
    await callTool("lab_inspect", {});
    expect(await ready(await tokenOf("operator", ["metrics:read"]))).toEqual({
      status: "ready",
      audit: { status: "ok" },
      halts: { scope: "process", status: "ok", active: 0 },
      systems: {
        lab: {
          state: "READY",
          circuit: "closed",
          health: "SERVING",
          certificateExpiresAt: "2100-01-01T00:00:00.000Z",
          calls: { inFlight: 0, max: 256 },
        },
      },
    });
  });
});

test("the service gets an assertion of the caller, and never the agent's token", async () => {
  const { result } = (await callTool("lab_inspect", {})) as { result: { headers: Record<string, string> } };
  const { "x-caller-assertion": token = "" } = result.headers;
  expect(decodeProtectedHeader(token)).toMatchObject({ alg: "EdDSA", typ: "stc-assertion+jwt" });
  const claims = decodeJwt(token);
  expect(claims).toMatchObject({ iss: "https://proxy.test", aud: "lab", sub: "somebody", tool: "lab_inspect" });
  expect((claims.exp ?? 0) - (claims.iat ?? 0)).toBe(60);
  expect(Object.keys(result.headers)).not.toContain("authorization");
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const body = JSON.stringify({ tool: "lab_inspect", args: {} });
  expect((await fetch(`${service.url}/call`, { method: "POST", headers, body })).status).toBe(401);
});

test("a stream is answered as a list, through the output policy", async () => {
  expect(await callTool("lab_list", { items: 2 })).toMatchObject({
    status: "success",
    result: { items: [{ label: "1" }, { label: "2" }], truncated: false },
  });
  expect(await callTool("lab_list", { items: 9 })).toMatchObject({
    status: "success",
    result: { items: { length: 3 }, truncated: true },
  });
});

test("an exchange of certificates is in the journal", async () => {
  await installClient();
  const line = await until("the journal's line", () => journal().find(({ type }) => type === "certificates.changed"));
  expect(line).toMatchObject({ system: "lab", expiresAt: "2100-01-01T00:00:00.000Z" });
  expect(await callTool("lab_inspect", {})).toMatchObject({ status: "success" });
});

test("a killed service is reported as unavailable; once it is back, calls succeed again", async () => {
  const { port } = lab;
  lab.close();
  const lost = await until("the circuit to open", async () => {
    const got = (await callTool("lab_inspect", {})) as { error: { code: string; retryAfterMs?: number } };
    expect(got).toMatchObject({ status: "error", error: { code: "TARGET_UNAVAILABLE", retryable: true } });
    return got.error.retryAfterMs;
  });
  expect(lost).toBe(200);
  lab = await startLab({ certificates: await authority.set(), health: true, port });
  await until("an answer", async () => {
    const { status } = await callTool("lab_inspect", {});
    return status === "success" ? status : undefined;
  });
});
