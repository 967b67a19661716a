import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Refusal } from "../../core/errors.ts";
import type { Answer } from "../../proxy/answer.ts";
import type { Departure } from "../../proxy/call-scope.ts";
import type { CallRequest, ToolProxy } from "../../proxy/proxy.ts";
import { BodyReaders } from "../body-readers.ts";
import {
  checkBodyHeaders,
  checkPeerHeaders,
  type DoorOptions,
  parseBody,
  parseEnvelope,
  readIdempotencyKey,
  readTraceparent,
  readWaitMs,
} from "../door.ts";
import { sendAnswer } from "../error-reply.ts";

export interface CallRouteOptions extends DoorOptions {
  readonly proxy: ToolProxy;
  /** Requests at the door at once, before anybody knows whose they are. */
  readonly concurrentRequestsMax: number;
  /** Whether there is anybody to wait for. */
  readonly approvals?: unknown;
}

/** `POST /call`: Host and Origin → size → media type → JSON → the road. Whatever the door refuses is audited too. */
export function callRoute(app: FastifyInstance, routeOptions: CallRouteOptions): void {
  const options = { ...routeOptions, readers: new BodyReaders(routeOptions.concurrentRequestsMax) };
  let atTheDoor = 0;

  // Fastify reads the media type before the handler and fails on one that is none: the road's own check says it, with a line.
  // Anything else goes to the server's own handler: a call that was walked must not be walked again.
  const errorHandler = async (error: unknown, request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    if (!(error instanceof Error && "code" in error && error.code === "FST_ERR_CTP_INVALID_MEDIA_TYPE")) throw error;
    await walk(request, reply, options);
  };
  app.post("/call", { errorHandler }, async (request, reply) => {
    atTheDoor += 1;
    try {
      if (atTheDoor > options.concurrentRequestsMax) {
        const refusal = new Refusal("OVERLOADED", "Too many requests at once.", { retryAfterMs: 1_000 });
        return sendTurnedAway(reply, await options.proxy.turnAway(new IncomingCall(request, reply), refusal));
      }
      return await walk(request, reply, options);
    } finally {
      atTheDoor -= 1;
    }
  });
}

interface WalkOptions extends CallRouteOptions {
  readonly readers: BodyReaders;
}

async function walk(request: FastifyRequest, reply: FastifyReply, options: WalkOptions): Promise<FastifyReply> {
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
    const refusal =
      error instanceof Refusal ? error : new Refusal("INTERNAL", "The request could not be read.", { cause: error });
    return sendTurnedAway(reply, await options.proxy.turnAway(call, refusal));
  }
  return sendAnswer(reply, await options.proxy.call(call));
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
  readonly authorization: string | undefined;
  readonly traceparent: string | undefined;
  readonly departure: Departure;
  readonly #request: FastifyRequest;

  constructor(request: FastifyRequest, reply: FastifyReply) {
    const { headers } = request;
    this.authorization = headers.authorization;
    this.traceparent = readTraceparent(headers["traceparent"]);
    this.departure = new Connection(reply);
    this.#request = request;
  }

  get source(): string {
    return this.#request.ip;
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

/** The rest of a refused body is not read; the connection ends with the answer. */
function sendTurnedAway(reply: FastifyReply, answer: Answer): FastifyReply {
  if (!reply.request.raw.complete) reply.header("connection", "close");
  return sendAnswer(reply, answer);
}

/** The client is gone when its connection closes before its answer is out. */
class Connection implements Departure {
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
