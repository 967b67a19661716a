import { z } from "zod";
import { ManifestError, StartupError } from "../../core/errors.ts";
import { isLoopback } from "../../core/network.ts";
import type { OpenedKind, TargetKind } from "../../core/target-kind.ts";
import { type AssertionContext, readSigner } from "../../egress/assertion.ts";
import { certificateNotes } from "../../egress/certificates.ts";
import { checkReached, openReached, systemAddresses, systemAuth, systemTls, systemUrl } from "../../egress/settings.ts";
import type { HttpHandler, HttpSystem } from "./handler.ts";
import { headerNameProblem, httpFaults } from "./manifest.ts";
import { HEADER_VALUE } from "./request.ts";

const count = (fallback: number, max: number, min = 1) => z.int().min(min).max(max).default(fallback);

const breaker = z
  .strictObject({
    failuresMax: count(10, 10_000).describe(
      "Consecutive connection errors that open the circuit. Errors returned by the service itself do not count.",
    ),
    openMs: count(2_000, 600_000).describe("Time for which an open circuit lets no call through."),
  })
  .prefault({});

const shape = z.strictObject({
  baseUrl: systemUrl("URL of the API, with the path that all requests share. Manifests cannot leave it."),
  plaintext: z
    .literal(true, "must be true, or left out")
    .optional()
    .describe("Set to `true` for an `http://` URL of a host other than this one."),
  addresses: systemAddresses,
  tls: systemTls.optional(),
  auth: systemAuth.optional(),
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

const http = shape.superRefine((entry, context) => {
  const { baseUrl, plaintext } = entry;
  const issue = (path: readonly string[], message: string): void =>
    context.addIssue({ code: "custom", path: [...path], message });
  const isPlain = URL.parse(baseUrl)?.protocol === "http:";
  if (isPlain && plaintext !== true && !isLoopback(URL.parse(baseUrl)?.hostname ?? "")) {
    issue(["baseUrl"], "is not https: set plaintext: true to allow that");
  }
  if (!isPlain && plaintext === true) issue(["plaintext"], "is only for an http:// URL");
  checkReached({ ...entry, url: baseUrl }, "baseUrl", issue);
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
  const handler = entries.size === 0 ? undefined : await openHandler(context, entries);
  return {
    isBroken: ({ target: { system } }) => handler === undefined && entries.has(system),
    bind(tool) {
      if (handler !== undefined) return handler.bind(tool);
      const message = `${tool.target.system} is not configured`;
      throw new ManifestError(tool.name, [{ field: "target.system", message }]);
    },
    report: () => ({ notes: certificateNotes(handler?.certificates() ?? [], context.now()) }),
    status: async () => handler?.status() ?? {},
    certificates: () => handler?.certificates() ?? [],
    watch: (options) => handler?.watch(options),
    revoked: () => handler?.revoked(),
    close: async () => handler?.close(),
  };
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
  const reached = await openReached(context, field, entry);
  if (reached === undefined) return undefined;
  const { addresses, certificates, credentials } = reached;
  const isTls = entry.baseUrl.startsWith("https:");
  return {
    ...{ baseUrl: new URL(entry.baseUrl), addresses, headers: entry.headers, isAsserted: entry.assertion },
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
