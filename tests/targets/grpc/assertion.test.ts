import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHash, generateKeyPairSync, type KeyObject } from "node:crypto";
import { calculateJwkThumbprint, decodeProtectedHeader, exportJWK, jwtVerify } from "jose";
import { z } from "zod";
import { assertionSigner } from "../../../src/egress/assertion.ts";
import { createCallerVerifier } from "../../../src/pipeline/caller-context.ts";
import { publicKey } from "../../../src/pipeline/identity/issuer-keys.ts";
import { type GrpcHandler, grpcHandler } from "../../../src/targets/grpc/handler.ts";
import { call } from "./support/calls.ts";
import { type Lab, labSystem, startLab } from "./support/lab.ts";
import { labTool, runContext } from "./support/tool.ts";

const NOW = 1_800_000_000_500;
const ISSUER = "https://proxy.test";
const pem = (key: KeyObject): string => key.export({ type: "pkcs8", format: "pem" }).toString();

const KEYS = {
  ES256: generateKeyPairSync("ec", { namedCurve: "P-256" }),
  EdDSA: generateKeyPairSync("ed25519"),
} as const;

let ids = 0;
const signer = (algorithm: keyof typeof KEYS) =>
  assertionSigner({
    issuer: ISSUER,
    privateKey: pem(KEYS[algorithm].privateKey),
    now: () => NOW,
    newId: () => `id-${++ids}`,
  });

let lab: Lab;
const handlers: GrpcHandler[] = [];

beforeAll(async () => {
  lab = await startLab();
});
afterAll(async () => {
  await Promise.all(handlers.map((handler) => handler.close()));
  lab.close();
});

async function headers(
  algorithm: keyof typeof KEYS | undefined,
  subject = "agent-7",
  { actors = [], tenant }: { readonly actors?: readonly string[]; readonly tenant?: string } = {},
) {
  const sign = algorithm === undefined ? undefined : signer(algorithm);
  const handler = grpcHandler({ systems: new Map([["lab", labSystem(lab.port)]]), sign });
  handlers.push(handler);
  const caller = { ...runContext().caller, subject, actors, tenant };
  const answer = await call(handler.bind(labTool({ method: "Inspect" })), {}, runContext({ caller }));
  return z.object({ headers: z.record(z.string(), z.string()) }).parse(answer).headers;
}

describe("the service can verify who calls", () => {
  test.each(["ES256", "EdDSA"] as const)("%s", async (algorithm) => {
    const { "x-caller-assertion": token = "", authorization } = await headers(algorithm, "agent-7", {
      actors: ["bot-2", "bot-1"],
    });
    const { publicKey } = KEYS[algorithm];
    const { payload, protectedHeader } = await jwtVerify(token, publicKey, {
      issuer: ISSUER,
      audience: "lab",
      typ: "stc-assertion+jwt",
      algorithms: [algorithm],
      currentDate: new Date(NOW),
    });
    expect(protectedHeader.kid).toBe(await calculateJwkThumbprint(await exportJWK(publicKey)));
    expect(payload).toEqual({
      iss: ISSUER,
      aud: "lab",
      sub: "agent-7",
      callerIssuer: "https://idp.test",
      act: { sub: "bot-2", act: { sub: "bot-1" } },
      tool: "lab_tool",
      method: "/lab.v1.Lab/Inspect",
      messageSha256: createHash("sha256").update("").digest("hex"),
      traceId: runContext().traceId,
      jti: `id-${ids}`,
      iat: 1_800_000_000,
      exp: 1_800_000_060,
    });
    expect(authorization).toBeUndefined();
  });

  test("and to which tenant the caller belongs", async () => {
    const { "x-caller-assertion": token = "" } = await headers("ES256", "agent-7", { tenant: "acme" });
    const { payload } = await jwtVerify(token, KEYS.ES256.publicKey, { currentDate: new Date(NOW) });
    expect(payload).toMatchObject({ sub: "agent-7", tenant: "acme" });
  });

  test("for exactly this message", async () => {
    const handler = grpcHandler({ systems: new Map([["lab", labSystem(lab.port)]]), sign: signer("ES256") });
    handlers.push(handler);
    const seen: Uint8Array[] = [];
    const sign = async ({ message }: { readonly message: Uint8Array }) => {
      seen.push(message);
      return "x";
    };
    const own = grpcHandler({ systems: new Map([["lab", labSystem(lab.port)]]), sign });
    handlers.push(own);
    await call(own.bind(labTool({ method: "Echo", input: z.object({ text: z.string() }) })), { text: "abc" });
    expect(seen.map((message) => [...message])).toEqual([[10, 3, 97, 98, 99]]);
  });

  test("each with its own id", async () => {
    const tokens = [await headers("ES256"), await headers("ES256")].map((each) => each["x-caller-assertion"] ?? "");
    const jtis = tokens.map((token) => z.object({ jti: z.string() }).parse(payloadOf(token)).jti);
    expect(new Set(jtis).size).toBe(2);
  });

  test.each(["Zoë", "a\r\nx-caller-sub: root", "\u0000", "\u{1f600}"])("for any subject: %j", async (subject) => {
    const { "x-caller-assertion": token = "" } = await headers("EdDSA", subject);
    expect(payloadOf(token)).toMatchObject({ sub: subject });
  });

  test("none without a key", async () => {
    expect(await headers(undefined)).not.toHaveProperty("x-caller-assertion");
  });
});

function payloadOf(token: string): unknown {
  return JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
}

describe("is never accepted by our own endpoints", () => {
  const now = (): number => NOW;
  test.each(["agents", "operators"] as const)("%s", async (listener) => {
    const { "x-caller-assertion": token = "" } = await headers("ES256");
    expect(decodeProtectedHeader(token).typ).toBe("stc-assertion+jwt");
    // Even with an issuer, audience and key that the listener trusts.
    const callers = createCallerVerifier({
      clock: now,
      issuers: [
        {
          issuer: ISSUER,
          audience: "lab",
          algorithms: ["ES256"],
          operators: listener === "operators",
          keys: publicKey(KEYS.ES256.publicKey),
        },
      ],
    });
    const verified = callers.verifyToken(token, listener);
    await expect(verified).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
    await expect(verified).rejects.toHaveProperty("cause.message", expect.stringContaining("typ"));
  });
});

describe("a key that cannot sign", () => {
  const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const p384 = generateKeyPairSync("ec", { namedCurve: "P-384" });
  test.each([
    ["RSA", pem(rsa.privateKey), /P-256 or Ed25519/],
    ["P-384", pem(p384.privateKey), /P-256 or Ed25519/],
    ["a public key", KEYS.ES256.publicKey.export({ type: "spki", format: "pem" }).toString(), /no private key/],
    ["no PEM", "hello", /no private key/],
  ])("%s", (_title, privateKey, text) => {
    expect(() => assertionSigner({ issuer: ISSUER, privateKey, now: () => NOW, newId: () => "" })).toThrow(text);
  });
});
