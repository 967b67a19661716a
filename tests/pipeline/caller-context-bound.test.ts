import { describe, expect, test } from "bun:test";
import { Refusal } from "../../src/core/errors.ts";
import { type Audience, type CallerVerifierOptions, createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import type { ClientCertificate } from "../../src/pipeline/identity/binding.ts";
import { readRevocations } from "../../src/pipeline/identity/revocations.ts";
import {
  AGENTS_ISSUER,
  agentsProfile,
  goodClaims,
  issueToken,
  makeSigningKey,
  NOW_SECONDS,
} from "../support/tokens.ts";

const key = makeSigningKey("ES256", "es-1");
const NOW_MS = NOW_SECONDS * 1000;
const OURS = "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2";
const OTHER = `A${OURS.slice(1)}`;
const SPIFFE = "spiffe://prod.example/ns/agents/sa/runner";

const certificate = (changes: Partial<ClientCertificate> = {}): ClientCertificate => ({
  thumbprint: OURS,
  spiffeId: SPIFFE,
  notBeforeMs: NOW_MS - 1_000,
  notAfterMs: NOW_MS + 1_000,
  ...changes,
});

function stand(options: Partial<CallerVerifierOptions> = {}) {
  return createCallerVerifier({ issuers: [agentsProfile([key])], clock: () => NOW_MS, ...options });
}

async function outcome(verified: Promise<{ readonly caller: { readonly subject: string } }>): Promise<string> {
  try {
    return (await verified).caller.subject;
  } catch (error) {
    if (error instanceof Refusal) return error.code;
    throw error;
  }
}

describe("a token that is bound to a certificate (RFC 8705)", () => {
  const bound = { "x5t#S256": OURS };
  const rows: readonly (readonly [string, unknown, ClientCertificate | undefined, string])[] = [
    ["on a connection of that certificate", bound, certificate(), "agent-7"],
    ["on a connection without one", bound, undefined, "UNAUTHENTICATED"],
    ["on a connection of another", bound, certificate({ thumbprint: OTHER }), "UNAUTHENTICATED"],
    ["after the certificate has ended", bound, certificate({ notAfterMs: NOW_MS }), "UNAUTHENTICATED"],
    ["before it began", bound, certificate({ notBeforeMs: NOW_MS + 1 }), "UNAUTHENTICATED"],
    ["no binding, no certificate", undefined, undefined, "agent-7"],
    ["no binding, a certificate all the same", undefined, certificate(), "agent-7"],
    ["bound in another way besides", { ...bound, jkt: OURS }, certificate(), "UNAUTHENTICATED"],
    ["bound in another way", { jkt: OURS }, certificate(), "UNAUTHENTICATED"],
    ["bound to a whole key", { jwk: {} }, certificate(), "UNAUTHENTICATED"],
    ["bound to nothing", {}, certificate(), "UNAUTHENTICATED"],
    ["bound to null", null, certificate(), "UNAUTHENTICATED"],
    ["bound to a list", [OURS], certificate(), "UNAUTHENTICATED"],
    ["bound to a text", OURS, certificate(), "UNAUTHENTICATED"],
    ["a thumbprint in a list", { "x5t#S256": [OURS] }, certificate(), "UNAUTHENTICATED"],
    ["an empty thumbprint", { "x5t#S256": "" }, certificate({ thumbprint: "" }), "UNAUTHENTICATED"],
    ["a thumbprint in hex", { "x5t#S256": "a".repeat(64) }, certificate(), "UNAUTHENTICATED"],
    ["a thumbprint with padding", { "x5t#S256": `${OURS}=` }, certificate(), "UNAUTHENTICATED"],
    ["a thumbprint of another hash", { x5t: OURS }, certificate(), "UNAUTHENTICATED"],
  ];
  test.each(rows.map((row) => [...row] as const))("%s", async (_title, cnf, shown, want) => {
    const token = await issueToken(key, goodClaims({ cnf }));
    const callers = stand();
    expect(await outcome(callers.verifyToken(token, "agents", shown))).toBe(want);
    // And once more, when it is known.
    expect(await outcome(callers.verify(`Bearer ${token}`, "agents", shown))).toBe(want);
  });

  test("a binding to one connection does not hold on another", async () => {
    const callers = stand();
    const token = await issueToken(key, goodClaims({ cnf: bound }));
    expect(await outcome(callers.verifyToken(token, "agents", certificate()))).toBe("agent-7");
    expect(await outcome(callers.verifyToken(token, "agents"))).toBe("UNAUTHENTICATED");
    expect(await outcome(callers.verifyToken(token, "agents", certificate()))).toBe("agent-7");
  });
});

describe("a caller who shows a certificate and no token", () => {
  const runner = { spiffeId: SPIFFE, issuer: AGENTS_ISSUER, subject: "runner", permissions: ["customer:read"] };
  const revoked = (entry: object) => {
    const list = readRevocations(Buffer.from(JSON.stringify({ revoked: [entry] })));
    if ("problem" in list) throw new Error(list.problem);
    return () => list;
  };
  const rows: readonly (readonly [
    string,
    Partial<CallerVerifierOptions>,
    ClientCertificate | undefined,
    Audience,
    string,
  ])[] = [
    ["whom the table knows", { certificateCallers: [runner] }, certificate(), "agents", "runner"],
    ["where there is no table", {}, certificate(), "agents", "UNAUTHENTICATED"],
    ["without a certificate", { certificateCallers: [runner] }, undefined, "agents", "UNAUTHENTICATED"],
    ["at the operators' door", { certificateCallers: [runner] }, certificate(), "operators", "UNAUTHENTICATED"],
    [
      "of another name",
      { certificateCallers: [runner] },
      certificate({ spiffeId: `${SPIFFE}2` }),
      "agents",
      "UNAUTHENTICATED",
    ],
    ["of no name", { certificateCallers: [runner] }, certificate({ spiffeId: undefined }), "agents", "UNAUTHENTICATED"],
    [
      "whose certificate has ended",
      { certificateCallers: [runner] },
      certificate({ notAfterMs: NOW_MS }),
      "agents",
      "UNAUTHENTICATED",
    ],
    [
      "who is revoked",
      { certificateCallers: [runner], revocations: revoked({ issuer: AGENTS_ISSUER, subject: "runner" }) },
      certificate(),
      "agents",
      "UNAUTHENTICATED",
    ],
  ];
  test.each(rows.map((row) => [...row] as const))("%s", async (_title, options, shown, door, want) => {
    expect(await outcome(stand(options).verify(undefined, door, shown))).toBe(want);
  });

  test("an invalid token does not become valid by the certificate", async () => {
    const callers = stand({ certificateCallers: [runner] });
    for (const authorization of ["", "Bearer ", "Bearer x", "Basic eDp5"]) {
      expect(await outcome(callers.verify(authorization, "agents", certificate()))).toBe("UNAUTHENTICATED");
    }
  });

  test.each(["anonymous", "Anonymous", " runner", "run\u202ener", "run\0ner", ""])(
    "a subject %j does not start",
    (subject) => {
      expect(() => stand({ certificateCallers: [runner, { ...runner, spiffeId: `${SPIFFE}2`, subject }] })).toThrow(
        "jwt.clientCertificates[1].subject: no token may name such a subject",
      );
    },
  );

  test("a valid token names the caller, whatever the certificate says", async () => {
    const callers = stand({ certificateCallers: [runner] });
    const token = await issueToken(key);
    expect(await outcome(callers.verify(`Bearer ${token}`, "agents", certificate()))).toBe("agent-7");
  });
});
