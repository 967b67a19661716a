import { z } from "zod";
import { hasPort, NO_PORT } from "./port.ts";

/**
 * Declares how one gRPC service is reached: every key, limit and default of `systems.<name>`. Units are part of the key names.
 */

const ENDPOINTS_MAX = 16;

const text = z.string().min(1);
const count = (fallback: number, max: number, min = 1) => z.int().min(min).max(max).default(fallback);

const tls = z.strictObject({
  rootCert: text,
  clientCert: text.optional(),
  clientKey: text.optional(),
  /** Name in the server's certificate, when it differs from the endpoint's host. */
  serverName: text.optional(),
});

/** Matches a name or IPv4 address, or an IPv6 address in brackets: without brackets, its last group would be read as the port. */
const ENDPOINT = /^(?:dns:(?:\/\/\/)?)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}$/;
const endpoint = z
  .string()
  .regex(ENDPOINT, "must be host:port or [IPv6]:port: no scheme, no Unix socket")
  .refine(hasPort, NO_PORT);

const keepalive = z
  .strictObject({
    /**
     * Time between two pings. By default, servers of the gRPC family disconnect a client that pings more often than every 5
     * minutes.
     */
    intervalMs: count(310_000, 86_400_000, 10_000),
    timeoutMs: count(20_000, 600_000, 1_000),
    /** Whether to ping while no call is under way. */
    withoutCalls: z.boolean().default(false),
  })
  .prefault({});

const breaker = z
  .strictObject({
    /** Consecutive connection errors that open the circuit. Errors returned by the service itself do not count. */
    failuresMax: count(10, 10_000),
    /** Time for which an open circuit lets no call through. */
    openMs: count(2_000, 600_000),
  })
  .prefault({});

const health = z.union([
  z.literal(true),
  /** Name of the service in grpc.health.v1. With `true` instead, the health of the server as a whole is queried. */
  z.strictObject({ service: z.string().max(256) }),
]);

const ANY_TYPES_MAX = 256;

/** Keys for the source of the contract, exactly one of the first three, and for what the contract must meet. */
const contract = {
  /** A proto file, or a folder whose proto files are all loaded. */
  proto: text.optional(),
  /** Descriptor set, a file as `protoc --include_imports --descriptor_set_out` or `buf build` writes it. */
  descriptorSet: text.optional(),
  /** Whether the service is asked for its contract, by server reflection, at each start. */
  reflection: z.literal(true, "must be true, or left out").optional(),
  /** Expected hash of the contract, as `stc check` shows it. The service does not start with a contract that has another hash. */
  contractSha256: z
    .string()
    .regex(/^(?:sha256:)?[0-9a-f]{64}$/, "must be 64 hexadecimal digits in lower case, as stc check shows them")
    .transform((hash) => hash.replace("sha256:", ""))
    .optional(),
  /** Full names of the message types that a google.protobuf.Any may hold. */
  anyTypes: z
    .array(z.string().regex(/^[A-Za-z_][A-Za-z0-9_.]{0,255}$/, "must be the full name of a message, without a slash"))
    .max(ANY_TYPES_MAX)
    .default([]),
} as const;

const shape = z.strictObject({
  endpoint: endpoint.optional(),
  /** Several equivalent endpoints (host:port); calls go to each in turn. */
  endpoints: z.array(endpoint).min(1).max(ENDPOINTS_MAX).optional(),
  ...contract,
  tls: tls.optional(),
  /** Set to `true` to reach this system without TLS; leaving out `tls` alone is an error. */
  plaintext: z.literal(true, "must be true, or left out").optional(),
  metadata: z
    .record(z.string().regex(/^[a-z0-9_.-]+$/, "must be a lower-case header name"), z.string().regex(/^[\x20-\x7e]*$/))
    .default({}),
  messageBytesMax: count(4_194_304, 67_108_864),
  keepalive,
  /** Maximum retries of a call that only reads or is idempotent, when the service was unavailable. */
  retries: count(2, 2, 0),
  breaker,
  /** Maximum concurrent calls to this system, all tools together. */
  concurrentCallsMax: count(256, 100_000),
  /** Whether `grpc.health.v1` is queried when an operator requests /readyz. */
  health: health.optional(),
});

export type GrpcSystemConfig = z.output<typeof shape>;

function isNamed(system: Partial<GrpcSystemConfig>): boolean {
  return system.endpoint !== undefined || system.endpoints !== undefined;
}

function isDescribed({ proto, descriptorSet, reflection }: Partial<GrpcSystemConfig>): boolean {
  return proto !== undefined || descriptorSet !== undefined || reflection !== undefined;
}

function demandOneContract(system: GrpcSystemConfig, context: z.RefinementCtx): void {
  const given = (["proto", "descriptorSet", "reflection"] as const).filter((key) => system[key] !== undefined);
  if (given.length > 1) {
    context.addIssue({ code: "custom", path: [given[1] ?? ""], message: `and ${given[0]} exclude each other` });
  }
}

function demandTransport(system: GrpcSystemConfig, context: z.RefinementCtx): void {
  if (system.endpoint !== undefined && system.endpoints !== undefined) {
    context.addIssue({ code: "custom", path: ["endpoints"], message: "and endpoint exclude each other" });
  }
  if ((system.tls === undefined) === (system.plaintext === undefined)) {
    context.addIssue({ code: "custom", message: "needs tls, or plaintext: true, and not both" });
  }
  if ((system.tls?.clientCert === undefined) !== (system.tls?.clientKey === undefined)) {
    context.addIssue({ code: "custom", path: ["tls"], message: "clientCert and clientKey go together" });
  }
}

export const grpcSystem = shape
  .refine(isNamed, {
    path: ["endpoint"],
    message: "is missing; it is text: host:port (or endpoints, a list of them)",
    // Checked even when a key is unknown: it may be this one, misspelt.
    when: () => true,
  })
  .refine(isDescribed, {
    path: ["proto"],
    message: "is missing; it is text: a file or a folder (or descriptorSet: a file, or reflection: true)",
    when: () => true,
  })
  .superRefine(demandOneContract)
  .superRefine(demandTransport);

/** Keys that only a gRPC system has. Any one of them identifies it, even when another is misspelt. */
export const GRPC_SIGNS: readonly string[] = [
  ...["descriptorSet", "reflection", "contractSha256", "anyTypes"],
  ...["endpoint", "endpoints", "proto", "tls", "plaintext", "metadata", "messageBytesMax"],
];
