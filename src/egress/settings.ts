import { z } from "zod";
import { errorText } from "../core/error-text.ts";
import type { TargetContext } from "../core/target-kind.ts";
import { type AddressRules, addressProblem, literalAddress, readAddressRules } from "./addresses.ts";
import { readNamed } from "./certificates.ts";
import type { Credentials, TokenEndpoint } from "./credentials.ts";
import { type CertificateSource, certificateFiles } from "./rotation.ts";

/** The settings that all systems with a URL have: its addresses, TLS files and credentials. */

const URL_CHARACTERS_MAX = 2_048;
const ADDRESSES_MAX = 64;
const TOKEN_TIMEOUT_MAX_MS = 120_000;

const text = z.string().min(1);

/** A URL of a system, with a plain path. */
export const systemUrl = (what: string) =>
  z
    .string()
    .max(URL_CHARACTERS_MAX)
    .superRefine((value, context) => {
      const problem = urlProblem(value);
      if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
    })
    .describe(what);

function urlProblem(value: string): string | undefined {
  const parsed = URL.parse(value);
  if (parsed === null || !/^https?:$/.test(parsed.protocol))
    return "must be a URL that begins with https:// or http://";
  if (parsed.username !== "" || parsed.password !== "") return "holds credentials: set auth";
  if (/[?#]/.test(value)) return "must not have a query or a fragment";
  if (/%|\/\/|\/\.{1,2}(?:\/|$)|;|\\/.test(value.slice(value.indexOf("://") + 3))) {
    return "must have a plain path, without //, ., .., ; or %";
  }
  return undefined;
}

const addressNames = z
  .array(text)
  .min(1)
  .max(ADDRESSES_MAX)
  .superRefine((names, context) => {
    const rules = readAddressRules(names);
    if ("problem" in rules) context.addIssue({ code: "custom", message: rules.problem });
  });

export const systemAddresses = addressNames
  .default(["public"])
  .describe(
    "Addresses that the host may have: `public`, `private`, `loopback`, and networks such as `10.1.0.0/16`. If the host has any other address, nothing is sent. Metadata and link-local addresses are refused always.",
  );

export const systemTls = z.strictObject({
  rootCert: text.optional().describe("File with the trusted root certificates, PEM. Default: those of the platform."),
  clientCert: text
    .optional()
    .describe("File with the client certificate, PEM. A changed file is used without interruption."),
  clientKey: text.optional().describe("File with the private key of the client certificate, PEM."),
  serverName: text.optional().describe("Name in the server's certificate, when it differs from the URL's host."),
});

const oauth = z.strictObject({
  tokenUrl: systemUrl("URL of the token endpoint."),
  clientId: text.describe("The client's id."),
  clientSecretFile: text.describe("File with the client's secret. It is read for every token."),
  clientAuthentication: z
    .enum(["basic", "post"])
    .default("basic")
    .describe("Whether the secret is sent in the header `Authorization` or in the body."),
  scope: text.optional().describe("Scopes to request, separated by spaces."),
  audience: text.optional().describe("Audience to request."),
  resource: text.optional().describe("Resource to request (RFC 8707)."),
  addresses: addressNames.optional().describe("Addresses of the token endpoint. Default: those of the system."),
  caFile: text
    .optional()
    .describe("File with the certificates (PEM) trusted for the token endpoint, instead of the platform's."),
  timeoutMs: z.int().min(1).max(TOKEN_TIMEOUT_MAX_MS).default(10_000).describe("Time limit for one token request."),
});

const AUTH_KINDS = ["bearerFile", "basicFile", "clientCredentials", "tokenExchange"] as const;

export const systemAuth = z
  .strictObject({
    bearerFile: text.optional().describe("File with a bearer token or an API key. It is read at every request."),
    header: z
      .string()
      .regex(/^[a-z0-9-]{1,64}$/, "must be a lower-case header name")
      .optional()
      .describe(
        "Header for the content of `bearerFile` alone, such as `x-api-key`. Default: `authorization`, after `Bearer`.",
      ),
    basicFile: text
      .optional()
      .describe("File with `user:password` for basic authentication. It is read at every request."),
    clientCredentials: oauth.optional().describe("OAuth client credentials: tokens are cached and renewed."),
    tokenExchange: oauth
      .optional()
      .describe(
        "OAuth token exchange (RFC 8693): the caller's own token is exchanged for one of the system, per caller.",
      ),
  })
  .superRefine(({ header, ...sources }, context) => {
    const given = Object.entries(sources).filter(([, value]) => value !== undefined);
    if (given.length !== 1)
      context.addIssue({ code: "custom", message: `needs exactly one of ${AUTH_KINDS.join(", ")}` });
    if (header !== undefined && sources.bearerFile === undefined) {
      context.addIssue({ code: "custom", path: ["header"], message: "is only for bearerFile" });
    }
  });

/** What a system with a URL says about its connections. */
interface Reached {
  readonly url: string;
  readonly addresses: readonly string[];
  readonly tls?: z.output<typeof systemTls> | undefined;
  readonly auth?: z.output<typeof systemAuth> | undefined;
}

type Issue = (path: readonly string[], message: string) => void;

/** Checks what the members of an entry say together. `urlKey`: the member that holds the URL. */
export function checkReached({ url, addresses, tls, auth }: Reached, urlKey: string, issue: Issue): void {
  if (tls !== undefined && URL.parse(url)?.protocol === "http:") issue(["tls"], "is only for an https:// URL");
  if ((tls?.clientCert === undefined) !== (tls?.clientKey === undefined)) {
    issue(["tls"], "clientCert and clientKey go together");
  }
  const checkLiteral = (path: readonly string[], address: string, names: readonly string[]): void => {
    const refused = refusedLiteral(address, names);
    if (refused !== undefined) issue(path, `its address is ${refused}, which addresses does not allow`);
  };
  checkLiteral([urlKey], url, addresses);
  for (const key of ["clientCredentials", "tokenExchange"] as const) {
    const tokens = auth?.[key];
    if (tokens !== undefined) checkLiteral(["auth", key, "tokenUrl"], tokens.tokenUrl, tokens.addresses ?? addresses);
  }
}

function refusedLiteral(value: string, names: readonly string[]): string | undefined {
  const literal = literalAddress(URL.parse(value)?.hostname ?? "");
  const rules = readAddressRules(names);
  return literal === undefined || "problem" in rules ? undefined : addressProblem(literal, rules);
}

/** Returns the rules of names that the schema has checked. */
export function addressRules(names: readonly string[]): AddressRules {
  const rules = readAddressRules(names);
  if ("problem" in rules) throw new Error(rules.problem);
  return rules;
}

/** The connections of a system: whom it trusts, and how the proxy identifies itself. */
export interface ReachedSystem {
  readonly addresses: AddressRules;
  /** Undefined without `tls`. */
  readonly certificates: CertificateSource | undefined;
  readonly credentials: Credentials | undefined;
}

/** Reads the files that an entry names. Returns undefined after adding a problem. */
export async function openReached(
  context: TargetContext,
  field: string,
  entry: Omit<Reached, "url">,
): Promise<ReachedSystem | undefined> {
  const { tls, auth, addresses } = entry;
  for (const key of ["rootCert", "clientCert", "clientKey"] as const) {
    const path = tls?.[key];
    if (path !== undefined && readNamed(context, path, `${field}.tls.${key}`) === undefined) return undefined;
  }
  const credentials = auth === undefined ? undefined : await openCredentials(context, `${field}.auth`, entry);
  if (auth !== undefined && credentials === undefined) return undefined;
  const certificates = tls === undefined ? undefined : certificateFiles(tls, context);
  return { addresses: addressRules(addresses), certificates, credentials };
}

async function openCredentials(
  context: TargetContext,
  field: string,
  { auth, addresses: names }: Omit<Reached, "url">,
): Promise<Credentials | undefined> {
  const { readSecret, readBasic, fileCredentials, OAuthTokens, clientCredentialsGrant, tokenExchangeGrant } =
    await import("./credentials.ts");
  const { bearerFile, header, basicFile, clientCredentials, tokenExchange } = auth ?? {};
  /** Reads a file now, to report a problem at the start, and returns how it is read later. */
  const reader = <T>(key: string, path: string, parse: (bytes: Buffer) => T): (() => T) | undefined => {
    const bytes = readNamed(context, path, `${field}.${key}`);
    if (bytes === undefined) return undefined;
    try {
      parse(bytes);
    } catch (error) {
      context.problems.push(`${field}.${key}: ${path} ${errorText(error)}`);
      return undefined;
    }
    return () => parse(context.readFile(path));
  };
  if (bearerFile !== undefined) {
    const read = reader("bearerFile", bearerFile, (bytes) =>
      header === undefined ? `Bearer ${readSecret(bytes)}` : readSecret(bytes),
    );
    return read && fileCredentials(header ?? "authorization", read);
  }
  if (basicFile !== undefined) {
    const read = reader("basicFile", basicFile, readBasic);
    return read && fileCredentials("authorization", read);
  }
  const settings = clientCredentials ?? tokenExchange;
  if (settings === undefined) return undefined;
  const key = clientCredentials === undefined ? "tokenExchange" : "clientCredentials";
  const secret = reader(`${key}.clientSecretFile`, settings.clientSecretFile, readSecret);
  const { caFile } = settings;
  const ca = caFile === undefined ? undefined : readNamed(context, caFile, `${field}.${key}.caFile`);
  if (secret === undefined || (caFile !== undefined && ca === undefined)) return undefined;
  const { EgressClient } = await import("./client.ts");
  const client = new EgressClient({
    ...{ addresses: addressRules(settings.addresses ?? names), keepsConnections: false },
    ...(ca !== undefined && { tls: { rootCert: ca } }),
  });
  const { clientId, clientAuthentication, scope, audience, resource, timeoutMs } = settings;
  const endpoint: TokenEndpoint = {
    ...{ url: new URL(settings.tokenUrl), clientId, clientAuthentication, readSecret: secret },
    ...{ scope, audience, resource, timeoutMs },
  };
  const grantOf = key === "tokenExchange" ? tokenExchangeGrant : clientCredentialsGrant;
  return new OAuthTokens(endpoint, { grantOf, client, now: context.now });
}
