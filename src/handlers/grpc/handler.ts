import type { Metadata } from "@grpc/grpc-js";
import { type Fault, ManifestError, Refusal, StartupError } from "../../core/errors.ts";
import type { Binding, ExecutionPlan, GrpcTarget, Handler, Json, RunContext, Tool } from "../../core/types.ts";
import { leaveOutAbsent } from "./absent-fields.ts";
import { type ChannelState, Channels, type ToolClass } from "./channels.ts";
import type { Difference, EncodedMessage } from "./codec.ts";
import { Contract, type Method, type ProtoSource } from "./contract.ts";
import { callMetadata, systemMetadata } from "./metadata.ts";
import { inputSchemaFaults, outputSchemaFaults } from "./schema-faults.ts";
import { abortedBeforeSending, answerTooLarge, type FailedCall, refusalOf, unreachable } from "./status.ts";
import { type GrpcTls, type Reach, reach, type TlsIdentity } from "./tls-identity.ts";

/** One gRPC service as the configuration names it. Exactly one of `tls` and `plaintext: true` must be given. */
export interface GrpcSystem extends ProtoSource {
  /** `host:port`, the host a DNS name, or an IP address when `tls.serverName` or `plaintext` is set. */
  readonly endpoint: string;
  readonly tls?: GrpcTls;
  readonly plaintext?: boolean;
  /** Sent with every call to this system. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** Bound of one message, both ways. */
  readonly maxMessageBytes: number;
}

export interface GrpcHandler extends Handler {
  /** The channels opened so far, for metrics. */
  states(): readonly ChannelState[];
}

interface Prepared {
  readonly name: string;
  readonly endpoint: string;
  readonly maxMessageBytes: number;
  readonly reach: Reach;
  readonly contract: Contract;
  readonly metadata: Metadata;
}

function prepare(name: string, system: GrpcSystem): Prepared {
  const { endpoint, maxMessageBytes } = system;
  if (!Number.isSafeInteger(maxMessageBytes) || maxMessageBytes < 1) {
    throw new StartupError([`systems.${name}.maxMessageBytes: must be a positive integer`]);
  }
  return {
    name,
    endpoint,
    maxMessageBytes,
    reach: reach(name, system),
    contract: new Contract(name, system),
    metadata: systemMetadata(name, system.metadata),
  };
}

function prepareAll(systems: ReadonlyMap<string, GrpcSystem>): ReadonlyMap<string, Prepared> {
  const prepared = new Map<string, Prepared>();
  const problems: string[] = [];
  for (const [name, system] of systems) {
    try {
      prepared.set(name, prepare(name, system));
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

function at(place: string, field: string): string {
  if (field === "") return place;
  return field.startsWith("[") ? `${place}${field}` : `${place}.${field}`;
}

/** What of the input schema or its examples the request message cannot carry. */
function inputFaults(tool: Tool, method: Method): readonly Fault[] {
  const faults: Fault[] = [...inputSchemaFaults(tool.input, method.requestShape)];
  tool.examples.accepts.forEach((example, index) => {
    const place = `examples.accepts[${index}]`;
    const parsed = parsedExample(tool, example);
    if (parsed === undefined) {
      faults.push({ field: place, message: "the input schema refuses it" });
      return;
    }
    const encoded = method.request.encode(parsed.input);
    if ("reason" in encoded) faults.push({ field: at(place, encoded.field), message: encoded.reason });
  });
  return faults;
}

/** One tool's way to its method. */
class GrpcBinding implements Binding {
  readonly #tool: Tool;
  readonly #system: Prepared;
  readonly #method: Method;
  readonly #channels: Channels;
  readonly #target: { readonly kind: "grpc"; readonly [key: string]: Json };

  constructor(tool: Tool, parts: { readonly system: Prepared; readonly method: Method; readonly channels: Channels }) {
    this.#tool = tool;
    this.#system = parts.system;
    this.#method = parts.method;
    this.#channels = parts.channels;
    const { name, endpoint, reach: reached } = parts.system;
    this.#target = { kind: "grpc", system: name, endpoint, path: parts.method.path, tls: tlsJson(reached.tls) };
  }

  plan(input: unknown): ExecutionPlan {
    const encoded = this.#method.request.encode(input);
    if ("reason" in encoded) throw this.#misdeclared(encoded);
    this.#checkSize(encoded);
    return { ...this.#target, message: encoded.message };
  }

  async run(plan: ExecutionPlan, context: RunContext): Promise<unknown> {
    if (plan["path"] !== this.#target["path"] || plan["endpoint"] !== this.#target["endpoint"]) {
      throw new Refusal("INTERNAL", "The call could not be made.", { cause: "the plan belongs to another target" });
    }
    const call = this.#call(context.signal);
    const link = this.#channels.link(this.#system.name, this.#toolClass());
    const bytes = this.#method.request.bytes(plan["message"]);
    const metadata = callMetadata(this.#system.metadata, this.#tool.name, context);
    // Asked apart from the call, so that a failure to connect is known to have changed nothing.
    const attempt = link.connect(context.signal);
    const connected = attempt === true || (await attempt);
    if (context.signal.aborted) throw abortedBeforeSending(call);
    if (!connected) throw unreachable(call);
    const { deadline, signal } = context;
    const answer = await link
      .unary({ path: this.#method.path, bytes, metadata, deadline, signal })
      .catch((error: unknown) => Promise.reject(refusalOf(error, call)));
    if (answer.length > this.#tool.limits.outputBytesMax) throw answerTooLarge(call, answer.length);
    return this.#decode(answer);
  }

  #decode(answer: Buffer): unknown {
    try {
      const decoded = this.#method.response.decode(answer);
      leaveOutAbsent(decoded, this.#tool.output);
      return decoded;
    } catch {
      throw new Refusal("INVALID_OUTPUT", "The service's answer is not what its contract declares.", {
        cause: { system: this.#system.name, path: this.#method.path, answerBytes: answer.length },
      });
    }
  }

  #call(signal: AbortSignal): FailedCall {
    const safe = this.#tool.classification === "read" || this.#tool.idempotent;
    return { system: this.#system.name, path: this.#method.path, safe, signal };
  }

  #toolClass(): ToolClass {
    return this.#tool.classification === "read" ? "read" : "change";
  }

  #misdeclared({ field, reason }: Difference): Refusal {
    return new Refusal("INTERNAL", "This tool's manifest does not fit its service; an operator must mend it.", {
      cause: { tool: this.#tool.name, path: this.#method.path, field, reason },
    });
  }

  #checkSize({ bytes }: EncodedMessage): void {
    const max = this.#system.maxMessageBytes;
    if (bytes.length <= max) return;
    throw new Refusal(
      "INVALID_INPUT",
      `The arguments make a message of ${bytes.length} bytes; at most ${max} are sent.`,
    );
  }
}

function tlsJson(tls: TlsIdentity | null): Json {
  return tls === null ? null : { serverName: tls.serverName, rootSha256: tls.rootSha256 };
}

function grpcTarget(tool: Tool): GrpcTarget {
  if ("grpc" in tool.target) return tool.target;
  throw new ManifestError(tool.name, [{ field: "target", message: "is not a gRPC target" }]);
}

/**
 * Reaches gRPC services. Reads proto files and checks addresses and certificates at once, and throws a `StartupError`
 * with all that is wrong; connects at the first call.
 */
export function grpcHandler(options: { readonly systems: ReadonlyMap<string, GrpcSystem> }): GrpcHandler {
  const systems = prepareAll(options.systems);
  const channels = new Channels(
    new Map(
      [...systems].map(([name, { endpoint, reach: reached, maxMessageBytes }]) => [
        name,
        { address: endpoint, reach: reached, maxMessageBytes },
      ]),
    ),
  );
  return {
    bind(tool) {
      const target = grpcTarget(tool);
      const system = systems.get(target.system);
      if (system === undefined) {
        const known = [...systems.keys()].join(", ") || "none";
        const message = `no gRPC system ${target.system} is configured; configured: ${known}`;
        throw new ManifestError(tool.name, [{ field: "target.system", message }]);
      }
      const method = system.contract.method(target);
      if (typeof method === "string") throw new ManifestError(tool.name, [{ field: "target.grpc", message: method }]);
      const faults = [...inputFaults(tool, method), ...outputSchemaFaults(tool.output, method.responseShape)];
      if (faults.length > 0) throw new ManifestError(tool.name, faults);
      return new GrpcBinding(tool, { system, method, channels });
    },
    states: () => channels.states(),
    close: async () => channels.close(),
  };
}
