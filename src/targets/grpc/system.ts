import type { Metadata } from "@grpc/grpc-js";
import { StartupError } from "../../core/errors.ts";
import { type HealthCheck, HealthProbe } from "./connection/health.ts";
import { type Endpoint, KEEPALIVE_DEFAULTS, type Keepalive } from "./connection/link.ts";
import { RESILIENCE_DEFAULTS, Resilience, type ResilienceLimits } from "./connection/resilience.ts";
import type { CertificateSource } from "./connection/rotation.ts";
import { type GrpcTls, reach, type SystemEndpoints, type SystemEndpointsOptions } from "./connection/tls-identity.ts";
import { Contract, type ProtoSource } from "./contract/contract.ts";
import { systemMetadata } from "./metadata.ts";

/** One gRPC service as the configuration describes it. */
export interface GrpcSystem extends ProtoSource, SystemEndpointsOptions {
  /** Source of `tls`, to notice when it changes. */
  readonly certificates?: CertificateSource | undefined;
  /** Metadata that is sent with every call to this system. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** Maximum size of one message, in both directions. */
  readonly maxMessageBytes: number;
  readonly keepalive?: Keepalive;
  readonly resilience?: Partial<ResilienceLimits>;
  /** Set when its health is checked, with the name to ask for. */
  readonly health?: HealthCheck | undefined;
}

/** A system whose files were read and whose settings were checked. */
export interface PreparedSystem {
  readonly name: string;
  readonly maxMessageBytes: number;
  /** Endpoints and certificates at the start; the certificates may have been replaced since. */
  readonly reach: SystemEndpoints;
  readonly contract: Contract;
  readonly metadata: Metadata;
  readonly resilience: Resilience;
  readonly health: HealthProbe | undefined;
  /** Returns the endpoint with these certificates. */
  endpoint(reached: SystemEndpoints): Endpoint;
  readonly rotation:
    | { readonly tls: GrpcTls; readonly source: CertificateSource; readonly read: (tls: GrpcTls) => SystemEndpoints }
    | undefined;
}

function prepare(name: string, system: GrpcSystem, random: () => number): PreparedSystem {
  const { maxMessageBytes, keepalive = KEEPALIVE_DEFAULTS, tls, certificates, health } = system;
  if (!Number.isSafeInteger(maxMessageBytes) || maxMessageBytes < 1) {
    throw new StartupError([`systems.${name}.messageBytesMax: must be a positive integer`]);
  }
  const read = (renewed: GrpcTls): SystemEndpoints => reach(name, { ...system, tls: renewed });
  return {
    name,
    maxMessageBytes,
    reach: reach(name, system),
    contract: new Contract(name, system),
    metadata: systemMetadata(name, system.metadata),
    resilience: new Resilience({ ...RESILIENCE_DEFAULTS, ...system.resilience }, random),
    health: health === undefined ? undefined : new HealthProbe(health),
    endpoint: (reached) => ({ reach: reached, maxMessageBytes, keepalive }),
    rotation: tls === undefined || certificates === undefined ? undefined : { tls, source: certificates, read },
  };
}

/**
 * Reads proto files and checks addresses and certificates.
 *
 * @throws {StartupError} one error with all problems
 */
export function prepareAll(
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
