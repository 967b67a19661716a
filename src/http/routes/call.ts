import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Refusal } from "../../core/errors.ts";
import type { HttpRequestFacts } from "../../core/tracing.ts";
import type { Answer } from "../../pipeline/answer.ts";
import type { CallRequest } from "../../pipeline/call-request.ts";
import type { Disconnect } from "../../pipeline/call-scope.ts";
import type { ClientCertificate } from "../../pipeline/identity/binding.ts";
import type { Shedding } from "../../pipeline/limits/shedding.ts";
import type { ToolProxy } from "../../pipeline/proxy.ts";
import { BodyReaders } from "../body-readers.ts";
import { certificateOf } from "../connections/listening-tls.ts";
import { sendAnswer } from "../error-reply.ts";
import type { Metrics } from "../metrics.ts";
import {
  checkBodyHeaders,
  checkPeerHeaders,
  parseBody,
  parseEnvelope,
  type RequestGuardOptions,
  readIdempotencyKey,
  readTraceparent,
  readTracestate,
  readWaitMs,
} from "../request-guard.ts";

export interface CallRouteOptions extends RequestGuardOptions {
  readonly proxy: ToolProxy;
  /** Maximum number of concurrent requests that have not been authenticated yet. */
  readonly concurrentRequestsMax: () => number;
  /** Decides when calls are shed; without it, none are. */
  readonly shedding?: Shedding | undefined;
  readonly metrics: Metrics;
  /** Set when there are approvers to wait for. */
  readonly approvals?: unknown;
}

const RETRY_AFTER_MS = 1_000;
/** Largest refused body that is discarded so that its connection can stay open. */
export const PASSED_OVER_BYTES_MAX = 65_536;

/**
 * Declares `POST /call`: Host and Origin → size → media type → JSON → the pipeline. Requests refused before the pipeline are
 * audited too.
 */
export function callRoute(app: FastifyInstance, routeOptions: CallRouteOptions): void {
  const options = { ...routeOptions, readers: new BodyReaders(routeOptions.concurrentRequestsMax) };
  let atTheDoor = 0;

  // Fastify parses the media type before the handler and fails on an invalid one: the pipeline's own check then refuses it,
  // with an audit entry. Any other error goes to the server's handler, because a call must not run through the pipeline
  // twice.
  const errorHandler = async (error: unknown, request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    if (!(error instanceof Error && "code" in error && error.code === "FST_ERR_CTP_INVALID_MEDIA_TYPE")) throw error;
    const send = await walk(request, reply, options);
    await send();
  };
  app.post("/call", { errorHandler }, async (request, reply) => {
    atTheDoor += 1;
    let send: Send;
    try {
      const refusal = crowded(options, atTheDoor);
      send = await (refusal === undefined
        ? walk(request, reply, options)
        : refuse(refusal, { request, reply, options }));
    } finally {
      atTheDoor -= 1;
    }
    // Waits for the rest of a refused body, after the slot is free: it must not keep other requests out.
    return send();
  });
}

/** Sends the prepared answer. */
type Send = () => FastifyReply;

interface Refused {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly options: WalkOptions;
}

async function refuse(refusal: Refusal, { request, reply, options }: Refused): Promise<Send> {
  const answer = await turnAway(new IncomingCall(request, reply), refusal, { request, ...options });
  return () => (passesOver(request) ? sendAnswer(reply, answer) : sendTurnedAway(reply, answer));
}

interface WalkOptions extends CallRouteOptions {
  readonly readers: BodyReaders;
}

/** Decides whether to shed this call. Health, metrics and approvals are separate routes and are never shed. */
function crowded(options: CallRouteOptions, atTheDoor: number): Refusal | undefined {
  const { concurrentRequestsMax, shedding, metrics } = options;
  if (atTheDoor > concurrentRequestsMax()) {
    metrics.load.shed("requests");
    return new Refusal("OVERLOADED", "Too many requests at once.", { retryAfterMs: RETRY_AFTER_MS });
  }
  if (shedding?.refuses() !== true) return undefined;
  metrics.load.shed("loop_delay");
  return new Refusal("OVERLOADED", "The service has more to do than time.", { retryAfterMs: RETRY_AFTER_MS });
}

async function walk(request: FastifyRequest, reply: FastifyReply, options: WalkOptions): Promise<Send> {
  const { readers } = options;
  const call = new IncomingCall(request, reply);
  try {
    checkPeerHeaders(request.raw, options);
    checkBodyHeaders(request.headers, options);
    call.idempotencyKey = readIdempotencyKey(request.headers);
    call.waitMs = options.approvals === undefined ? 0 : readWaitMs(request.headers);
    if (call.waitMs > 0) reply.header("preference-applied", "wait");
    call.body = await readers.read(request, options);
    call.fill(parseBody(call.body, options));
  } catch (error) {
    // Two readers might disagree on where the next request starts: read nothing more from this connection.
    if (call.body === undefined) reply.header("connection", "close");
    const refusal =
      error instanceof Refusal ? error : new Refusal("INTERNAL", "The request could not be read.", { cause: error });
    const answer = await turnAway(call, refusal, { request, ...options });
    return () => sendTurnedAway(reply, answer);
  }
  const answer = await options.proxy.call(call);
  return () => sendAnswer(reply, answer);
}

interface TurningAway extends WalkOptions {
  readonly request: FastifyRequest;
}

/** Verifies the token for the audit entry, which costs as much as refusing it, so it counts as much against the source. */
async function turnAway(
  call: IncomingCall,
  refusal: Refusal,
  { request: { raw }, proxy, wrongTokens }: TurningAway,
): Promise<Answer> {
  if ((wrongTokens?.waitMs(raw) ?? 0) > 0) call.authorization = undefined;
  const answer = await proxy.turnAway(call, refusal);
  if (call.authorization !== undefined) wrongTokens?.countUnverified(raw);
  return answer;
}

/** A call as it arrives: first its headers, then its body, then the body's fields. */
class IncomingCall implements CallRequest {
  tool = "unknown";
  args: unknown = {};
  session: string | undefined;
  callId: string | undefined;
  reason: string | undefined;
  approvalId: string | undefined;
  idempotencyKey: string | undefined;
  waitMs = 0;
  body: Uint8Array | undefined;
  authorization: string | undefined;
  readonly certificate: ClientCertificate | undefined;
  readonly traceparent: string | undefined;
  readonly tracestate: string | undefined;
  readonly departure: Disconnect;
  readonly #request: FastifyRequest;

  constructor(request: FastifyRequest, reply: FastifyReply) {
    const { headers } = request;
    this.authorization = headers.authorization;
    this.certificate = certificateOf(request.raw);
    this.traceparent = readTraceparent(headers["traceparent"]);
    // `tracestate` means nothing without its `traceparent`. `baggage` is not forwarded: its content is not specified.
    this.tracestate = this.traceparent === undefined ? undefined : readTracestate(headers["tracestate"]);
    this.departure = new Connection(reply);
    this.#request = request;
  }

  get http(): HttpRequestFacts {
    return { route: "/call", scheme: this.#request.protocol };
  }

  get source(): string {
    // A peer on the Unix socket has no address.
    return this.#request.ip || "socket";
  }

  /** @throws {Refusal} MALFORMED_REQUEST; the requested tool name is kept even then */
  fill(parsed: unknown): void {
    const asked = typeof parsed === "object" && parsed !== null && "tool" in parsed ? parsed.tool : undefined;
    if (typeof asked === "string") this.tool = asked;
    const { args, session, callId, reason, approval } = parseEnvelope(parsed);
    this.args = args;
    this.session = session;
    this.callId = callId;
    this.reason = reason;
    this.approvalId = approval?.id;
  }
}

/** Discards a short body, so that the connection can stay open: a new connection would cost both sides more. */
function passesOver({ raw, headers }: FastifyRequest): boolean {
  const isShort = Number(headers["content-length"]) <= PASSED_OVER_BYTES_MAX;
  if (isShort) raw.resume();
  return isShort;
}

/** Sends the answer and closes the connection; the rest of a refused body is not read. */
function sendTurnedAway(reply: FastifyReply, answer: Answer): FastifyReply {
  if (!reply.request.raw.complete) reply.header("connection", "close");
  return sendAnswer(reply, answer);
}

/** Reports a disconnect when the connection closes before the answer is sent. */
class Connection implements Disconnect {
  readonly #raw: FastifyReply["raw"];

  constructor(reply: FastifyReply) {
    this.#raw = reply.raw;
  }

  get gone(): boolean {
    return this.#raw.destroyed && !this.#raw.writableFinished;
  }

  listen(listener: () => void): () => void {
    const onClose = (): void => {
      if (!this.#raw.writableFinished) listener();
    };
    this.#raw.once("close", onClose);
    return () => this.#raw.removeListener("close", onClose);
  }
}
