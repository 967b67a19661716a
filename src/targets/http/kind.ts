import { z } from "zod";
import { errorText } from "../../core/error-text.ts";
import { ManifestError, StartupError } from "../../core/errors.ts";
import type { OpenedKind, TargetKind } from "../../core/target-kind.ts";
import { type AssertionContext, readSigner } from "../../egress/assertion.ts";
import { certificateNotes, readNamed } from "../../egress/certificates.ts";
import {
  addresses,
  addressRules,
  callLimits,
  checkUrl,
  count,
  fileReader,
  readSecret,
  readTls,
  refusedAddress,
  resilienceOf,
  text,
  url,
  urlSettings,
} from "../../egress/settings.ts";
import type { Credentials, TokenEndpoint } from "./auth.ts";
import type { HttpHandler, HttpSystem } from "./handler.ts";
import { headerNameProblem, httpFaults } from "./manifest.ts";
import type { ApiContracts } from "./openapi/faults.ts";
import { HEADER_VALUE } from "./request.ts";

/** The path becomes a part of request paths: it has no encoded or relative segments. */
function pathProblem(value: string): string | undefined {
  const isPlain = !/%|\/\/|\/\.{1,2}(?:\/|$)|;|\\/.test(value.slice(value.indexOf("://") + 3));
  return isPlain ? undefined : "must have a plain path, without //, ., .., ; or %";
}

const oauth = z.strictObject({
  tokenUrl: url(pathProblem).describe("URL of the token endpoint."),
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

const auth = z
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
      .describe("OAuth token exchange (RFC 8693): the caller's own token is exchanged for one of the API, per caller."),
  })
  .superRefine(({ header, ...sources }, context) => {
    const given = Object.entries(sources).filter(([, value]) => value !== undefined);
    if (given.length !== 1)
      context.addIssue({ code: "custom", message: `needs exactly one of ${AUTH_KINDS.join(", ")}` });
    if (header !== undefined && sources.bearerFile === undefined) {
      context.addIssue({ code: "custom", path: ["header"], message: "is only for bearerFile" });
    }
  });

const AUTH_KINDS = ["bearerFile", "basicFile", "clientCredentials", "tokenExchange"] as const;

const shape = z.strictObject({
  baseUrl: url(pathProblem).describe(
    "URL of the API, with the path that all requests share. Manifests cannot leave it.",
  ),
  ...urlSettings,
  auth: auth.optional(),
  headers: z
    .record(z.string(), z.string().max(4_096).regex(HEADER_VALUE, "must be visible ASCII"))
    .default({})
    .superRefine((headers, context) => {
      for (const name of Object.keys(headers)) {
        const problem = headerNameProblem(name);
        if (problem !== undefined) context.addIssue({ code: "custom", path: [name], message: problem });
      }
    })
    .describe("Headers of every request. Approvers see them: credentials belong into `auth`."),
  openapi: text
    .optional()
    .describe(
      "OpenAPI document (3.0 or 3.1, JSON or YAML) of the API. Manifests are checked against it when they are loaded, and `stc import openapi` reads it. Its files lie beside it.",
    ),
  assertion: z
    .boolean()
    .default(true)
    .describe("Whether the caller assertion is sent, when `assertion` is configured."),
  answerBytesMax: count(4_194_304, 67_108_864).describe("Largest answer, as received and decompressed."),
  ...callLimits,
});

type HttpEntry = z.output<typeof shape>;

const http = shape.superRefine((entry, context) => {
  checkUrl("baseUrl", entry.baseUrl, entry, context);
  for (const key of ["clientCredentials", "tokenExchange"] as const) {
    const tokens = entry.auth?.[key];
    const message = tokens && refusedAddress(tokens.tokenUrl, tokens.addresses ?? entry.addresses);
    if (message !== undefined) context.addIssue({ code: "custom", path: ["auth", key, "tokenUrl"], message });
  }
});

interface SystemEntry {
  readonly http: HttpEntry;
}

/** Requests to HTTP APIs. Its code is loaded only when a system is configured. */
export const httpKind: TargetKind<AssertionContext> = {
  name: "http",
  key: "http",
  systems: {
    keys: ["http"],
    schema: z.strictObject({ http: http.describe("An HTTP API.") }),
  },
  check: httpFaults,
  hasErrorText: () => true,
  category: () => "network",
  open,
};

async function open(context: AssertionContext): Promise<OpenedKind> {
  const entries = context.systems as ReadonlyMap<string, SystemEntry>;
  const contracts = await readContracts(context, entries);
  const handler = entries.size === 0 ? undefined : await openHandler(context, entries);
  return {
    isBroken: ({ target: { system } }) => handler === undefined && entries.has(system),
    bind(tool) {
      contracts?.check(tool);
      if (handler !== undefined) return handler.bind(tool);
      const message = `${tool.target.system} is not configured`;
      throw new ManifestError(tool.name, [{ field: "target.system", message }]);
    },
    report() {
      const { notes = [], ...contract } = contracts?.report() ?? {};
      return { ...contract, notes: [...notes, ...certificateNotes(handler?.certificates() ?? [], context.now())] };
    },
    status: async () => handler?.status() ?? {},
    certificates: () => handler?.certificates() ?? [],
    watch: (options) => handler?.watch(options),
    close: async () => handler?.close(),
  };
}

/** Returns undefined when no system has a document: then nothing is loaded that reads one. */
async function readContracts(
  { problems, pathOf, readFile }: AssertionContext,
  entries: ReadonlyMap<string, SystemEntry>,
): Promise<ApiContracts | undefined> {
  const described = [...entries].flatMap(([name, { http: entry }]) =>
    entry.openapi === undefined ? [] : [{ name, path: entry.openapi, baseUrl: new URL(entry.baseUrl) }],
  );
  if (described.length === 0) return undefined;
  const contracts = new (await import("./openapi/faults.ts")).ApiContracts();
  for (const { name, path, baseUrl } of described) {
    try {
      contracts.add(name, pathOf(path), { readFile, baseUrl });
    } catch (error) {
      problems.push(`systems.${name}.http.openapi: ${path} ${errorText(error)}`);
    }
  }
  return contracts;
}

async function openHandler(
  context: AssertionContext,
  entries: ReadonlyMap<string, SystemEntry>,
): Promise<HttpHandler | undefined> {
  const { httpHandler } = await import("./handler.ts");
  const known = context.problems.length;
  const systems = new Map<string, HttpSystem>();
  for (const [name, { http: entry }] of entries) {
    const system = await readSystem(context, name, entry);
    if (system !== undefined) systems.set(name, system);
  }
  const sign = readSigner(context);
  if (context.problems.length > known) return undefined;
  try {
    return httpHandler({ systems, sign, random: context.random });
  } catch (error) {
    if (!(error instanceof StartupError)) throw error;
    context.problems.push(...error.problems);
    return undefined;
  }
}

/** Returns undefined after a problem. */
async function readSystem(context: AssertionContext, name: string, entry: HttpEntry): Promise<HttpSystem | undefined> {
  const field = `systems.${name}.http`;
  const isTls = entry.baseUrl.startsWith("https:");
  const secured = isTls && entry.tls !== undefined ? readTls(context, entry.tls, `${field}.tls`) : { tls: undefined };
  if (secured === undefined) return undefined;
  const credentials = entry.auth === undefined ? undefined : await readAuth(context, `${field}.auth`, entry);
  if (entry.auth !== undefined && credentials === undefined) return undefined;
  return {
    ...{ baseUrl: new URL(entry.baseUrl), addresses: addressRules(entry.addresses), headers: entry.headers },
    ...{ isAsserted: entry.assertion, ...secured, tls: isTls ? (secured.tls ?? {}) : undefined, credentials },
    ...{ answerBytesMax: entry.answerBytesMax, resilience: resilienceOf(entry) },
  };
}

async function readAuth(
  context: AssertionContext,
  field: string,
  { auth: entry, addresses: names }: HttpEntry,
): Promise<Credentials | undefined> {
  const { readBasic, fileCredentials, OAuthTokens, clientCredentialsGrant, tokenExchangeGrant } = await import(
    "./auth.ts"
  );
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
  const { EgressClient } = await import("../../egress/client.ts");
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
