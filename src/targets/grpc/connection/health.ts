import protobuf from "protobufjs";
import { AttemptFailed } from "../status.ts";
import type { SystemConnections } from "./link.ts";

/** The `grpc.health.v1` state of a service; UNREACHABLE and UNIMPLEMENTED when there is no health answer. */
export type TargetHealth = "SERVING" | "NOT_SERVING" | "SERVICE_UNKNOWN" | "UNKNOWN" | "UNIMPLEMENTED" | "UNREACHABLE";

export interface HealthCheck {
  /** The service name in the health check; empty for the server as a whole. */
  readonly service: string;
}

const PATH = "/grpc.health.v1.Health/Check";
const TIMEOUT_MS = 1_000;
/** Time for which an answer is reused. */
const FRESH_MS = 5_000;
const ANSWER_BYTES_MAX = 1_024;

/** `ServingStatus` of grpc.health.v1, by number. */
const SERVING_STATUS: readonly TargetHealth[] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];

/** Asks one system for its health on demand; concurrent callers share one request. */
export class HealthProbe {
  readonly #check: HealthCheck;
  #latest: Promise<TargetHealth> | undefined;

  constructor(check: HealthCheck) {
    this.#check = check;
  }

  ask(link: SystemConnections): Promise<TargetHealth> {
    if (this.#latest !== undefined) return this.#latest;
    const asked = ask(link, this.#check);
    this.#latest = asked;
    const forget = (): void => {
      this.#latest = undefined;
    };
    asked.then(() => setTimeout(forget, FRESH_MS).unref(), forget);
    return asked;
  }
}

async function ask(link: SystemConnections, { service }: HealthCheck): Promise<TargetHealth> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const bytes = Buffer.from(service === "" ? [] : protobuf.Writer.create().uint32(10).string(service).finish());
  try {
    if (!(await link.connect(signal))) return "UNREACHABLE";
    return readHealth(await link.unary({ path: PATH, bytes, deadline: Number.POSITIVE_INFINITY, signal }));
  } catch (error) {
    return error instanceof AttemptFailed ? healthOf(error) : "UNREACHABLE";
  }
}

function healthOf({ origin, status }: AttemptFailed): TargetHealth {
  if (origin !== "service") return "UNREACHABLE";
  if (status === "NOT_FOUND") return "SERVICE_UNKNOWN";
  return status === "UNIMPLEMENTED" ? "UNIMPLEMENTED" : "UNKNOWN";
}

/** Reads the `status` (field 1, enum) of a HealthCheckResponse; returns UNKNOWN for anything else. */
export function readHealth(answer: Uint8Array): TargetHealth {
  if (answer.length > ANSWER_BYTES_MAX) return "UNKNOWN";
  let health: TargetHealth = "UNKNOWN";
  try {
    const reader = protobuf.Reader.create(answer);
    while (reader.pos < reader.len) {
      const tag = reader.uint32();
      if (tag === 8) health = SERVING_STATUS[reader.int32()] ?? "UNKNOWN";
      else reader.skipType(tag & 7);
    }
    return health;
  } catch {
    return "UNKNOWN";
  }
}
