import type { IncomingHttpHeaders } from "node:http";
import { z } from "zod";
import type { Approvals } from "../../approvals/types.ts";
import { CALL_ID, IDEMPOTENCY_KEY, WAIT_SECONDS_MAX } from "../../core/call-fields.ts";
import { Refusal } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { type HttpRequestFacts, parseTracestate } from "../../core/tracing.ts";
import type { CallerContext } from "../../core/types.ts";
import type { Answer } from "../../pipeline/answer.ts";
import type { CallRequest, Hold } from "../../pipeline/call-request.ts";
import type { ClientCertificate } from "../../pipeline/identity/binding.ts";
import type { ToolProxy } from "../../pipeline/proxy.ts";
import { callAnswer } from "../answers.ts";
import { type BodyReaders, bodyReaders, DISCARDED_BYTES_MAX } from "../body-readers.ts";
import { certificateOf } from "../connections/listening-tls.ts";
import { ConcurrencyLimit } from "../connections/request-limits.ts";
import {
  type Endpoint,
  type EndpointAnswer,
  type EndpointServices,
  type Exchange,
  endpointsWith,
  perListener,
} from "../endpoint.ts";
import { DRY_RUN, PENDING, SUCCESS } from "../openapi.ts";
import { checkBodyHeaders, checkPeerHeaders, issuesOf, parseBody } from "../request-guard.ts";

/** What these endpoints need of the service. */
export interface ProxyPart {
  readonly proxy: ToolProxy;
  readonly approvals: Approvals | undefined;
}

const { selfGuarded } = endpointsWith<ProxyPart>();

const RETRY_AFTER_MS = 1_000;
const TOOL_CHARACTERS_MAX = 256;

/** The body of `POST /call`. Unknown fields are refused, so that nobody believes that they had an effect. */
const envelope = z.strictObject({
  tool: z.string().min(1).max(TOOL_CHARACTERS_MAX),
  args: z.custom<Readonly<Record<string, unknown>>>(isTable, "must be an object").meta({ type: "object" }).default({}),
  session: z.string().regex(CALL_ID).optional(),
  callId: z.string().regex(CALL_ID).optional(),
  reason: z.string().max(1_000).optional(),
  /** Names the approval that this call uses; `new`: a person is asked again, even if the same call was approved. */
  approval: z
    .union([z.strictObject({ id: z.string().regex(CALL_ID) }), z.literal("new")], 'must be {"id": "…"} or "new"')
    .optional(),
  dryRun: z.boolean().describe("Only say what would happen to the call.").optional(),
});

type Envelope = z.output<typeof envelope>;

export const intakeOf = perListener((services): Intake => ({ readers: bodyReaders(services), running: 0 }));

export interface Intake {
  readonly readers: BodyReaders;
  running: number;
}

/** Maximum numbers of calls that wait for an approver. Beyond them, a call is answered as pending immediately. */
const HELD = { totalMax: 512, perCallerMax: 32 } as const;

const heldCalls = perListener(() => new ConcurrencyLimit(HELD));

/**
 * Begins the wait of a call for an approver. Returns a function that ends it; undefined when the caller, or everybody together,
 * has too many waiting calls. A request that stays open meanwhile takes the place of no other one.
 */
export function beginHold(
  services: EndpointServices,
  caller: CallerContext,
  { keepsRequest }: { readonly keepsRequest: boolean },
): (() => void) | undefined {
  let leave: () => void;
  try {
    leave = heldCalls(services).take(caller);
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
  if (!keepsRequest) return leave;
  const intake = intakeOf(services);
  intake.running -= 1;
  return () => {
    intake.running += 1;
    leave();
  };
}

interface ReceivedCall {
  readonly call: IncomingCall;
  readonly intake: Intake;
  readonly services: EndpointServices & ProxyPart;
}

const text = z.string().optional();

/**
 * Host and Origin → size → media type → JSON → the pipeline, which verifies the token. Requests refused before the pipeline are
 * audited too.
 */
const call = selfGuarded({
  method: "POST",
  path: "/call",
  summary: "Call a tool.",
  audience: "agents",
  headers: z.object({ "Idempotency-Key": text, Prefer: text, traceparent: text, tracestate: text }),
  bytes: envelope,
  responses: {
    200: { schema: { oneOf: [SUCCESS, DRY_RUN] } },
    202: { description: "The call waits for an approval.", schema: PENDING },
  },
  audited: "call",
  receive(exchange, services) {
    const received = { call: new IncomingCall(exchange, "/call"), intake: intakeOf(services), services };
    received.intake.running += 1;
    const refusal = overload(services, received.intake.running);
    return refusal === undefined ? run(received) : shed(received, refusal);
  },
});

export const endpoints: readonly Endpoint<ProxyPart>[] = [call];

/** Decides whether to shed this call. Health, metrics and approvals are separate routes and are never shed. */
export function overload(
  { concurrentRequestsMax, shedding, metrics }: EndpointServices,
  running: number,
): Refusal | undefined {
  if (running > concurrentRequestsMax()) {
    metrics.load.shed("requests");
    return new Refusal("OVERLOADED", "Too many requests at once.", { retryAfterMs: RETRY_AFTER_MS });
  }
  if (shedding?.refuses() !== true) return undefined;
  metrics.load.shed("loop_delay");
  return new Refusal("OVERLOADED", "The service is overloaded.", { retryAfterMs: RETRY_AFTER_MS });
}

async function shed({ call, intake, services }: ReceivedCall, refusal: Refusal): Promise<EndpointAnswer> {
  try {
    const answer = await refuse(call, refusal, services);
    if (!discardsBody(call.exchange)) endConnection(call.exchange);
    return callAnswer(answer);
  } finally {
    intake.running -= 1;
  }
}

async function run({ call, intake, services }: ReceivedCall): Promise<EndpointAnswer> {
  try {
    try {
      const { exchange } = call;
      const { raw } = exchange;
      checkPeerHeaders(raw, services);
      checkBodyHeaders(raw.headers, services);
      call.idempotencyKey = readIdempotencyKey(raw.headers);
      call.waitMs = services.approvals === undefined ? 0 : readWaitMs(raw.headers);
      call.hold = {
        begin(caller) {
          const end = beginHold(services, caller, { keepsRequest: true });
          return end && { waitMs: call.waitMs, end };
        },
      };
      const reading = intake.readers.read(exchange, services);
      call.body = reading instanceof Promise ? await reading : reading;
      call.fill(parseBody(call.body, services));
    } catch (error) {
      return await refuseRead({ call, intake, services }, error);
    }
    return answerOf(call, await services.proxy.call(call));
  } finally {
    intake.running -= 1;
  }
}

async function refuseRead({ call, services }: ReceivedCall, error: unknown): Promise<EndpointAnswer> {
  // Two readers might disagree on where the next request starts: read nothing more from this connection.
  if (call.body === undefined) call.exchange.closeConnection();
  const answer = await refuse(call, asReadRefusal(error), services);
  endConnection(call.exchange);
  return answerOf(call, answer);
}

/**
 * Refuses a call before the pipeline. Verifies its token for the audit entry, which costs as much as refusing a wrong one, so it
 * counts as much against the source; a token that was already refused was already counted.
 */
export async function refuse(
  call: HttpCall,
  refusal: Refusal,
  { proxy, wrongTokens }: EndpointServices & Pick<ProxyPart, "proxy">,
): Promise<Answer> {
  const { raw } = call.exchange;
  if ((wrongTokens?.waitMs(raw) ?? 0) > 0) call.authorization = undefined;
  const answer = await proxy.rejectRequest(call, refusal);
  if (call.authorization !== undefined && refusal.code !== "UNAUTHENTICATED") wrongTokens?.countUnverified(raw);
  return answer;
}

function answerOf({ waitMs }: IncomingCall, answer: Answer): EndpointAnswer {
  const answered = callAnswer(answer);
  return waitMs > 0 ? { ...answered, headers: { ...answered.headers, "preference-applied": "wait" } } : answered;
}

export function asReadRefusal(error: unknown): Refusal {
  return error instanceof Refusal ? error : new Refusal("INTERNAL", "The request could not be read.", { cause: error });
}

/** Closes the connection after the answer when the rest of a refused body is not read. */
export function endConnection(exchange: Exchange): void {
  if (!exchange.raw.complete) exchange.closeConnection();
}

/** Discards a short body, so that the connection can stay open: a new connection would cost both sides more. */
export function discardsBody({ raw }: Exchange): boolean {
  const isShort = Number(raw.headers["content-length"]) <= DISCARDED_BYTES_MAX;
  if (isShort) raw.resume();
  return isShort;
}

/** A call as it arrives over HTTP: first its headers, then its body, then the body's fields, which each protocol reads itself. */
export abstract class HttpCall implements CallRequest {
  tool = "unknown";
  args: unknown = {};
  approvalId: string | undefined;
  newApproval = false;
  dryRun = false;
  hold: Hold | undefined;
  idempotencyKey: string | undefined;
  waitMs = 0;
  body: Uint8Array | undefined;
  authorization: string | undefined;
  traceparent: string | undefined;
  tracestate: string | undefined;
  readonly certificate: ClientCertificate | undefined;
  readonly exchange: Exchange;
  readonly #route: string;

  constructor(exchange: Exchange, route: string) {
    const { raw } = exchange;
    const { headers } = raw;
    this.authorization = headers.authorization;
    this.certificate = certificateOf(raw);
    this.traceparent = readTraceparent(headers["traceparent"]);
    // `tracestate` means nothing without its `traceparent`. `baggage` is not forwarded: its content is not specified.
    this.tracestate = this.traceparent === undefined ? undefined : readTracestate(headers["tracestate"]);
    this.exchange = exchange;
    this.#route = route;
  }

  get disconnect(): Exchange | undefined {
    return this.exchange;
  }

  get http(): HttpRequestFacts {
    return { route: this.#route, scheme: this.exchange.scheme };
  }

  get source(): string {
    return this.exchange.source;
  }
}

class IncomingCall extends HttpCall {
  session: string | undefined;
  callId: string | undefined;
  reason: string | undefined;

  /** @throws {Refusal} MALFORMED_REQUEST; the requested tool name is kept even then */
  fill(parsed: unknown): void {
    const asked = typeof parsed === "object" && parsed !== null && "tool" in parsed ? parsed.tool : undefined;
    if (typeof asked === "string") this.tool = asked;
    const { args, session, callId, reason, approval, dryRun = false } = parseEnvelope(parsed);
    this.args = args;
    this.session = session;
    this.callId = callId;
    this.reason = reason;
    this.dryRun = dryRun;
    // A dry run asks nobody, so there is nothing to wait for.
    if (dryRun) this.waitMs = 0;
    this.newApproval = approval === "new";
    this.approvalId = approval === "new" ? undefined : approval?.id;
  }
}

/**
 * Reads the caller's idempotency key: the same key with the same arguments is the same call.
 *
 * @throws {Refusal} MALFORMED_REQUEST
 */
export function readIdempotencyKey({ "idempotency-key": header }: IncomingHttpHeaders): string | undefined {
  if (header === undefined) return undefined;
  if (typeof header === "string" && IDEMPOTENCY_KEY.test(header)) return header;
  throw new Refusal("MALFORMED_REQUEST", "Idempotency-Key must have 1 to 255 visible ASCII characters.");
}

const PREFER_CHARACTERS_MAX = 256;

/** Reads `Prefer: wait=N` (RFC 7240) in milliseconds, at most 55 s. Ignores anything else, as the RFC requires. */
function readWaitMs({ prefer }: IncomingHttpHeaders): number {
  if (typeof prefer !== "string" || prefer.length > PREFER_CHARACTERS_MAX) return 0;
  for (const wish of prefer.split(/[,;]/)) {
    const [, seconds] = /^wait="?(\d{1,6})"?$/i.exec(wish.trim()) ?? [];
    if (seconds !== undefined) return Math.min(Number(seconds), WAIT_SECONDS_MAX) * 1_000;
  }
  return 0;
}

/** @throws {Refusal} MALFORMED_REQUEST naming the field */
function parseEnvelope(body: unknown): Envelope {
  if (isPlainEnvelope(body)) return body;
  const parsed = envelope.safeParse(body);
  if (parsed.success) return parsed.data;
  throw new Refusal(
    "MALFORMED_REQUEST",
    "The body must be {tool, args, session?, callId?, reason?, approval?, dryRun?}.",
    {
      details: { issues: issuesOf(parsed.error, "(body)") },
    },
  );
}

/** Recognizes `{tool, args}` without further fields, the form of most calls, which the schema would not change. */
function isPlainEnvelope(body: unknown): body is Envelope {
  if (!isTable(body)) return false;
  const { tool, args } = body;
  const isNamed = typeof tool === "string" && tool.length > 0 && tool.length <= TOOL_CHARACTERS_MAX;
  return isNamed && isTable(args) && Object.keys(body).length === 2;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/;

/** Reads the W3C trace context; ignores a malformed one, as its specification requires. */
export function readTraceparent(header: string | string[] | undefined): string | undefined {
  if (typeof header !== "string") return undefined;
  const [, version, traceId, parentId] = TRACEPARENT.exec(header) ?? [];
  if (version === undefined || version === "ff" || /^0+$/.test(traceId ?? "") || /^0+$/.test(parentId ?? ""))
    return undefined;
  return header;
}

export function readTracestate(header: string | string[] | undefined): string | undefined {
  return typeof header === "string" ? parseTracestate(header) : undefined;
}
