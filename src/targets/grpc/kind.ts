import { statSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { ManifestError, StartupError } from "../../core/errors.ts";
import { schemaFaults } from "../../core/manifest/checks.ts";
import type { OpenedKind, TargetKind } from "../../core/target-kind.ts";
import type { GrpcTarget, Tool } from "../../core/types.ts";
import { type AssertionContext, type AssertionSigner, readSigner } from "../../egress/assertion.ts";
import { certificateNotes, readNamed } from "../../egress/certificates.ts";
import {
  checkTransport,
  grpcAddress,
  grpcTls,
  hasEndpoint,
  keepalive,
  NO_ENDPOINT,
} from "../../egress/grpc/settings.ts";
import { callLimits, count, readTls, resilienceOf, text } from "../../egress/settings.ts";
import type { ProtoSource } from "./contract/contract.ts";
import type { GrpcHandler, GrpcSystem } from "./handler.ts";

const ANY_TYPES_MAX = 256;

/** The source of the contract (exactly one of the first three), and requirements on it. */
const contract = {
  proto: text.optional().describe("A proto file, or a folder whose proto files are all loaded."),
  descriptorSet: text
    .optional()
    .describe("Descriptor set, a file as `protoc --include_imports --descriptor_set_out` or `buf build` writes it."),
  reflection: z
    .literal(true, "must be true, or left out")
    .optional()
    .describe("Whether the service is asked for its contract, by server reflection, at each start."),
  contractSha256: z
    .string()
    .regex(/^(?:sha256:)?[0-9a-f]{64}$/, "must be 64 hexadecimal digits in lower case, as stc check shows them")
    .transform((hash) => hash.replace("sha256:", ""))
    .optional()
    .describe(
      "Expected hash of the contract, as `stc check` shows it. The service does not start with a contract that has another hash.",
    ),
  anyTypes: z
    .array(z.string().regex(/^[A-Za-z_][A-Za-z0-9_.]{0,255}$/, "must be the full name of a message, without a slash"))
    .max(ANY_TYPES_MAX)
    .default([])
    .describe("Full names of the message types that a google.protobuf.Any may hold."),
} as const;

const shape = z.strictObject({
  ...grpcAddress,
  ...contract,
  ...grpcTls,
  metadata: z
    .record(z.string().regex(/^[a-z0-9_.-]+$/, "must be a lower-case header name"), z.string().regex(/^[\x20-\x7e]*$/))
    .default({})
    .describe("Metadata sent with every call."),
  messageBytesMax: count(4_194_304, 67_108_864).describe("Largest answer."),
  keepalive,
  ...callLimits,
  /** `true`: health of the whole server; with a name: health of one of its services. */
  health: z
    .union([z.literal(true), z.strictObject({ service: z.string().max(256) })])
    .optional()
    .describe("Whether `grpc.health.v1` is queried when an operator requests /readyz."),
});

type SystemEntry = z.output<typeof shape>;

function checkContractSource(system: SystemEntry, context: z.RefinementCtx): void {
  const given = (["proto", "descriptorSet", "reflection"] as const).filter((key) => system[key] !== undefined);
  if (given.length > 1) {
    context.addIssue({ code: "custom", path: [given[1] ?? ""], message: `and ${given[0]} exclude each other` });
  }
}

const system = shape
  .refine(hasEndpoint, NO_ENDPOINT)
  .refine((entry) => [entry.proto, entry.descriptorSet, entry.reflection].some((source) => source !== undefined), {
    path: ["proto"],
    message: "is missing; it is text: a file or a folder (or descriptorSet: a file, or reflection: true)",
    // Checked even when there is an unknown key, which may be this one with a typo.
    when: () => true,
  })
  .superRefine(checkContractSource)
  .superRefine(checkTransport);

const name = (means: string) => z.string("must be a name").min(1, "must be a name").describe(means);

function limit(max: number, means: string) {
  const message = `must be a whole number from 1 to ${max}`;
  return z.int(message).min(1, message).max(max, message).describe(means);
}

const STREAM = z.strictObject(
  {
    itemsMax: limit(100_000, "Messages after which the stream is cancelled."),
    bytesMax: limit(67_108_864, "Bytes after which the stream is cancelled."),
  },
  { error: ({ code }) => (code === "invalid_type" ? "must be { itemsMax, bytesMax }" : undefined) },
);

/** A manifest's `target.grpc`. */
const method = z
  .strictObject(
    {
      package: name("Package of the service, such as `bank.accounts.v1`."),
      service: name("Name of the service, without its package."),
      method: name("Name of the method."),
      stream: STREAM.optional().describe("Limits of a server stream, whose messages become a list."),
    },
    { error: ({ code }) => (code === "invalid_type" ? "must be { package, service, method }" : undefined) },
  )
  .describe("A method of a gRPC service.");

/** Methods of gRPC services. The gRPC packages are loaded only when a system is configured. */
export const grpc: TargetKind<AssertionContext> = {
  name: "grpc",
  key: "grpc",
  systems: {
    // Not all keys: other systems use names such as `health` and `retries` for lists.
    keys: [
      ...["descriptorSet", "reflection", "contractSha256", "anyTypes"],
      ...["endpoint", "endpoints", "proto", "tls", "plaintext", "metadata", "messageBytesMax"],
    ],
    schema: system,
  },
  data: method,
  check: (part) => schemaFaults("target.grpc", method, part),
  hasErrorText: () => true,
  category: () => "network",
  planOffline({ target }, entry) {
    if ((entry as SystemEntry | undefined)?.reflection !== true) return undefined;
    const { system: name, grpc: part } = target as GrpcTarget;
    const path = `/${part.package}.${part.service}/${part.method}`;
    return (message) => ({ kind: "grpc", system: name, path, message });
  },
  open,
};

/** Creates a gRPC target. `service` is the full name `package.Service`; `stream` limits what is read of a stream. */
export function grpcMethod(
  system: string,
  service: string,
  method: string,
  options: Pick<GrpcTarget["grpc"], "stream"> = {},
): GrpcTarget {
  const dot = service.lastIndexOf(".");
  const names = { package: service.slice(0, Math.max(dot, 0)), service: service.slice(dot + 1), method };
  return { system, grpc: { ...names, ...options } };
}

function open(context: AssertionContext): OpenedKind {
  const systems = readSystems(context);
  const sign = readSigner(context);
  let handler: GrpcHandler | undefined;
  let hasFailed = false;
  return {
    async prepare(tools) {
      if (systems.size > 0 || tools.length > 0) {
        handler = await openHandler(context, { systems, tools, sign });
        hasFailed = handler === undefined;
      }
      return new Map();
    },
    isBroken: ({ target: { system: name } }) => hasFailed || (context.systems.has(name) && !systems.has(name)),
    bind(tool) {
      if (handler !== undefined) return handler.bind(tool);
      const message = `${tool.target.system} is not configured`;
      throw new ManifestError(tool.name, [{ field: "target.system", message }]);
    },
    report(tools) {
      const { contracts = [], ...rest } = handler?.report(tools) ?? {};
      const unpinned = contracts.filter(({ origin, isPinned }) => origin === "reflection" && !isPinned);
      const notes = unpinned.map(
        (each) =>
          `systems.${each.system}: its contract comes from reflection and is not pinned: the service can change it; set contractSha256`,
      );
      const certificates = certificateNotes(handler?.certificates() ?? [], context.now());
      return { contracts, ...rest, notes: [...notes, ...certificates] };
    },
    async drafts(name) {
      const described = systems.get(name);
      return described && (await import("./drafts.ts")).draftsOf(name, described);
    },
    status: async () => handler?.status() ?? {},
    channels: () => handler?.channels() ?? [],
    certificates: () => handler?.certificates() ?? [],
    watch: (options) => handler?.watch(options),
    close: async () => handler?.close(),
  };
}

async function openHandler(
  { random, problems }: AssertionContext,
  {
    systems,
    tools,
    sign,
  }: {
    readonly systems: ReadonlyMap<string, GrpcSystem>;
    readonly tools: readonly Tool[];
    readonly sign: AssertionSigner | undefined;
  },
): Promise<GrpcHandler | undefined> {
  const [{ withReflection }, { grpcHandler }] = await Promise.all([
    import("./contract/reflection.ts"),
    import("./handler.ts"),
  ]);
  const described = await withReflection(systems, tools, problems);
  try {
    return described && grpcHandler({ systems: described, sign, random });
  } catch (error) {
    if (!(error instanceof StartupError)) throw error;
    problems.push(...error.problems);
    return undefined;
  }
}

function readSystems(context: AssertionContext): ReadonlyMap<string, GrpcSystem> {
  const systems = new Map<string, GrpcSystem>();
  for (const [name, entry] of context.systems as ReadonlyMap<string, SystemEntry>) {
    const { endpoint: address, endpoints, plaintext: isPlain, metadata, keepalive: pings, health } = entry;
    const secured = entry.tls === undefined ? {} : readTls(context, entry.tls, `systems.${name}.tls`);
    const source = contractSource(context, name, entry);
    if (source === undefined || secured === undefined) continue;
    systems.set(name, {
      endpoint: address,
      endpoints,
      plaintext: isPlain,
      metadata,
      keepalive: pings,
      ...secured,
      ...source,
      maxMessageBytes: entry.messageBytesMax,
      resilience: resilienceOf(entry),
      health: health === true ? { service: "" } : health,
    });
  }
  return systems;
}

function contractSource(context: AssertionContext, name: string, entry: SystemEntry): ProtoSource | undefined {
  const { proto, descriptorSet, reflection, contractSha256, anyTypes } = entry;
  const pinned = { anyTypes, contractSha256 };
  if (proto !== undefined) {
    const path = context.pathOf(proto);
    return isFile(path)
      ? { protoDirs: [join(path, "..")], protoFiles: [path], ...pinned }
      : { protoDirs: [path], ...pinned };
  }
  if (descriptorSet === undefined) return { reflection, ...pinned };
  const bytes = readNamed(context, descriptorSet, `systems.${name}.descriptorSet`);
  return bytes && { descriptorSet: { bytes, path: descriptorSet }, ...pinned };
}

/** Returns false for a path that cannot be inspected; reading it reports the error. */
function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
