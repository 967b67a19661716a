import type { ClientReadableStream, Metadata } from "@grpc/grpc-js";
import { Refusal } from "../../core/errors.ts";
import { PartialAnswer } from "../../core/partial-answer.ts";
import { defOf, type Schema } from "../../core/schema/walk.ts";
import type {
  Binding,
  ExecutionPlan,
  GrpcTarget,
  Json,
  RequestSpan,
  RunContext,
  TargetRequest,
  Tool,
} from "../../core/types.ts";
import type { AssertionSigner } from "../../egress/assertion.ts";
import { isSameIdentity } from "../../egress/certificates.ts";
import { AttemptFailed, attemptFailed, headersFrom, notSent, type ReceivedHeaders } from "../../egress/grpc/attempt.ts";
import type { SystemConnections } from "../../egress/grpc/connections.ts";
import type { SystemEndpoints } from "../../egress/grpc/endpoints.ts";
import type { GuardedCall, Resilience } from "../../egress/resilience.ts";
import type { Difference } from "./codec/message-codec.ts";
import type { Channels, ToolClass } from "./connection/channels.ts";
import type { Method } from "./contract/contract.ts";
import { elementsOf, fieldOf, shapesOf, takesNull } from "./contract/schema-faults.ts";
import { grpcHeadline } from "./headline.ts";
import { metadataKeys, metadataOf } from "./metadata.ts";
import { type FailedCall, refusalOf } from "./status.ts";

export interface BoundSystem {
  readonly name: string;
  readonly maxMessageBytes: number;
  /** Endpoints and certificates at the start. The certificates may have been replaced since. */
  readonly endpoints: SystemEndpoints;
  readonly metadata: Metadata;
  readonly resilience: Resilience;
}

interface BindingParts {
  readonly system: BoundSystem;
  readonly method: Method;
  readonly channels: Channels;
  readonly target: GrpcTarget;
  readonly sign?: AssertionSigner | undefined;
}

interface Attempt {
  readonly link: SystemConnections;
  readonly bytes: Buffer;
  readonly context: RunContext;
}

const FIELD_CHARACTERS_MAX = 128;

async function withSpan<Answer>(answer: Promise<Answer>, span: RequestSpan): Promise<Answer> {
  try {
    const value = await answer;
    span.end("OK");
    return value;
  } catch (error) {
    span.end(error instanceof AttemptFailed ? error.status : "UNKNOWN");
    throw error;
  }
}

export class GrpcBinding implements Binding {
  readonly #tool: Tool;
  readonly #parts: BindingParts;
  readonly #endpoint: string;
  readonly #safe: boolean;
  readonly #toolClass: ToolClass;
  readonly #answer: SchemaPosition;
  readonly #metadata: (context: RunContext) => Metadata;
  readonly #spanTarget: TargetRequest;
  /** Encoded requests by plan, so that exactly the planned bytes are sent and nothing is encoded twice. */
  readonly #encoded = new WeakMap<ExecutionPlan, Buffer>();

  constructor(tool: Tool, parts: BindingParts) {
    this.#tool = tool;
    this.#parts = parts;
    this.#endpoint = parts.system.endpoints.servers.map(({ address }) => address).join(",");
    this.#safe = tool.classification === "read" || tool.idempotent;
    const classification = tool.classification === "read" ? "read" : "change";
    this.#toolClass = parts.target.grpc.stream === undefined ? classification : "stream";
    this.#answer = new SchemaPosition([tool.output]);
    this.#metadata = metadataOf(parts.system.metadata, tool.name);
    this.#spanTarget = { path: parts.method.path, server: this.#endpoint };
  }

  readonly plansFromArguments = true;

  plan(input: unknown): ExecutionPlan {
    const { system, method, channels } = this.#parts;
    const encoded = method.request.encode(input);
    if ("reason" in encoded) throw this.#mismatch(encoded);
    const { length } = encoded.bytes;
    if (length > system.maxMessageBytes) {
      const limit = `at most ${system.maxMessageBytes} are sent`;
      throw new Refusal("INVALID_INPUT", `The arguments make a message of ${length} bytes; ${limit}.`);
    }
    const { tls } = channels.settings(system.name).endpoints;
    const plan: ExecutionPlan = {
      endpoint: this.#endpoint,
      kind: "grpc",
      message: encoded.message,
      path: method.path,
      system: system.name,
      tls: tls === null ? null : { rootSha256: tls.rootSha256, serverName: tls.serverName },
    };
    this.#encoded.set(plan, encoded.bytes);
    return plan;
  }

  fixedParts({ message: _, ...fixed }: ExecutionPlan): Json {
    return fixed;
  }

  readonly headline = grpcHeadline;

  /** Adds the sorted names of the call's metadata. Those that depend on the call end in `?`. */
  preview(plan: ExecutionPlan): ExecutionPlan {
    const { system, sign } = this.#parts;
    return { ...plan, metadataKeys: metadataKeys(system.metadata, sign !== undefined) };
  }

  readonly callsBegin = true;

  async run(plan: ExecutionPlan, context: RunContext): Promise<unknown> {
    const { system, method, channels } = this.#parts;
    if (plan["path"] !== method.path || plan["endpoint"] !== this.#endpoint) {
      throw new Refusal("INTERNAL", "The call could not be made.", { cause: "the plan belongs to another target" });
    }
    if (!isSameIdentity(plan["tls"], channels.settings(system.name).endpoints.tls)) {
      throw new Refusal("TARGET_UNAVAILABLE", "The service's identity changed after the call was planned. Call again.");
    }
    const link = channels.link(system.name, this.#toolClass);
    const bytes = this.#encoded.get(plan) ?? method.request.bytes(plan["message"] as Json);
    const attempt: Attempt = { link, bytes, context };
    const call: GuardedCall<Buffer | StreamedList> & FailedCall = {
      system: system.name,
      path: method.path,
      safe: this.#safe,
      errors: this.#tool.errors,
      signal: context.signal,
      attempt: () => this.#attempt(attempt),
      connected: () => link.readyCount() > 0,
    };
    let answer: Buffer | StreamedList;
    try {
      answer = await system.resilience.run(call);
    } catch (error) {
      if (!(error instanceof AttemptFailed)) throw error;
      const { status, origin, text, trailers } = error;
      context.observe?.("gRPC status", { status, origin, details: text, trailers: trailers() });
      throw refusalOf(error, call);
    }
    const read = this.#read(answer, call);
    context.observe?.("gRPC answer", {
      status: "OK",
      ...(Buffer.isBuffer(answer) ? { bytes: answer.length } : { messages: answer.items.length }),
    });
    return read;
  }

  #attempt(attempt: Attempt): Promise<Buffer | StreamedList> {
    const { link, context } = attempt;
    // Connects before the call: when that fails, certainly nothing has changed.
    const connecting = link.connect(context.signal);
    if (connecting === true && this.#parts.sign === undefined && !context.signal.aborted) {
      return this.#send(attempt, this.#metadata(context));
    }
    return this.#prepare(attempt, connecting);
  }

  async #prepare(attempt: Attempt, connecting: boolean | Promise<boolean>): Promise<Buffer | StreamedList> {
    const { system, method, sign } = this.#parts;
    const { bytes, context } = attempt;
    const { signal, caller, traceId } = context;
    const isConnected = connecting === true || (await connecting);
    if (!isConnected || signal.aborted) throw notSent(signal);
    const metadata = this.#metadata(context);
    if (sign !== undefined) {
      const { name: tool } = this.#tool;
      const asserted = { system: system.name, caller, tool, method: method.path, message: bytes, traceId };
      metadata.set("x-caller-assertion", await sign(asserted));
      // The signal may have fired meanwhile.
      if (signal.aborted) throw notSent(signal);
    }
    return this.#send(attempt, metadata);
  }

  #send({ link, bytes, context }: Attempt, metadata: Metadata): Promise<Buffer | StreamedList> {
    const { method, target } = this.#parts;
    const { deadline, signal } = context;
    context.begin?.();
    const request = { path: method.path, bytes, metadata, deadline, signal };
    const bounds = target.grpc.stream;
    const span = context.requests?.begin(this.#spanTarget);
    if (span !== undefined) metadata.set("traceparent", span.traceparent);
    const answer: Promise<Buffer | StreamedList> =
      bounds === undefined ? link.unary(request) : collect(link.stream(request), { ...bounds, signal });
    return span === undefined ? answer : withSpan(answer, span);
  }

  #read(answer: Buffer | StreamedList, call: FailedCall): unknown {
    const isOne = Buffer.isBuffer(answer);
    // Answers of changes may be larger than the limit, because the status comes after them. They are not read.
    if (isOne && answer.length > this.#parts.system.maxMessageBytes) return new PartialAnswer(undefined);
    try {
      const { response } = this.#parts.method;
      const decoded = isOne ? response.decode(answer) : { ...answer, items: response.decodeAll(answer.items) };
      this.#answer.omitUnset(decoded);
      return !isOne && answer.truncated ? new PartialAnswer(decoded) : decoded;
    } catch (error) {
      const bytes = isOne ? answer.length : answer.items.reduce((sum, { length }) => sum + length, 0);
      // A RangeError comes from our own readers, and its message contains no value of the answer.
      const because = error instanceof RangeError ? error.message : "malformed";
      throw new Refusal("INVALID_OUTPUT", "The service's answer does not match its contract.", {
        cause: { system: call.system, path: call.path, answerBytes: bytes, because },
      });
    }
  }

  /** Returns the refusal for arguments that the schema accepts and the contract does not. It names the field to fix. */
  #mismatch({ field, reason }: Difference): Refusal {
    const path = field.slice(0, FIELD_CHARACTERS_MAX) || "(arguments)";
    return new Refusal("INVALID_INPUT", `The arguments do not match the service's contract: ${path} ${reason}.`, {
      details: { issues: [{ path, message: reason }] },
      cause: { tool: this.#tool.name, method: this.#parts.method.path },
    });
  }
}

/** Maximum cached positions of one schema: the keys of maps come from the service. */
const REMEMBERED_MAX = 4_000;

class SchemaPosition {
  readonly #shapes: readonly Schema[];
  /** True when the schema declares the position and does not accept null there. */
  readonly #omitsNull: boolean;
  readonly #fields = new Map<string, SchemaPosition>();
  readonly #memory: { left: number };
  #elements: SchemaPosition | undefined;

  constructor(declared: readonly Schema[], memory = { left: REMEMBERED_MAX }, isInMap = false) {
    this.#shapes = shapesOf(declared, "in");
    // The values of a map are never unset: null is a value there.
    this.#omitsNull = declared.length > 0 && !isInMap && !declared.some(takesNull);
    this.#memory = memory;
  }

  /**
   * Removes unset message fields, which the decoder returns as null, where the output schema does not accept null, as
   * in the protobuf JSON mapping. So `.nullable()` and `.optional()` both mean "may be unset". Changes the answer in
   * place.
   */
  omitUnset(value: unknown): void {
    if (typeof value !== "object" || value === null || this.#shapes.length === 0) return;
    if (Array.isArray(value)) {
      this.#elements ??= new SchemaPosition(this.#shapes.flatMap(elementsOf), this.#memory);
      if (this.#elements.#shapes.length > 0) for (const item of value) this.#elements.omitUnset(item);
      return;
    }
    const fields = value as Record<string, unknown>;
    for (const key of Object.keys(fields)) {
      const inner = fields[key];
      // Only null, or a value that may contain null, matters.
      if (typeof inner !== "object") continue;
      const field = this.#fields.get(key) ?? this.#field(key);
      if (inner !== null) field.omitUnset(inner);
      else if (field.#omitsNull) delete fields[key];
    }
  }

  #field(key: string): SchemaPosition {
    const isMap = this.#shapes.some((shape) => defOf(shape).type === "record");
    const declared = this.#shapes.flatMap((shape) => fieldOf(shape, key));
    const field = new SchemaPosition(declared, this.#memory, isMap);
    if (this.#memory.left > 0) {
      this.#memory.left -= 1;
      this.#fields.set(key, field);
    }
    return field;
  }
}

interface StreamedList {
  readonly items: readonly Buffer[];
  /** True when the stream was cancelled at a limit, so that there may have been more messages. */
  readonly truncated: boolean;
}

/** Time for a stream to end by itself after `itemsMax` messages, which shows that it is complete. */
const END_GRACE_MS = 250;

/** Collects a stream into a list and cancels it at the first limit. Rejects when it ends with an error before. */
function collect(
  stream: ClientReadableStream<Buffer>,
  {
    itemsMax,
    bytesMax,
    signal,
  }: {
    readonly itemsMax: number;
    readonly bytesMax: number;
    readonly signal: AbortSignal;
  },
): Promise<StreamedList> {
  return new Promise((resolve, reject) => {
    const items: Buffer[] = [];
    let bytes = 0;
    let received: ReceivedHeaders = "none";
    let isOver = false;
    let grace: ReturnType<typeof setTimeout> | undefined;
    const cancel = (): void => stream.cancel();
    const end = (complete: () => void): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(grace);
      signal.removeEventListener("abort", cancel);
      complete();
    };
    const cutOff = (): void => {
      end(() => resolve({ items, truncated: true }));
      stream.cancel();
    };
    const take = (message: Buffer): void => {
      if (isOver) return;
      if (items.length >= itemsMax || bytes + message.length > bytesMax) {
        cutOff();
        return;
      }
      items.push(message);
      bytes += message.length;
      if (items.length === itemsMax) grace = setTimeout(cutOff, END_GRACE_MS);
    };
    signal.addEventListener("abort", cancel, { once: true });
    stream.once("metadata", (headers: Metadata) => {
      received = headersFrom(headers);
    });
    stream.on("data", take);
    // A status other than OK arrives as an error, before the end. After a cut-off, the promise is settled before the status
    // of our own cancellation arrives.
    stream.on("error", (error: unknown) => end(() => reject(attemptFailed(error, received))));
    stream.on("end", () => end(() => resolve({ items, truncated: false })));
  });
}
