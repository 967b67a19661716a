import { type Fault, ManifestError, StartupError } from "../../core/errors.ts";
import type { OpenedKind, SystemState, WatchOptions } from "../../core/target-kind.ts";
import type { GrpcTarget, Tool } from "../../core/types.ts";
import type { AssertionSigner } from "../../egress/assertion.ts";
import type { EgressTls } from "../../egress/client.ts";
import type { ChannelState, ConnectionSettings } from "../../egress/grpc/connections.ts";
import { resolveEndpoints, type SystemEndpoints, type SystemEndpointsOptions } from "../../egress/grpc/endpoints.ts";
import { KEEPALIVE_DEFAULTS, type Keepalive } from "../../egress/grpc/settings.ts";
import { type Circuit, RESILIENCE_DEFAULTS, Resilience, type ResilienceLimits } from "../../egress/resilience.ts";
import { CertificateRotation, type CertificateSource } from "../../egress/rotation.ts";
import { type BoundSystem, GrpcBinding } from "./binding.ts";
import { Channels, type SystemChannelState } from "./connection/channels.ts";
import { type HealthCheck, HealthProbe, type TargetHealth } from "./connection/health.ts";
import { Contract, type ContractReport, contractReport, type Method, type ProtoSource } from "./contract/contract.ts";
import { elementsOf, fieldOf, inputSchemaFaults, outputSchemaFaults, shapesOf } from "./contract/schema-faults.ts";
import { systemMetadata } from "./metadata.ts";

export interface GrpcSystem extends ProtoSource, SystemEndpointsOptions {
  readonly certificates?: CertificateSource | undefined;
  readonly metadata?: Readonly<Record<string, string>>;
  /** Maximum size of one message, in both directions. */
  readonly maxMessageBytes: number;
  readonly keepalive?: Keepalive;
  readonly resilience?: Partial<ResilienceLimits>;
  readonly health?: HealthCheck | undefined;
}

interface SystemStatus extends Required<SystemState> {
  readonly state: ChannelState;
  readonly circuit: Circuit;
  /** Answer of its health service; null when the health service is not used. */
  readonly health: TargetHealth | null;
  /** Expiry of the proxy's own certificate for this system, in ISO 8601; null without one. */
  readonly certificateExpiresAt: string | null;
}

/** The members of the kind that need a configured system. */
export interface GrpcHandler extends Required<Pick<OpenedKind, "bind" | "certificates" | "watch" | "close">> {
  channels(): readonly SystemChannelState[];
  /** Returns the state of every system by name. Sends a request to each configured health service. */
  status(): Promise<Readonly<Record<string, SystemStatus>>>;
  report(tools: readonly Tool[]): ContractReport;
}

interface GrpcHandlerOptions {
  readonly systems: ReadonlyMap<string, GrpcSystem>;
  readonly sign?: AssertionSigner | undefined;
  /** Returns a number from 0 to 1, which spreads retries over time. */
  readonly random?: () => number;
}

interface PreparedSystem extends BoundSystem {
  readonly contract: Contract;
  readonly health: HealthProbe | undefined;
  settings(endpoints: SystemEndpoints): ConnectionSettings;
  readonly rotation:
    | {
        readonly tls: EgressTls;
        readonly source: CertificateSource;
        readonly read: (tls: EgressTls) => SystemEndpoints;
      }
    | undefined;
}

function prepare(name: string, system: GrpcSystem, random: () => number): PreparedSystem {
  const { maxMessageBytes, keepalive = KEEPALIVE_DEFAULTS, tls, certificates, health } = system;
  if (!Number.isSafeInteger(maxMessageBytes) || maxMessageBytes < 1) {
    throw new StartupError([`systems.${name}.messageBytesMax: must be a positive integer`]);
  }
  const read = (renewed: EgressTls): SystemEndpoints =>
    resolveEndpoints(`systems.${name}`, { ...system, tls: renewed });
  return {
    name,
    maxMessageBytes,
    endpoints: resolveEndpoints(`systems.${name}`, system),
    contract: new Contract(name, system),
    metadata: systemMetadata(name, system.metadata),
    resilience: new Resilience({ ...RESILIENCE_DEFAULTS, ...system.resilience }, random),
    health: health === undefined ? undefined : new HealthProbe(health),
    settings: (endpoints) => ({ endpoints: endpoints, maxMessageBytes, keepalive }),
    rotation: tls === undefined || certificates === undefined ? undefined : { tls, source: certificates, read },
  };
}

/**
 * Reads proto files and checks addresses and certificates.
 *
 * @throws {StartupError} one error with all problems
 */
function prepareAll(
  systems: ReadonlyMap<string, GrpcSystem>,
  random: () => number,
): ReadonlyMap<string, PreparedSystem> {
  const prepared = new Map<string, PreparedSystem>();
  const problems: string[] = [];
  for (const [name, system] of systems) {
    try {
      prepared.set(name, prepare(name, system, random));
    } catch (error) {
      if (!(error instanceof StartupError)) throw error;
      problems.push(...error.problems);
    }
  }
  if (problems.length > 0) throw new StartupError(problems);
  return prepared;
}

function parsedExample(tool: Tool, example: unknown): { readonly input: unknown } | undefined {
  try {
    const parsed = tool.input.safeParse(example);
    return parsed.success ? { input: parsed.data } : undefined;
  } catch {
    return undefined;
  }
}

function joinField(parent: string, field: string): string {
  return field === "" || field.startsWith("[") ? `${parent}${field}` : `${parent}.${field}`;
}

/** Returns the parts of the input schema and its examples that the request message cannot represent. */
function inputFaults(tool: Tool, method: Method): readonly Fault[] {
  const faults: Fault[] = [...inputSchemaFaults(tool.input, method.requestShape)];
  tool.examples.accepts.forEach((example, index) => {
    const path = `examples.accepts[${index}]`;
    const parsed = parsedExample(tool, example);
    if (parsed === undefined) {
      faults.push({ field: path, message: "the input schema refuses it" });
      return;
    }
    const encoded = method.request.encode(parsed.input);
    if ("reason" in encoded) {
      const { field, reason, message: type } = encoded;
      const message = type === undefined ? reason : `is not a field of ${type}`;
      faults.push({ field: joinField(path, field), message });
    }
  });
  return faults;
}

/** Returns the parts of the output schema that no answer can match. For a stream, these are the list's messages. */
function outputFaults(tool: Tool, method: Method): readonly Fault[] {
  if (!method.responseStream) return outputSchemaFaults(tool.output, method.responseShape);
  const lists = shapesOf([tool.output], "in").flatMap((shape) => fieldOf(shape, "items"));
  const elements = shapesOf(lists, "in").flatMap((shape) => elementsOf(shape));
  return elements.flatMap((element) =>
    outputSchemaFaults(element, method.responseShape).map(({ field, message }) => ({
      field: `output.items[]${field.slice("output".length)}`,
      message,
    })),
  );
}

function streamFaults(tool: Tool, { grpc }: GrpcTarget, { responseStream }: Method): readonly Fault[] {
  const field = "target.grpc.stream";
  const { stream } = grpc;
  const name = `${grpc.service}.${grpc.method}`;
  if (stream === undefined) {
    const message = `${name} is a streaming method: set its limits, { itemsMax, bytesMax }`;
    return responseStream ? [{ field, message }] : [];
  }
  if (!responseStream) return [{ field, message: `${name} gives one answer, not a stream` }];
  if (tool.classification !== "read") {
    return [{ field, message: "is cancelled at its limits: only a read tool may have one" }];
  }
  if (stream.bytesMax <= tool.limits.outputBytesMax) return [];
  return [{ field: `${field}.bytesMax`, message: `is over limits.outputBytesMax, ${tool.limits.outputBytesMax}` }];
}

function grpcTarget(tool: Tool): GrpcTarget {
  if ("grpc" in tool.target) return tool.target;
  throw new ManifestError(tool.name, [{ field: "target", message: "is not a gRPC target" }]);
}

function methodOf(tool: Tool, target: GrpcTarget, { contract }: PreparedSystem): Method {
  const method = contract.method(target);
  if (typeof method === "string") throw new ManifestError(tool.name, [{ field: "target.grpc", message: method }]);
  const faults = [...streamFaults(tool, target, method), ...inputFaults(tool, method), ...outputFaults(tool, method)];
  if (faults.length > 0) throw new ManifestError(tool.name, faults);
  return method;
}

/**
 * Creates the handler for gRPC services. Reads contracts and checks addresses and certificates at once; connects at the
 * first call.
 *
 * @throws {StartupError} with all problems
 */
export function grpcHandler({ systems: declared, sign, random = () => 0.5 }: GrpcHandlerOptions): GrpcHandler {
  const systems = prepareAll(declared, random);
  const channels = new Channels(
    new Map([...systems].map(([name, system]) => [name, system.settings(system.endpoints)])),
  );
  const rotations: CertificateRotation<SystemEndpoints>[] = [];
  return {
    bind(tool) {
      const target = grpcTarget(tool);
      const system = systems.get(target.system);
      if (system === undefined) {
        const known = [...systems.keys()].join(", ") || "none";
        const message = `no gRPC system ${target.system} is configured; configured: ${known}`;
        throw new ManifestError(tool.name, [{ field: "target.system", message }]);
      }
      return new GrpcBinding(tool, { system, method: methodOf(tool, target, system), channels, target, sign });
    },
    channels: () => channels.states(),
    certificates: () =>
      [...systems.keys()].flatMap((system) => {
        const { clientCertificate } = channels.settings(system).endpoints;
        return clientCertificate === null ? [] : [{ system, notAfter: clientCertificate.notAfter }];
      }),
    report: (tools) =>
      contractReport(
        [...systems.values()].map(({ contract }) => contract),
        tools,
      ),
    async status() {
      const rows = [...systems].map(async ([name, system]) => [name, await statusOf(system, channels)] as const);
      return Object.fromEntries(await Promise.all(rows));
    },
    watch(options) {
      for (const system of systems.values()) rotations.push(...rotationOf(system, channels, options));
    },
    async close() {
      for (const rotation of rotations) rotation.close();
      channels.close();
    },
  };
}

async function statusOf({ name, resilience, health }: PreparedSystem, channels: Channels): Promise<SystemStatus> {
  const { clientCertificate } = channels.settings(name).endpoints;
  return {
    health: health === undefined ? null : await health.ask(channels.link(name, "read")),
    state: channels.state(name),
    circuit: resilience.circuit,
    calls: resilience.calls,
    certificateExpiresAt: clientCertificate === null ? null : new Date(clientCertificate.notAfter).toISOString(),
  };
}

function rotationOf(
  { name: system, rotation, endpoints, settings }: PreparedSystem,
  channels: Channels,
  { now, report }: WatchOptions,
): readonly CertificateRotation<SystemEndpoints>[] {
  if (rotation === undefined) return [];
  const { tls, source, read } = rotation;
  const adopt = (renewed: typeof endpoints) => channels.replace(system, settings(renewed));
  return [new CertificateRotation({ system, source, current: { tls, endpoints }, read, adopt, now, report })];
}
