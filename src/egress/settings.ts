import { z } from "zod";
import { errorText } from "../core/error-text.ts";
import { isLoopback } from "../core/network.ts";
import type { TargetContext } from "../core/target-kind.ts";
import { type AddressRules, addressProblem, literalAddress, readAddressRules } from "./addresses.ts";
import { readNamed } from "./certificates.ts";
import type { EgressTls } from "./client.ts";
import type { Credentials, TokenEndpoint } from "./credentials.ts";
import type { ResilienceLimits } from "./resilience.ts";
import { type CertificateSource, certificateFiles, type TlsFiles } from "./rotation.ts";

/** Settings that systems of several kinds have: their schemas, and how the files that they name are read. */

export const text = z.string().min(1);

export function count(fallback: number, max: number, min = 1) {
  return z.int().min(min).max(max).default(fallback);
}

/** The members of `tls` that are the service's own. */
export const clientCertificate = {
  clientCert: text
    .optional()
    .describe("File with the client certificate, PEM. A changed file is used without interruption."),
  clientKey: text.optional().describe("File with the private key of the client certificate, PEM."),
} as const;

const tls = z.strictObject({
  rootCert: text.optional().describe("File with the trusted root certificates, PEM. Default: those of the platform."),
  ...clientCertificate,
  serverName: text.optional().describe("Name in the server's certificate, when it differs from the URL's host."),
});

export const plaintext = z.literal(true, "must be true, or left out").optional();

const addresses = z
  .array(text)
  .min(1)
  .max(64)
  .superRefine((names, context) => {
    const rules = readAddressRules(names);
    if ("problem" in rules) context.addIssue({ code: "custom", message: rules.problem });
  });

const URL_CHARACTERS_MAX = 2_048;

/** Returns the schema of a URL. `problem` returns what else is wrong with one. */
export function url(problem: (value: string) => string | undefined = () => undefined) {
  return z
    .string()
    .max(URL_CHARACTERS_MAX)
    .superRefine((value, context) => {
      const message = urlProblem(value) ?? problem(value);
      if (message !== undefined) context.addIssue({ code: "custom", message });
    });
}

function urlProblem(value: string): string | undefined {
  const parsed = URL.parse(value);
  if (parsed === null || !/^https?:$/.test(parsed.protocol))
    return "must be a URL that begins with https:// or http://";
  if (parsed.username !== "" || parsed.password !== "") return "holds credentials: set auth";
  return /[?#]/.test(value) ? "must not have a query or a fragment" : undefined;
}

/** A URL whose path becomes a part of request paths: it has no encoded or relative segments. */
export const plainUrl = url((value) => {
  const isPlain = !/%|\/\/|\/\.{1,2}(?:\/|$)|;|\\/.test(value.slice(value.indexOf("://") + 3));
  return isPlain ? undefined : "must have a plain path, without //, ., .., ; or %";
});

const oauth = z.strictObject({
  tokenUrl: plainUrl.describe("URL of the token endpoint."),
  clientId: text.describe("The client's id."),
  clientSecretFile: text.describe("File with the client's secret. It is read for every token."),
  clientAuthentication: z
    .enum(["basic", "post"])
    .default("basic")
    .describe("Whether the secret is sent in the header `Authorization` or in the body."),
  scope: text.optional().describe("Scopes to request, separated by spaces."),
  audience: text.optional().describe("Audience to request."),
  resource: text.optional().describe("Resource to request (RFC 8707)."),
  addresses: addresses.optional().describe("Addresses of the token endpoint. Default: those of the system."),
  caFile: text
    .optional()
    .describe("File with the certificates (PEM) trusted for the token endpoint, instead of the platform's."),
  timeoutMs: count(10_000, 120_000).describe("Time limit for one token request."),
});

const ownAuth = {
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
} as const;

const OWN_KINDS = ["bearerFile", "basicFile", "clientCredentials"];

const auth = z
  .strictObject({
    ...ownAuth,
    tokenExchange: oauth
      .optional()
      .describe(
        "OAuth token exchange (RFC 8693): the caller's own token is exchanged for one of the system, per caller.",
      ),
  })
  .superRefine(oneOf([...OWN_KINDS, "tokenExchange"]));

type WrittenAuth = Readonly<Record<string, unknown>> & { readonly header?: string | undefined };

/** Returns the check that there is one source of credentials. */
function oneOf(kinds: readonly string[]) {
  return ({ header, ...sources }: WrittenAuth, context: z.RefinementCtx): void => {
    const given = Object.values(sources).filter((value) => value !== undefined);
    if (given.length !== 1) context.addIssue({ code: "custom", message: `needs exactly one of ${kinds.join(", ")}` });
    if (header !== undefined && sources["bearerFile"] === undefined) {
      context.addIssue({ code: "custom", path: ["header"], message: "is only for bearerFile" });
    }
  };
}

/** Settings of a system at a URL. */
export const urlSettings = {
  tls: tls.optional(),
  plaintext: plaintext.describe("Set to `true` for an `http://` URL of a host other than this one."),
  addresses: addresses
    .default(["public"])
    .describe(
      "Addresses that the host may have: `public`, `private`, `loopback`, and networks such as `10.1.0.0/16`. If the host has any other address, nothing is sent. Metadata and link-local addresses are refused always.",
    ),
  auth: auth.optional(),
} as const;

/** Settings of a system at a URL that is called in the service's own name. */
export const ownUrlSettings = {
  ...urlSettings,
  auth: z.strictObject(ownAuth).superRefine(oneOf(OWN_KINDS)).optional(),
} as const;

interface UrlEntry {
  readonly plaintext?: true | undefined;
  readonly tls?: TlsFiles | undefined;
  readonly addresses: readonly string[];
  readonly auth?: z.output<typeof auth> | undefined;
}

/** Adds the problems of a URL with the settings next to it. `key`: the setting that holds the URL. */
export function checkUrl(key: string, value: string, entry: UrlEntry, context: z.RefinementCtx): void {
  const issue = (path: string, message: string): void => context.addIssue({ code: "custom", path: [path], message });
  const parsed = URL.parse(value);
  if (parsed?.protocol === "http:") {
    if (entry.tls !== undefined) issue("tls", "is only for an https:// URL");
    if (entry.plaintext !== true && !isLoopback(parsed.hostname))
      issue(key, "is not https: set plaintext: true to allow that");
  } else if (entry.plaintext === true) {
    issue("plaintext", "is only for an http:// URL");
  }
  checkClientCertificate(entry, context);
  const refused = refusedAddress(value, entry.addresses);
  if (refused !== undefined) issue(key, refused);
  for (const kind of ["clientCredentials", "tokenExchange"] as const) {
    const tokens = entry.auth?.[kind];
    const message = tokens && refusedAddress(tokens.tokenUrl, tokens.addresses ?? entry.addresses);
    if (message !== undefined) context.addIssue({ code: "custom", path: ["auth", kind, "tokenUrl"], message });
  }
}

/** Adds a problem when only one of the two files is named. */
export function checkClientCertificate({ tls: files }: Pick<UrlEntry, "tls">, context: z.RefinementCtx): void {
  if ((files?.clientCert === undefined) === (files?.clientKey === undefined)) return;
  context.addIssue({ code: "custom", path: ["tls"], message: "clientCert and clientKey go together" });
}

/** Returns the problem of a URL whose host is an address that the rules refuse. */
function refusedAddress(value: string, names: readonly string[]): string | undefined {
  const literal = literalAddress(URL.parse(value)?.hostname ?? "");
  const rules = readAddressRules(names);
  const refused = literal === undefined || "problem" in rules ? undefined : addressProblem(literal, rules);
  return refused && `its address is ${refused}, which addresses does not allow`;
}

/** Returns the rules of names that the schema has accepted. */
function addressRules(names: readonly string[]): AddressRules {
  const rules = readAddressRules(names);
  if ("problem" in rules) throw new Error(rules.problem);
  return rules;
}

/** Limits of a system's calls. */
export const callLimits = {
  retries: count(2, 2, 0).describe(
    "Maximum retries of a call that only reads or is idempotent, when the service was unavailable.",
  ),
  breaker: z
    .strictObject({
      failuresMax: count(10, 10_000).describe(
        "Consecutive connection errors that open the circuit. Errors returned by the service itself do not count.",
      ),
      openMs: count(2_000, 600_000).describe("Time for which an open circuit lets no call through."),
    })
    .prefault({}),
  concurrentCallsMax: count(256, 100_000).describe("Maximum concurrent calls to this system, all tools together."),
} as const;

interface CallLimits {
  readonly retries: number;
  readonly breaker: { readonly failuresMax: number; readonly openMs: number };
  readonly concurrentCallsMax: number;
}

export function resilienceOf({ retries, breaker, concurrentCallsMax }: CallLimits): ResilienceLimits {
  return {
    concurrentCallsMax,
    retriesMax: retries,
    circuitFailuresMax: breaker.failuresMax,
    circuitOpenMs: breaker.openMs,
  };
}

type Reading = Pick<TargetContext, "readFile" | "watchFiles" | "pathOf" | "problems">;

/** Access to the files that a system's entry names. */
export type UrlContext = Reading & Pick<TargetContext, "now">;

/** Reads the certificates of a system. Returns undefined after problems: one for each file. */
export function readTls(
  context: Reading,
  files: TlsFiles,
  field: string,
): { readonly tls: EgressTls; readonly certificates: CertificateSource } | undefined {
  const unreadable = (["rootCert", "clientCert", "clientKey"] as const).filter((key) => {
    const path = files[key];
    return path !== undefined && readNamed(context, path, `${field}.${key}`) === undefined;
  });
  if (unreadable.length > 0) return undefined;
  const certificates = certificateFiles(files, context);
  return { tls: certificates.read(), certificates };
}

/** Reads a file once, to report a problem at the start. Returns how it is read later; undefined after a problem. */
function fileReader<T>(
  context: Reading,
  { path, field, parse }: { readonly path: string; readonly field: string; readonly parse: (bytes: Buffer) => T },
): (() => T) | undefined {
  const bytes = readNamed(context, path, field);
  if (bytes === undefined) return undefined;
  try {
    parse(bytes);
  } catch (error) {
    context.problems.push(`${field}: ${path} ${errorText(error)}`);
    return undefined;
  }
  return () => parse(context.readFile(path));
}

/** A system at a URL: the allowed addresses, the trusted certificates, and the credentials of the proxy. */
interface UrlSystem {
  readonly url: URL;
  readonly addresses: AddressRules;
  /** Present for https. */
  readonly tls: EgressTls | undefined;
  /** Present when the entry names files. */
  readonly certificates: CertificateSource | undefined;
  readonly credentials: Credentials | undefined;
}

/** Reads the files that an entry names. Returns undefined after a problem. */
export async function readUrlSystem(
  context: UrlContext,
  field: string,
  entry: UrlEntry & { readonly url: string },
): Promise<UrlSystem | undefined> {
  const url = new URL(entry.url);
  const isTls = url.protocol === "https:";
  const secured = isTls && entry.tls !== undefined ? readTls(context, entry.tls, `${field}.tls`) : undefined;
  if (isTls && entry.tls !== undefined && secured === undefined) return undefined;
  const credentials = entry.auth === undefined ? undefined : await readCredentials(context, `${field}.auth`, entry);
  if (entry.auth !== undefined && credentials === undefined) return undefined;
  return {
    url,
    addresses: addressRules(entry.addresses),
    certificates: secured?.certificates,
    credentials,
    tls: isTls ? (secured?.tls ?? {}) : undefined,
  };
}

async function readCredentials(
  context: UrlContext,
  field: string,
  { auth: entry, addresses: names }: UrlEntry,
): Promise<Credentials | undefined> {
  const { readSecret, readBasic, fileCredentials, OAuthTokens, clientCredentialsGrant, tokenExchangeGrant } =
    await import("./credentials.ts");
  const { bearerFile, header, basicFile, clientCredentials, tokenExchange } = entry ?? {};
  const reader = <T>(key: string, path: string, parse: (bytes: Buffer) => T) =>
    fileReader(context, { path, field: `${field}.${key}`, parse });
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
    addresses: addressRules(settings.addresses ?? names),
    keepsConnections: false,
    ...(ca !== undefined && { tls: { rootCert: ca } }),
  });
  const { clientId, clientAuthentication, scope, audience, resource, timeoutMs } = settings;
  const endpoint: TokenEndpoint = {
    url: new URL(settings.tokenUrl),
    clientId,
    clientAuthentication,
    readSecret: secret,
    scope,
    audience,
    resource,
    timeoutMs,
  };
  const grantOf = key === "tokenExchange" ? tokenExchangeGrant : clientCredentialsGrant;
  return new OAuthTokens(endpoint, { grantOf, client, now: context.now });
}

/** Of a system that answers to the operators alone. */
export const ownSystem = z
  .boolean()
  .optional()
  .describe(
    "Whether the system is the operators' own: by the rules of data flow, what agents look up there does not leave to anybody else.",
  );
