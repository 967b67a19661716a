import { z } from "zod";
import { isTable } from "../../core/json.ts";
import { permission } from "../../core/rule-conditions.ts";
import type { TOKEN_SOURCES } from "../../pipeline/identity/token-sources.ts";
import type { Modules } from "../module-types.ts";
import { problemAdder, repeated, tenantName, text } from "./values.ts";

/** Declares whose tokens are accepted: every key and default of the section `jwt`. */

const LIFETIME_SECONDS_MAX = 86_400;

const ALGORITHMS = [
  ...(["ES256", "ES384", "ES512", "RS256", "RS384", "RS512"] as const),
  ...(["PS256", "PS384", "PS512", "EdDSA", "Ed25519"] as const),
] as const;

const CLOCK_TOLERANCE_SECONDS_MAX = 60;
const AUDIENCES_MAX = 8;
const CLAIM_DEPTH_MAX = 8;

/** Error for a key without an issuer: a key alone does not say whose tokens it signs. */
const ISSUER_MISSING = "is missing: name the issuer (`iss`) of the tokens next to its key: { issuer, publicKey }";

/** Where Kubernetes mounts the token of a pod's own account. */
const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

const issuer = z.strictObject({
  issuer: z.string({ error: ({ input }) => (input === undefined ? ISSUER_MISSING : undefined) }).min(1),
  audience: z.union([text, z.array(text).min(1).max(AUDIENCES_MAX)]).default("safe-tool-call"),
  /**
   * Kind of the tokens of the issuer: `rfc9068` checks the claims of an OAuth access token, `kubernetes` those of a bound
   * service-account token.
   */
  profile: z.enum(["generic", "rfc9068", "kubernetes"]).default("generic"),
  algorithms: z.array(z.enum(ALGORITHMS)).min(1).default(["ES256", "RS256", "EdDSA"]),
  typ: text.optional(),
  permissionsClaim: text.default("permissions"),
  /** Claim that lists the groups that `bindings` name; a nested one as a list, such as `[realm_access, roles]`. */
  groupsClaim: z.union([text, z.array(text).min(1).max(CLAIM_DEPTH_MAX)]).default("groups"),
  /** Permissions by `sub`, for issuers whose tokens list none. Permissions listed in a token are then ignored. */
  subjectPermissions: z.record(z.string().min(1).max(256), z.array(permission).max(256)).optional(),
  /** Maximum `exp − iat`; when left out 3600, or 7200 for `kubernetes`. */
  maxLifetimeSeconds: z.int().min(1).max(LIFETIME_SECONDS_MAX).optional(),
  /** How far the issuer's clock may differ from the service's, for `iat`, `nbf` and `exp`. */
  clockToleranceSeconds: z.int().min(0).max(CLOCK_TOLERANCE_SECONDS_MAX).default(5),
  operators: z.boolean().default(false),
  /** Tenants whose callers have this issuer's tokens; without it, they are callers of the service itself. */
  tenants: z
    .strictObject({
      claim: text.default("tenant").describe("Claim with the name of the caller's tenant, as a text."),
      names: z.array(tenantName).min(1).describe("Tenants that the issuer may speak for."),
    })
    .optional(),
  /** Also asks the API server of Kubernetes about each token, at most every 10 seconds: it refuses those of deleted pods. */
  tokenReview: z
    .strictObject({
      url: z
        .url({ protocol: /^https$/, error: "must be a URL that begins with https://" })
        .regex(/^[^?#@]*$/, "must not have a user name, a query or a fragment")
        .default("https://kubernetes.default.svc")
        .describe("URL of the API server; a path, such as that of a proxy before it, is kept."),
      caFile: text
        .default(`${SERVICE_ACCOUNT}/ca.crt`)
        .describe("File with the certificates (PEM) trusted for the API server. It is read for every review."),
      tokenFile: text
        .default(`${SERVICE_ACCOUNT}/token`)
        .describe(
          "File with the token of the service's own account, which needs the role `system:auth-delegator`. It is read for every review.",
        ),
      whenUnavailable: z
        .enum(["refuse", "accept"])
        .default("refuse")
        .describe(
          "What happens while the API server does not answer, or answers 429 or 5xx: `refuse` answers AUTH_UNAVAILABLE, `accept` relies on the token's signature and claims.",
        ),
    })
    .optional(),
});

type Sources = Modules["tokenSources"];
type BuiltIn = (typeof TOKEN_SOURCES)[number];
type Settings<Source> = Source extends { readonly settings: infer Shape extends z.ZodRawShape } ? Shape : never;
type Each<Shape> = Shape extends unknown ? (shape: Shape) => void : never;
type Together<Shape> = Each<Shape> extends (all: infer All) => void ? All : never;
/** The settings of all sources that every build has, each of them optional. */
type SourceSettings = { [Key in keyof Together<Settings<BuiltIn>>]: z.ZodOptional<Together<Settings<BuiltIn>>[Key]> };

/** Returns the schema of an issuer, with the settings of the token sources: each issuer has exactly one source. */
function issuerSchema(sources: Sources) {
  return withSources(issuer, sources);
}

/** Returns the schema of an issuer of workload tokens, which carry no permissions: who holds one, and nothing else. */
export function workloadIssuer(sources: Sources) {
  const { issuer: name, profile, algorithms, typ, maxLifetimeSeconds, clockToleranceSeconds } = issuer.shape;
  const audience = z.union([text, z.array(text).min(1).max(AUDIENCES_MAX)]);
  const own = {
    issuer: name.describe("Exact value of `iss`."),
    audience: audience.describe(
      "Value that `aud` must contain, or a list of which it must contain one: the hub's own.",
    ),
    profile: profile.describe("As in `jwt.issuers[]`: `kubernetes` for projected tokens of service accounts."),
    algorithms: algorithms.describe("Accepted signature algorithms; asymmetric ones only."),
    typ: typ.describe("Required `typ` of generic tokens."),
    maxLifetimeSeconds: maxLifetimeSeconds.describe("Longest accepted `exp − iat`, as in `jwt.issuers[]`."),
    clockToleranceSeconds: clockToleranceSeconds.describe("How far the issuer's clock may differ from the hub's."),
  };
  return withSources(z.strictObject(own), sources);
}

function withSources<Shape extends z.ZodRawShape>(base: z.ZodObject<Shape, z.core.$strict>, sources: Sources) {
  const all = Object.assign({}, ...sources.map(({ settings }) => settings)) as Readonly<Record<string, z.ZodType>>;
  const optional = Object.fromEntries(Object.entries(all).map(([key, schema]) => [key, optionalOf(schema)]));
  return base.extend(optional as unknown as SourceSettings).superRefine((profile, context) => {
    const add = problemAdder(context);
    const isSet = (key: string): boolean => (profile as Readonly<Record<string, unknown>>)[key] !== undefined;
    const given = sources.filter(({ key }) => isSet(key));
    if (given.length !== 1) add([], wantedKeys(sources));
    for (const { key, settings } of sources) {
      for (const own of Object.keys(settings)) {
        if (own === key || !isSet(own) || isSet(key)) continue;
        add([own], `is for the server of ${key}, and there is none`);
      }
    }
  });
}

function optionalOf(schema: z.ZodType): z.ZodType {
  if (schema instanceof z.ZodOptional) return schema;
  const { description } = schema;
  return description === undefined ? schema.optional() : schema.optional().describe(description);
}

function wantedKeys(sources: Sources): string {
  const keysOf = (isForLibrary: boolean): string =>
    sources.flatMap((source) => (source.isForLibrary === isForLibrary ? [source.key] : [])).join(", ");
  return `needs exactly one of ${keysOf(false)} (or, in the library, ${keysOf(true)})`;
}

const SPIFFE_ID = /^spiffe:\/\/[a-z0-9._-]{1,255}\/[A-Za-z0-9._/-]{1,1792}$/;

const clientCertificate = z.strictObject({
  /** SPIFFE ID in the caller's certificate, the only URI there. */
  spiffeId: z.string().regex(SPIFFE_ID, "must be a SPIFFE ID: spiffe://<trust domain>/<path>"),
  /** Issuer of the caller that presents the certificate, as the `iss` in a token. */
  issuer: text,
  /** Subject of the caller that presents the certificate, as the `sub` in a token. */
  subject: z.string().min(1).max(256),
  permissions: z.array(permission).max(256).default([]),
  /** Tenant of the caller; needed where the issuer has `tenants`. */
  tenant: tenantName.optional(),
});

const CERTIFICATE_CALLERS_MAX = 10_000;

const section = (sources: Sources) =>
  z.strictObject({
    issuers: z.array(issuerSchema(sources)).min(1),
    /**
     * File of tokens that are refused although they are otherwise valid (JSON, see docs/identity.md). Changes apply within a
     * second.
     */
    revocationFile: text.optional(),
    /** Agents that present a client certificate and no token (`server.tls.clientCaFile`). */
    clientCertificates: z.array(clientCertificate).max(CERTIFICATE_CALLERS_MAX).default([]),
  });

/** The section `jwt`. */
export const jwt = (sources: Sources) =>
  section(sources).superRefine(({ issuers, clientCertificates }, context) => {
    const add = problemAdder(context);
    const repeatedIds = repeated(clientCertificates.map(({ spiffeId }) => spiffeId));
    for (const [index, { issuer: name }] of clientCertificates.entries()) {
      const path = ["clientCertificates", index];
      if (repeatedIds.includes(index)) add([...path, "spiffeId"], "appears twice: it is one caller");
      const named = issuers.filter((profile) => profile.issuer === name);
      if (named.length > 0 && named.every(({ operators }) => operators)) {
        add([...path, "issuer"], "is for operators, who use tokens");
      }
    }
    for (const index of repeated(issuers.map((profile) => JSON.stringify([profile.issuer, profile.operators])))) {
      add(["issuers", index, "issuer"], "appears twice: an issuer has one profile for agents and one for operators");
    }
    for (const [index, { profile, tokenReview }] of issuers.entries()) {
      if (tokenReview !== undefined && profile !== "kubernetes") {
        add(["issuers", index, "tokenReview"], "is for the profile kubernetes: other issuers have no such endpoint");
      }
    }
    const audiences = new Set(issuers.filter((profile) => profile.operators).flatMap((profile) => profile.audience));
    for (const [index, profile] of issuers.entries()) {
      if (!profile.operators && [profile.audience].flat().some((audience) => audiences.has(audience))) {
        add(["issuers", index, "audience"], "is also an operators' audience: agents and operators need different ones");
      }
    }
  });

/** Expands the short form with one issuer, `jwt: { issuer, publicKey }`, to the form with a list. */
export function withIssuerList(written: unknown, sources: Sources): unknown {
  const isShort = isTable(written) && !("issuers" in written) && sources.some(({ key }) => key in written);
  return isShort ? { issuers: [written] } : written;
}
