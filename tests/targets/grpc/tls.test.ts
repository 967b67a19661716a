import { afterAll, beforeAll, expect, test } from "bun:test";
import { createHash, X509Certificate } from "node:crypto";
import { createServer, type Server } from "node:net";
import { type CertificateSet, makeCertificates } from "../../../src/cli/development/certificates.ts";
import { Refusal, StartupError } from "../../../src/core/errors.ts";
import type { ToolClassification } from "../../../src/core/types.ts";
import { type GrpcSystem, grpcHandler } from "../../../src/targets/grpc/handler.ts";
import { type Lab, labSystem, labTls, startLab } from "./support/lab.ts";
import { labTool, runContext } from "./support/tool.ts";

type Tls = NonNullable<GrpcSystem["tls"]>;

const YEAR_2000 = new Date(946_684_800_000);
const YEAR_2001 = new Date(978_307_200_000);
const YEAR_2100 = new Date(4_102_444_800_000);

let own: CertificateSet;
let foreign: CertificateSet;
let expired: CertificateSet;
let lab: Lab;
let expiredLab: Lab;

beforeAll(async () => {
  [own, foreign, expired] = await Promise.all([
    makeCertificates({ notBefore: YEAR_2000, notAfter: YEAR_2100 }),
    makeCertificates({ notBefore: YEAR_2000, notAfter: YEAR_2100 }),
    makeCertificates({ notBefore: YEAR_2000, notAfter: YEAR_2001 }),
  ]);
  lab = await startLab({ certificates: own });
  expiredLab = await startLab({ certificates: expired });
});

afterAll(() => {
  lab.close();
  expiredLab.close();
});

interface Try {
  readonly system: GrpcSystem;
  readonly classification?: ToolClassification;
  readonly signal?: AbortSignal;
}

async function ending({ system, classification = "read", signal }: Try): Promise<unknown> {
  const handler = grpcHandler({ systems: new Map([["lab", system]]) });
  const binding = handler.bind(labTool({ method: "Inspect", classification }));
  try {
    const context = runContext(signal === undefined ? {} : { signal });
    await binding.run(await binding.plan({}, context), context);
    return "answered";
  } catch (error) {
    return error instanceof Refusal ? error.code : error;
  } finally {
    await handler.close();
  }
}

test("both sides authenticate: the call is answered, and the plan names the identity", async () => {
  const system = labSystem(lab.port, { tls: labTls(own) });
  expect(await ending({ system })).toBe("answered");
  const handler = grpcHandler({ systems: new Map([["lab", system]]) });
  const plan = await handler.bind(labTool({ method: "Inspect" })).plan({}, runContext());
  const rootSha256 = createHash("sha256").update(new X509Certificate(own.rootCert).raw).digest("hex");
  expect(plan["tls"]).toEqual({ serverName: "customer-master-service.local", rootSha256: [rootSha256] });
});

test("a DNS name needs no server name", async () => {
  const { serverName: _, ...tls } = labTls(own);
  expect(await ending({ system: labSystem(lab.port, { tls, endpoint: `localhost:${lab.port}` }) })).toBe("answered");
});

const clientOf = ({ client }: CertificateSet): Pick<Tls, "clientCert" | "clientKey"> => ({
  clientCert: Buffer.from(client.cert),
  clientKey: Buffer.from(client.key),
});

test.each([
  ["another authority's server", () => ({ ...labTls(own), rootCert: Buffer.from(foreign.rootCert) })],
  ["no client certificate", () => ({ rootCert: Buffer.from(own.rootCert), serverName: "localhost" })],
  ["another authority's client certificate", () => ({ ...labTls(own), ...clientOf(foreign) })],
  ["another name in the server's certificate", () => ({ ...labTls(own), serverName: "ledger.local" })],
] as const)("%s: nothing is sent", async (_title, tls) => {
  const before = lab.calls();
  const system = labSystem(lab.port, { tls: tls() });
  expect(await ending({ system })).toBe("TARGET_UNAVAILABLE");
  expect(lab.calls()).toBe(before);
});

test("an expired server certificate", async () => {
  const tls = { ...labTls(expired), ...clientOf(own) };
  expect(await ending({ system: labSystem(expiredLab.port, { tls }) })).toBe("TARGET_UNAVAILABLE");
});

test("plain text to a TLS port, and TLS to a plain port", async () => {
  const plain = await startLab();
  expect(await ending({ system: labSystem(lab.port) })).toBe("TARGET_UNAVAILABLE");
  expect(await ending({ system: labSystem(plain.port, { tls: labTls(own) }) })).toBe("TARGET_UNAVAILABLE");
  plain.close();
});

test("a server that never completes the handshake: a change that timed out did not happen", async () => {
  const silent = await listen();
  const controller = new AbortController();
  silent.server.on("connection", () => controller.abort(new DOMException("too late", "TimeoutError")));
  const system = labSystem(silent.port, { tls: labTls(own) });
  expect(await ending({ system, classification: "write", signal: controller.signal })).toBe("TARGET_UNAVAILABLE");
  silent.server.close();
});

function listen(): Promise<{ readonly server: Server; readonly port: number }> {
  const server = createServer();
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      resolve({ server, port: typeof address === "object" && address !== null ? address.port : 0 });
    });
  });
}

test.each([
  ["a certificate without its key", () => ({ ...labTls(own), clientKey: undefined }), /belong together/],
  [
    "a key of another certificate",
    () => ({ ...labTls(own), clientKey: clientOf(foreign).clientKey }),
    /is not the key of/,
  ],
  [
    "a client certificate that is none",
    () => ({ ...labTls(own), clientCert: Buffer.from("x") }),
    /holds no PEM certificate/,
  ],
] as const)("%s does not start", (_title, make, text) => {
  const tls = Object.fromEntries(Object.entries(make()).filter(([, value]) => value !== undefined)) as unknown as Tls;
  const start = (): unknown => grpcHandler({ systems: new Map([["lab", labSystem(lab.port, { tls })]]) });
  expect(start).toThrow(StartupError);
  expect(start).toThrow(text);
});
