import { describe, expect, test } from "bun:test";
import { createHash, generateKeyPairSync } from "node:crypto";
import fc from "fast-check";
import { type JWK, SignJWT } from "jose";
import { Refusal } from "../../src/core/errors.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import { jwksKeys } from "../../src/pipeline/identity/issuer-keys.ts";
import { type RevocationList, readRevocations } from "../../src/pipeline/identity/revocations.ts";
import {
  AGENTS_ISSUER,
  agentsProfile,
  type Claims,
  goodClaims,
  issueToken,
  makeSigningKey,
  NOW_SECONDS,
} from "../support/tokens.ts";

const key = makeSigningKey("ES256", "es-1");
const ISSUED = NOW_SECONDS - 60;

function list(document: unknown): RevocationList {
  const read = readRevocations(Buffer.from(JSON.stringify(document)));
  if ("problem" in read) throw new Error(read.problem);
  return read;
}

const nobody = list({ revoked: [] });

function stand(revoked: () => RevocationList) {
  return createCallerVerifier({
    issuers: [agentsProfile([key])],
    clock: () => NOW_SECONDS * 1000,
    revocations: revoked,
  });
}

async function ruleOf(callers: ReturnType<typeof stand>, token: string): Promise<unknown> {
  try {
    return (await callers.verifyToken(token, "agents")).caller.subject;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    expect(error.code).toBe("UNAUTHENTICATED");
    expect(error.message).toContain("revoked");
    return error.details?.["revokedBy"];
  }
}

const at = (seconds: number): string => new Date(seconds * 1000).toISOString();
const entry = (members: object): object => ({ issuer: AGENTS_ISSUER, ...members });

const ELSEWHERE = "https://robots.test";
/** Whoever acts may be of another issuer than the token: `act.iss` says so (RFC 8693, 4.1), and the pair is who it is. */
const actorsElsewhere: readonly (readonly [string, object, Claims, string])[] = [
  ["one who acts, by its own issuer", { issuer: ELSEWHERE, subject: "robot" }, robotOf(ELSEWHERE), "subject"],
  ["its namesake of the token's issuer", entry({ subject: "robot" }), robotOf(ELSEWHERE), "agent-7"],
  ["one who acts, of the token's issuer by name", entry({ subject: "robot" }), robotOf(AGENTS_ISSUER), "subject"],
  [
    "its namesake of an issuer that nobody names",
    { issuer: ELSEWHERE, subject: "robot" },
    robotOf(undefined),
    "agent-7",
  ],
  ["the subject's namesake elsewhere", { issuer: ELSEWHERE, subject: "agent-7" }, robotOf(ELSEWHERE), "agent-7"],
];

const ORDERS: Readonly<Record<number, bigint>> = {
  32: 2n ** 256n - 2n ** 224n + 2n ** 192n - 0x4319055258e8617b0c46353d039cdaafn,
  48: 2n ** 384n - 0x389cb27e0bc8d220a7e5f24db74f58851313e695333ad68dn,
  66: 2n ** 521n - 0x5ae79787c40d069948033feb708f65a2fc44a36477663b851449048e16ec79bf7n,
};

/** (r, n - s) in path of (r, s). */
function twinOf(token: string, half: number): string {
  const [header, payload, signature = ""] = token.split(".");
  const bytes = Buffer.from(signature, "base64url");
  const s = BigInt(`0x${bytes.subarray(half).toString("hex")}`);
  const other = ((ORDERS[half] ?? 0n) - s).toString(16).padStart(2 * half, "0");
  const twin = Buffer.concat([bytes.subarray(0, half), Buffer.from(other, "hex")]);
  return [header, payload, twin.toString("base64url")].join(".");
}

function robotOf(iss: string | undefined): Claims {
  return { act: { sub: "robot", ...(iss !== undefined && { iss }) } };
}

describe("revoked tokens", () => {
  const rows: readonly (readonly [string, object, Claims, string])[] = [
    ["a token by its jti", entry({ jti: "t-1" }), { jti: "t-1" }, "jti"],
    ["another jti", entry({ jti: "t-1" }), { jti: "t-10" }, "agent-7"],
    ["the jti of another issuer", { issuer: "https://other.test", jti: "t-1" }, { jti: "t-1" }, "agent-7"],
    ["a jti that would be spelled alike", { issuer: `${AGENTS_ISSUER}t`, jti: "-1" }, { jti: "t-1" }, "agent-7"],
    ["no jti to be met by", entry({ jti: "t-1" }), {}, "agent-7"],
    ["a jti that is a number", entry({ jti: "1" }), { jti: 1 }, "agent-7"],
    ["a subject, all its tokens", entry({ subject: "agent-7" }), {}, "subject"],
    ["another subject", entry({ subject: "agent" }), {}, "agent-7"],
    ["the subject of another issuer", { issuer: "https://other.test", subject: "agent-7" }, {}, "agent-7"],
    ["what was issued before", entry({ subject: "agent-7", before: at(ISSUED + 1) }), {}, "subject"],
    ["what was issued at that moment", entry({ subject: "agent-7", before: at(ISSUED) }), {}, "agent-7"],
    ["what was issued after", entry({ subject: "agent-7", before: at(ISSUED - 1) }), {}, "agent-7"],
    [
      "a time of another zone",
      entry({ subject: "agent-7", before: at(ISSUED + 3_601).replace("Z", "+01:00") }),
      {},
      "subject",
    ],
    ["whoever acts for somebody", entry({ subject: "robot" }), { act: { sub: "robot" } }, "subject"],
    [
      "who acted earlier is history",
      entry({ subject: "robot" }),
      { act: { sub: "other", act: { sub: "robot" } } },
      "agent-7",
    ],
    ...actorsElsewhere,
    ["a note changes nothing", entry({ jti: "t-1", note: "lost laptop" }), { jti: "t-1" }, "jti"],
  ];
  test.each(rows.map((row) => [...row] as const))("%s", async (_title, revoked, claims, want) => {
    const found = list({ revoked: [revoked] });
    const callers = stand(() => found);
    expect(await ruleOf(callers, await issueToken(key, goodClaims(claims)))).toBe(want);
  });

  test("one token by its hash, and no other of the same caller", async () => {
    const token = await issueToken(key);
    const other = await issueToken(key, goodClaims({ jti: "another" }));
    const tokenSha256 = createHash("sha256").update(token).digest("hex");
    const found = list({ revoked: [{ tokenSha256 }] });
    const callers = stand(() => found);
    expect(await ruleOf(callers, token)).toBe("token");
    expect(await ruleOf(callers, other)).toBe("agent-7");
  });

  test("with the same message for both audiences", async () => {
    const found = list({ revoked: [entry({ subject: "agent-7" })] });
    const token = await issueToken(key);
    for (const door of ["agents", "operators"] as const) {
      const refused = await stand(() => found)
        .verifyToken(token, door)
        .catch((error: unknown) => error);
      expect(refused).toMatchObject({ code: "UNAUTHENTICATED", details: { revokedBy: "subject" } });
    }
  });

  test.each([
    ["ES256", "P-256", 32],
    ["ES384", "P-384", 48],
    ["ES512", "P-521", 66],
  ] as const)("%s: nor the other spelling of its signature", async (alg, namedCurve, half) => {
    const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve });
    const jwk = { ...publicKey.export({ format: "jwk" }), kid: "k", alg } as JWK;
    const token = await new SignJWT({ ...goodClaims() }).setProtectedHeader({ alg, kid: "k" }).sign(privateKey);
    const twin = twinOf(token, half);
    const issuers = [agentsProfile([], { algorithms: [alg], keys: jwksKeys({ keys: [jwk] }) })];
    const callersWith = (revoked: string | undefined) => {
      const entries =
        revoked === undefined ? [] : [{ tokenSha256: createHash("sha256").update(revoked).digest("hex") }];
      const found = list({ revoked: entries });
      return createCallerVerifier({ issuers, clock: () => NOW_SECONDS * 1000, revocations: () => found });
    };
    expect(twin).not.toBe(token);
    for (const shown of [token, twin]) {
      expect(await ruleOf(callersWith(undefined), shown)).toBe("agent-7");
      for (const revoked of [token, twin]) expect(await ruleOf(callersWith(revoked), shown)).toBe("token");
    }
  });

  test("of two times for one subject the later counts, and none is later than any", async () => {
    const token = await issueToken(key);
    const twice = (first: string | undefined, second: string | undefined) =>
      list({
        revoked: [first, second].map((before) =>
          entry({ subject: "agent-7", ...(before !== undefined && { before }) }),
        ),
      });
    for (const [first, second] of [
      [at(ISSUED + 1), at(ISSUED - 1)],
      [at(ISSUED - 1), at(ISSUED + 1)],
      [undefined, at(ISSUED - 1)],
      [at(ISSUED - 1), undefined],
    ]) {
      const found = twice(first, second);
      expect(
        await ruleOf(
          stand(() => found),
          token,
        ),
      ).toBe("subject");
    }
  });

  test("a token that was verified before is refused from the change on, and valid again after the next", async () => {
    let now = nobody;
    const callers = stand(() => now);
    const token = await issueToken(key, goodClaims({ jti: "t-1" }));
    expect(await ruleOf(callers, token)).toBe("agent-7");
    now = list({ revoked: [entry({ jti: "t-1" })] });
    expect(await ruleOf(callers, token)).toBe("jti");
    now = nobody;
    expect(await ruleOf(callers, token)).toBe("agent-7");
  });
});

describe("an invalid list", () => {
  const rows: readonly (readonly [string, string])[] = [
    ["nothing", ""],
    ["half of one", '{"revoked":[{"issuer":"a","jti":'],
    ["a bare array", "[]"],
    ["null", "null"],
    ["no entries", "{}"],
    ["another key", '{"revoked":[],"more":1}'],
    ["entries twice", '{"revoked":[{"issuer":"a","jti":"b"}],"revoked":[]}'],
    ["an entry that names nothing", '{"revoked":[{}]}'],
    ["an issuer alone", '{"revoked":[{"issuer":"a"}]}'],
    ["a jti without its issuer", '{"revoked":[{"jti":"b"}]}'],
    ["a jti and a subject", '{"revoked":[{"issuer":"a","jti":"b","subject":"c"}]}'],
    ["a number as jti", '{"revoked":[{"issuer":"a","jti":7}]}'],
    ["a misspelled key", '{"revoked":[{"issuer":"a","subject":"b","befor":"2026-05-01T12:00:00Z"}]}'],
    ["a time in seconds", '{"revoked":[{"issuer":"a","subject":"b","before":1800000000}]}'],
    ["a day", '{"revoked":[{"issuer":"a","subject":"b","before":"2026-05-01"}]}'],
    ["a time without a zone", '{"revoked":[{"issuer":"a","subject":"b","before":"2026-05-01T12:00:00"}]}'],
    ["a hash that is none", '{"revoked":[{"tokenSha256":"abc"}]}'],
    ["a hash in capitals", `{"revoked":[{"tokenSha256":"${"A".repeat(64)}"}]}`],
  ];
  test.each(rows.map((row) => [...row] as const))("%s", (_title, text) => {
    expect(readRevocations(Buffer.from(text))).toEqual({ problem: expect.stringContaining("revoked") });
  });

  test("bytes that are not UTF-8, too many bytes, too many entries", () => {
    expect(readRevocations(Buffer.from([0x7b, 0xff, 0x7d]))).toHaveProperty("problem");
    expect(readRevocations(Buffer.alloc(2_097_153, 0x20))).toEqual({ problem: "is over 2097152 bytes" });
    const many = { revoked: Array.from({ length: 10_001 }, (_, index) => ({ issuer: "a", jti: String(index) })) };
    expect(readRevocations(Buffer.from(JSON.stringify(many)))).toHaveProperty("problem");
  });

  test("any bytes give a list or an error", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array(),
          fc.json().map((text) => Buffer.from(`{"revoked":${text}}`)),
        ),
        (bytes) => {
          const read = readRevocations(bytes);
          expect("problem" in read || read.entries >= 0).toBe(true);
        },
      ),
    );
  });
});
