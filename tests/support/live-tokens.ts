import { createHmac } from "node:crypto";
import { SignJWT } from "jose";
import {
  AGENTS_AUDIENCE,
  AGENTS_ISSUER,
  type Claims,
  encodePart,
  makeSigningKey,
  type SigningKey,
  signInput,
} from "./tokens.ts";

export const OPERATORS_ISSUER = "https://people.test";
export const OPERATORS_AUDIENCE = "safe-tool-call-operators";

/** What is wrong with a token; `good` and `operator` are genuine. */
export const TOKEN_KINDS = [
  ...["good", "operator", "none", "empty", "basic", "malformed", "two tokens", "expired", "not yet", "no exp"],
  ...["long-lived", "other issuer", "other audience", "other key", "unsigned", "hmac with the public key", "other alg"],
  ...[
    "anonymous sub",
    "number as sub",
    "permissions as text",
    "infinite exp",
    "own jwk",
    "critical header",
    "permissions in scope",
  ],
] as const;

export type TokenKind = (typeof TOKEN_KINDS)[number];

export interface TokenOrder {
  readonly kind: TokenKind;
  readonly sub: string;
  readonly permissions: readonly string[];
  readonly claims?: Claims | undefined;
  /** `2 seconds`; 10 minutes unless the kind says otherwise. */
  readonly lifetime?: string;
}

/** The issuers of a running service, whose clock is the real one: jose stamps the tokens, not the tests. */
export class LiveIssuers {
  readonly agents: SigningKey = makeSigningKey("ES256", "agents-1");
  readonly operators: SigningKey = makeSigningKey("ES256", "operators-1");
  readonly stranger: SigningKey = makeSigningKey("ES256", "agents-1");
  readonly rsa: SigningKey = makeSigningKey("RS256", "agents-rsa");

  /** The issuers as a configuration has them. */
  profiles(): readonly Record<string, unknown>[] {
    const profile = (issuer: string, audience: string, key: SigningKey): Record<string, unknown> => ({
      issuer,
      audience,
      algorithms: ["ES256"],
      jwks: { keys: [key.jwk] },
    });
    return [
      profile(AGENTS_ISSUER, AGENTS_AUDIENCE, this.agents),
      { ...profile(OPERATORS_ISSUER, OPERATORS_AUDIENCE, this.operators), operators: true },
    ];
  }

  /** The value of the Authorization header, or nothing. */
  async authorization(order: TokenOrder): Promise<string | undefined> {
    if (order.kind === "none") return undefined;
    if (order.kind === "empty") return "Bearer ";
    const token = await this.token(order);
    if (order.kind === "basic") return `Basic ${token}`;
    return order.kind === "two tokens" ? `Bearer ${token} ${token}` : `Bearer ${token}`;
  }

  async token(order: TokenOrder): Promise<string> {
    const { kind } = order;
    if (kind === "malformed") return "not.a-token";
    const genuine = await this.#signed(order);
    const [, payload = ""] = genuine.split(".");
    if (kind === "unsigned") return `${encodePart('{"alg":"none","typ":"JWT"}')}.${payload}.`;
    if (kind !== "hmac with the public key") return genuine;
    const input = `${encodePart('{"alg":"HS256","kid":"agents-1","typ":"JWT"}')}.${payload}`;
    const secret = this.agents.publicKey.export({ type: "spki", format: "pem" });
    return `${input}.${createHmac("sha256", secret).update(input).digest("base64url")}`;
  }

  async #signed({ kind, sub, permissions, claims = {}, lifetime = "10 minutes" }: TokenOrder): Promise<string> {
    const isOperator = kind === "operator";
    const key = isOperator ? this.operators : this.#keyFor(kind);
    const held = kind === "permissions in scope" ? { scope: permissions.join(" ") } : { permissions: [...permissions] };
    const token = new SignJWT({ sub, ...held, ...ODD_CLAIMS[kind], ...claims })
      .setProtectedHeader({ alg: key.alg, kid: key.kid, typ: "JWT", ...this.#oddHeader(kind) })
      .setIssuer(this.#issuerFor(kind))
      .setAudience(isOperator ? OPERATORS_AUDIENCE : (AUDIENCES[kind] ?? AGENTS_AUDIENCE))
      .setIssuedAt(kind === "expired" ? "30 minutes ago" : "1 second ago");
    if (kind === "not yet") token.setNotBefore("10 minutes");
    if (kind !== "no exp") token.setExpirationTime(LIFETIMES[kind] ?? lifetime);
    const compact = await token.sign(key.privateKey, kind === "critical header" ? { crit: { "x-odd": true } } : {});
    return kind === "infinite exp" ? resign(compact, key, /"exp":\d+/, '"exp":1e999') : compact;
  }

  #keyFor(kind: TokenKind): SigningKey {
    if (kind === "other alg") return this.rsa;
    return kind === "other key" || kind === "own jwk" ? this.stranger : this.agents;
  }

  #issuerFor(kind: TokenKind): string {
    if (kind === "operator") return OPERATORS_ISSUER;
    return kind === "other issuer" ? "https://evil.example" : AGENTS_ISSUER;
  }

  #oddHeader(kind: TokenKind): Record<string, unknown> {
    if (kind === "own jwk") return { jwk: this.stranger.jwk };
    return kind === "critical header" ? { crit: ["x-odd"], "x-odd": 1 } : {};
  }
}

const AUDIENCES: Partial<Record<TokenKind, string>> = { "other audience": "another-service" };
const LIFETIMES: Partial<Record<TokenKind, string>> = { expired: "10 minutes ago", "long-lived": "2 hours" };
const ODD_CLAIMS: Partial<Record<TokenKind, Claims>> = {
  "anonymous sub": { sub: "anonymous" },
  "number as sub": { sub: 7 },
  "permissions as text": { permissions: "case:run case:more" },
};

/** The same token with one change in its payload, truly signed. */
function resign(compact: string, key: SigningKey, find: RegExp, replace: string): string {
  const [header = "", payload = ""] = compact.split(".");
  const input = `${header}.${encodePart(Buffer.from(payload, "base64url").toString().replace(find, replace))}`;
  return `${input}.${signInput(key, input)}`;
}
