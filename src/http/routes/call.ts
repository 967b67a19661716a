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
  /** Requests at the door at once, before anybody knows whose they are. */
  readonly concurrentRequestsMax: () => number;
  /** Whether work has to be shed; without it none is. */
  readonly shedding?: Shedding | undefined;
  readonly metrics: Metrics;
  /** Whether there is anybody to wait for. */
  readonly approvals?: unknown;
}

const RETRY_AFTER_MS = 1_000;
/** Of a body that nobody reads, when its connection is to stay. */
export const PASSED_OVER_BYTES_MAX = 65_536;

/** `POST /call`: Host and Origin → size → media type → JSON → the road. Whatever the door refuses is audited too. */
export function callRoute(app: FastifyInstance, routeOptions: CallRouteOptions): void {
  const options = { ...routeOptions, readers: new BodyReaders(routeOptions.concurrentRequestsMax) };
  let atTheDoor = 0;

  // Fastify reads the media type before the handler and fails on one that is none: the road's own check says it, with a line.
  // Anything else goes to the server's own handler: a call that was walked must not be walked again.
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
    // Waits for the rest of a refused body: it must not keep others out.
    return send();
  });
}

/** Sends the answer that is ready. */
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

/** Health, metrics and what people decide are other routes: they are never shed. */
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
    // Nothing is read from a connection any more on which two readers may not agree where the next request begins.
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

/** The token is verified for the line in the audit, which costs as much as refusing it: so it counts as much, too. */
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

/** A call as it comes in: first its headers, then its body, then what stands in it. */
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
    // It means nothing without the trace that it belongs to. `baggage` goes nowhere: nobody says what is in it.
    this.tracestate = this.traceparent === undefined ? undefined : readTracestate(headers["tracestate"]);
    this.departure = new Connection(reply);
    this.#request = request;
  }

  get http(): HttpRequestFacts {
    return { route: "/call", scheme: this.#request.protocol };
  }

  get source(): string {
    // A peer at the Unix socket has no address.
    return this.#request.ip || "socket";
  }

  /** @throws {Refusal} MALFORMED_REQUEST; the name that was asked for is kept even then */
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

/** A short body is let run by, so that its connection can stay: to connect anew would cost both sides more. */
function passesOver({ raw, headers }: FastifyRequest): boolean {
  const isShort = Number(headers["content-length"]) <= PASSED_OVER_BYTES_MAX;
  if (isShort) raw.resume();
  return isShort;
}

/** The rest of a refused body is not read; the connection ends with the answer. */
function sendTurnedAway(reply: FastifyReply, answer: Answer): FastifyReply {
  if (!reply.request.raw.complete) reply.header("connection", "close");
  return sendAnswer(reply, answer);
}

/** The client is gone when its connection closes before its answer is out. */
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
