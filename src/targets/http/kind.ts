import { z } from "zod";
import { errorText } from "../../core/error-text.ts";
import { ManifestError, StartupError } from "../../core/errors.ts";
import type { OpenedKind, TargetKind } from "../../core/target-kind.ts";
import type { HttpTarget, Tool } from "../../core/types.ts";
import { type AssertionContext, readSigner } from "../../egress/assertion.ts";
import { certificateNotes } from "../../egress/certificates.ts";
import {
  callLimits,
  checkUrl,
  count,
  ownSystem,
  plainUrl,
  readUrlSystem,
  resilienceOf,
  text,
  urlSettings,
} from "../../egress/settings.ts";
import type { GraphqlOperation } from "./graphql/answer.ts";
import type { GraphqlContracts } from "./graphql/contracts.ts";
import { graphqlSettings } from "./graphql/settings.ts";
import type { HttpHandler, HttpSystem } from "./handler.ts";
import { headerNameProblem, httpFaults, httpRequestPart } from "./manifest.ts";
import type { ApiContracts } from "./openapi/faults.ts";
import { HEADER_VALUE } from "./request.ts";

const shape = z.strictObject({
  baseUrl: plainUrl.describe("URL of the API, with the path that all requests share. Manifests cannot leave it."),
  ...urlSettings,
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
      "OpenAPI document (3.0 or 3.1, JSON or YAML) of the API. Manifests are checked against it when they are loaded, and `stc import openapi` reads it. Further files of the document are in its folder.",
    ),
  graphql: graphqlSettings,
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
    schema: z.strictObject({ http: http.describe("An HTTP API."), own: ownSystem }),
  },
  data: httpRequestPart,
  check: httpFaults,
  hasErrorText: () => true,
  reachesOthers: () => true,
  category: () => "network",
  describesRequest: true,
  open,
};

/** Creates an HTTP target: a request below the `baseUrl` of the system. */
export function httpRequest(system: string, request: HttpTarget["http"]): HttpTarget {
  return { system, http: request };
}

async function open(context: AssertionContext): Promise<OpenedKind> {
  const entries = context.systems as ReadonlyMap<string, SystemEntry>;
  const contracts = await readContracts(context, entries);
  const schemas = await readSchemas(context, entries);
  const handler = entries.size === 0 ? undefined : await openHandler(context, entries);
  return {
    isBroken: ({ target: { system } }) =>
      entries.has(system) && (handler === undefined || (schemas?.isBroken(system) ?? false)),
    bind(tool) {
      contracts?.check(tool);
      const operation = operationOf(tool, schemas);
      if (handler !== undefined) return handler.bind(tool, operation);
      const message = `${tool.target.system} is not configured`;
      throw new ManifestError(tool.name, [{ field: "target.system", message }]);
    },
    report() {
      const { notes = [], ...documents } = contracts?.report() ?? { contracts: [], toolNotes: [] };
      const graphql = schemas?.report() ?? { contracts: [], toolNotes: [] };
      return {
        contracts: [...documents.contracts, ...graphql.contracts],
        toolNotes: [...documents.toolNotes, ...graphql.toolNotes],
        notes: [...notes, ...certificateNotes(handler?.certificates() ?? [], context.now())],
      };
    },
    status: async () => handler?.status() ?? {},
    certificates: () => handler?.certificates() ?? [],
    watch: (options) => handler?.watch(options),
    revoked: () => handler?.revoked(),
    close: async () => handler?.close(),
  };
}

/** Returns undefined when no system has a document: then nothing is loaded that reads one. */
async function readContracts(
  { problems, pathOf, readFile }: AssertionContext,
  entries: ReadonlyMap<string, SystemEntry>,
): Promise<ApiContracts | undefined> {
  const described = [...entries].flatMap(([name, { http: entry }]) =>
    entry.openapi === undefined
      ? []
      : [{ name, path: entry.openapi, baseUrl: new URL(entry.baseUrl), headers: Object.keys(entry.headers) }],
  );
  if (described.length === 0) return undefined;
  const contracts = new (await import("./openapi/faults.ts")).ApiContracts();
  for (const { name, path, baseUrl, headers } of described) {
    try {
      contracts.add(name, pathOf(path), { readFile, baseUrl, headers });
    } catch (error) {
      problems.push(`systems.${name}.http.openapi: ${path} ${errorText(error)}`);
    }
  }
  return contracts;
}

/** Reads the schemas of systems. Returns undefined when no system has one, without loading the GraphQL code. */
async function readSchemas(
  { problems, pathOf, readFile }: AssertionContext,
  entries: ReadonlyMap<string, SystemEntry>,
): Promise<GraphqlContracts | undefined> {
  const described = [...entries].flatMap(
    ([
      name,
      {
        http: { graphql },
      },
    ]) => (graphql === undefined ? [] : [{ name, graphql }]),
  );
  if (described.length === 0) return undefined;
  const schemas = new (await import("./graphql/contracts.ts")).GraphqlContracts();
  for (const { name, graphql } of described) {
    try {
      schemas.add(name, () => readFile(pathOf(graphql.schemaFile)), graphql);
    } catch (error) {
      problems.push(`systems.${name}.http.graphql: ${graphql.schemaFile} ${errorText(error)}`);
    }
  }
  return schemas;
}

/** Returns the checked GraphQL operation of a tool that has one. @throws {ManifestError} */
function operationOf(tool: Tool, schemas: GraphqlContracts | undefined): GraphqlOperation | undefined {
  const { name, target } = tool;
  if (!("http" in target)) return undefined;
  if (target.http.graphql === undefined) {
    schemas?.checkPlain(name, target.system);
    return undefined;
  }
  if (schemas !== undefined) return schemas.check({ ...tool, target });
  const message = `systems.${target.system}.http.graphql is not set: it names the schema`;
  throw new ManifestError(name, [{ field: "target.http.graphql", message }]);
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
    return httpHandler({ systems, sign, random: context.random, now: context.now });
  } catch (error) {
    if (!(error instanceof StartupError)) throw error;
    context.problems.push(...error.problems);
    return undefined;
  }
}

/** Returns undefined after a problem. */
async function readSystem(context: AssertionContext, name: string, entry: HttpEntry): Promise<HttpSystem | undefined> {
  const field = `systems.${name}.http`;
  const reached = await readUrlSystem(context, field, { ...entry, url: entry.baseUrl });
  if (reached === undefined) return undefined;
  return {
    ...reached,
    baseUrl: reached.url,
    headers: entry.headers,
    isAsserted: entry.assertion,
    answerBytesMax: entry.answerBytesMax,
    resilience: resilienceOf(entry),
  };
}
