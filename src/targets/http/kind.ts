import { z } from "zod";
import { errorText } from "../../core/error-text.ts";
import { ManifestError, StartupError } from "../../core/errors.ts";
import { isLoopback } from "../../core/network.ts";
import type { OpenedKind, TargetKind } from "../../core/target-kind.ts";
import { type AddressRules, addressProblem, literalAddress, readAddressRules } from "../../egress/addresses.ts";
import { type AssertionContext, readSigner } from "../../egress/assertion.ts";
import { certificateNotes, readNamed } from "../../egress/certificates.ts";
import { certificateFiles } from "../../egress/rotation.ts";
import type { Credentials, TokenEndpoint } from "./auth.ts";
import type { HttpHandler, HttpSystem } from "./handler.ts";
import { headerNameProblem, httpFaults } from "./manifest.ts";
import type { ApiContracts } from "./openapi/faults.ts";
import { HEADER_VALUE } from "./request.ts";

const URL_CHARACTERS_MAX = 2_048;

const text = z.string().min(1);
const count = (fallback: number, max: number, min = 1) => z.int().min(min).max(max).default(fallback);

const url = (what: string) =>
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

const addresses = z
  .array(text)
  .min(1)
  .max(64)
  .superRefine((names, context) => {
    const rules = readAddressRules(names);
    if ("problem" in rules) context.addIssue({ code: "custom", message: rules.problem });
  });

const ADDRESSES =
  "Addresses that the host may have: `public`, `private`, `loopback`, and networks such as `10.1.0.0/16`. If the host has any other address, nothing is sent. Metadata and link-local addresses are refused always.";

const tls = z.strictObject({
  rootCert: text.optional().describe("File with the trusted root certificates, PEM. Default: those of the platform."),
  clientCert: text
    .optional()
    .describe("File with the client certificate, PEM. A changed file is used without interruption."),
  clientKey: text.optional().describe("File with the private key of the client certificate, PEM."),
  serverName: text.optional().describe("Name in the server's certificate, when it differs from the URL's host."),
});

const oauth = z.strictObject({
  tokenUrl: url("URL of the token endpoint."),
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

const breaker = z
  .strictObject({
    failuresMax: count(10, 10_000).describe(
      "Consecutive connection errors that open the circuit. Errors returned by the service itself do not count.",
    ),
    openMs: count(2_000, 600_000).describe("Time for which an open circuit lets no call through."),
  })
  .prefault({});

const shape = z.strictObject({
  baseUrl: url("URL of the API, with the path that all requests share. Manifests cannot leave it."),
  plaintext: z
    .literal(true, "must be true, or left out")
    .optional()
    .describe("Set to `true` for an `http://` URL of a host other than this one."),
  addresses: addresses.default(["public"]).describe(ADDRESSES),
  tls: tls.optional(),
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
  retries: count(2, 2, 0).describe(
    "Maximum retries of a call that only reads or is idempotent, when the service was unavailable.",
  ),
  breaker,
  concurrentCallsMax: count(256, 100_000).describe("Maximum concurrent calls to this system, all tools together."),
});

type HttpEntry = z.output<typeof shape>;

const http = shape.superRefine(checkTransport).superRefine(checkAddress);

function checkTransport({ baseUrl, plaintext, tls: files }: HttpEntry, context: z.RefinementCtx): void {
  const parsed = URL.parse(baseUrl);
  const issue = (path: string, message: string): void => context.addIssue({ code: "custom", path: [path], message });
  if (parsed?.protocol === "http:") {
    if (files !== undefined) issue("tls", "is only for an https:// URL");
    if (plaintext !== true && !isLoopback(parsed.hostname))
      issue("baseUrl", "is not https: set plaintext: true to allow that");
  } else if (plaintext === true) {
    issue("plaintext", "is only for an http:// URL");
  }
  if ((files?.clientCert === undefined) !== (files?.clientKey === undefined)) {
    issue("tls", "clientCert and clientKey go together");
  }
}

function checkAddress(entry: HttpEntry, context: z.RefinementCtx): void {
  const { auth: credentials } = entry;
  const issue = (path: readonly string[], address: string): void => {
    const message = `its address is ${address}, which addresses does not allow`;
    context.addIssue({ code: "custom", path: [...path], message });
  };
  const api = refusedLiteral(entry.baseUrl, entry.addresses);
  if (api !== undefined) issue(["baseUrl"], api);
  for (const key of ["clientCredentials", "tokenExchange"] as const) {
    const tokens = credentials?.[key];
    const server = tokens && refusedLiteral(tokens.tokenUrl, tokens.addresses ?? entry.addresses);
    if (server !== undefined) issue(["auth", key, "tokenUrl"], server);
  }
}

function refusedLiteral(value: string, names: readonly string[]): string | undefined {
  const literal = literalAddress(URL.parse(value)?.hostname ?? "");
  const rules = readAddressRules(names);
  return literal === undefined || "problem" in rules ? undefined : addressProblem(literal, rules);
}

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
  const files = entry.tls ?? {};
  const isTls = entry.baseUrl.startsWith("https:");
  const certificates = isTls && entry.tls !== undefined ? certificateFiles(files, context) : undefined;
  for (const key of ["rootCert", "clientCert", "clientKey"] as const) {
    const path = files[key];
    if (path !== undefined && readNamed(context, path, `${field}.tls.${key}`) === undefined) return undefined;
  }
  const rules = rulesOf(entry.addresses);
  const credentials = entry.auth === undefined ? undefined : await readAuth(context, `${field}.auth`, entry);
  if (entry.auth !== undefined && credentials === undefined) return undefined;
  return {
    ...{ baseUrl: new URL(entry.baseUrl), addresses: rules, headers: entry.headers, isAsserted: entry.assertion },
    ...{ tls: isTls ? (certificates?.read() ?? {}) : undefined, certificates, credentials },
    answerBytesMax: entry.answerBytesMax,
    resilience: {
      concurrentCallsMax: entry.concurrentCallsMax,
      retriesMax: entry.retries,
      circuitFailuresMax: entry.breaker.failuresMax,
      circuitOpenMs: entry.breaker.openMs,
    },
  };
}

/** The configuration's schema has checked the names. */
function rulesOf(names: readonly string[]): AddressRules {
  const rules = readAddressRules(names);
  if ("problem" in rules) throw new Error(rules.problem);
  return rules;
}

async function readAuth(
  context: AssertionContext,
  field: string,
  { auth: entry, addresses: names }: HttpEntry,
): Promise<Credentials | undefined> {
  const { readSecret, readBasic, fileCredentials, OAuthTokens, clientCredentialsGrant, tokenExchangeGrant } =
    await import("./auth.ts");
  const { bearerFile, header, basicFile, clientCredentials, tokenExchange } = entry ?? {};
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
  const { EgressClient } = await import("../../egress/client.ts");
  const client = new EgressClient({
    ...{ addresses: rulesOf(settings.addresses ?? names), keepsConnections: false },
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
