import { AttemptFailed } from "../../../egress/grpc/attempt.ts";
import type { SystemConnections } from "../../../egress/grpc/connections.ts";
import { MessageCodec } from "../codec/message-codec.ts";
import { declarationsOfText } from "../contract/proto-files.ts";

/** The `grpc.health.v1` state of a service; UNREACHABLE and UNIMPLEMENTED mean that there is no health answer. */
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

const CODEC = new MessageCodec(
  declarationsOfText(`syntax = "proto3";
message Request { string service = 1; }
message Response { enum Status { UNKNOWN = 0; SERVING = 1; NOT_SERVING = 2; SERVICE_UNKNOWN = 3; } Status status = 1; }`),
);
const [REQUEST, RESPONSE] = [CODEC.shape("Request"), CODEC.shape("Response")];

/** Requests the health of one system. Concurrent callers share one request. */
export class HealthProbe {
  readonly #check: HealthCheck;
  #latest: Promise<TargetHealth> | undefined;

  constructor(check: HealthCheck) {
    this.#check = check;
  }

  ask(link: SystemConnections): Promise<TargetHealth> {
    if (this.#latest !== undefined) return this.#latest;
    const request = ask(link, this.#check);
    this.#latest = request;
    const forget = (): void => {
      this.#latest = undefined;
    };
    request.then(() => setTimeout(forget, FRESH_MS).unref(), forget);
    return request;
  }
}

async function ask(link: SystemConnections, { service }: HealthCheck): Promise<TargetHealth> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const bytes = CODEC.bytes(service === "" ? {} : { service }, REQUEST);
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

export function readHealth(answer: Uint8Array): TargetHealth {
  if (answer.length > ANSWER_BYTES_MAX) return "UNKNOWN";
  try {
    const { status } = CODEC.decode(answer, RESPONSE) as { readonly status: TargetHealth | number };
    return typeof status === "number" ? "UNKNOWN" : status;
  } catch {
    return "UNKNOWN";
  }
}
