import { REFUSALS, Refusal } from "../core/errors.ts";
import type { RegisteredTool } from "../core/evidence.ts";
import { isTable } from "../core/json.ts";
import type { Caller } from "../core/types.ts";
import { ConcurrencyLimit } from "../http/connections/request-limits.ts";
import {
  type EndpointAnswer,
  type EndpointServices,
  type EventSink,
  type Exchange,
  type McpSettings,
  perListener,
} from "../http/endpoint.ts";
import { record } from "../http/guard.ts";
import { HttpCall, intakeOf, readIdempotencyKey, readTraceparent, readTracestate } from "../http/routes/call.ts";
import { eventStream } from "../http/server-sent-events.ts";
import type { Answer } from "../pipeline/answer.ts";
import type { CallProtocol, Hold } from "../pipeline/call-request.ts";
import { protocolFacts } from "../pipeline/entry-facts.ts";
import {
  ERROR,
  invalid,
  type RequestId,
  RpcError,
  type RpcRequest,
  shown,
  statedVersion,
  type Table,
} from "./protocol.ts";
import { errorText, eventText, refusalAsRpc, responseText, rpcError, rpcResult, toolResult } from "./replies.ts";
import { CALL_TOOL, FIND_TOOLS, findTools, innerCall, isSearchedFor } from "./search.ts";
import { APPROVAL_META, described, isListed, isPendingDeclared, toolsOf } from "./tools.ts";

export type McpServices = EndpointServices & { readonly mcp: McpSettings };

/** Tool names that MCP clients accept. Aliases with a dot work only at `POST /call`. */
const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;
const ID = /^[\x21-\x7e]{1,128}$/;
const IDEMPOTENCY_META = "safe-tool-call/idempotencyKey";

/** Maximum hold for a client that did not ask for progress: such clients give up after about a minute. */
const QUIET_HOLD_MS = 50_000;
const HEARTBEAT_MS = 15_000;
/** Maximum numbers of held calls. Beyond them, a call that needs an approver gets its pending result immediately. */
const HELD = { totalMax: 512, perCallerMax: 32 } as const;

const heldCalls = perListener(() => new ConcurrencyLimit(HELD));

/** A call over MCP. Its protocol version and client are known once the message is read. */
export class ToolCall extends HttpCall {
  reusesApproval = false;
  hold: Hold | undefined;
  protocol: CallProtocol;
  resultBytesMax: number;

  constructor(exchange: Exchange, { mcp }: McpServices) {
    super(exchange, "/mcp");
    this.protocol = { name: "mcp", version: statedVersion(exchange.raw.headers["mcp-protocol-version"]) };
    this.resultBytesMax = mcp.resultBytesMax;
  }

  /** @throws {RpcError} for malformed parameters; the requested tool name is kept even then */
  fill({ id, params, meta, version, client }: RpcRequest): void {
    this.protocol = { name: "mcp", version, client };
    const { name, arguments: args = {} } = params;
    if (typeof name === "string") this.tool = name;
    if (typeof name !== "string" || name === "") throw invalid(id, "name must be the name of a tool");
    if (!isTable(args)) throw invalid(id, "arguments must be an object");
    this.args = args;
    this.approvalId = approvalIn(meta, id);
    this.idempotencyKey = idempotencyKeyIn(this.exchange, meta, id);
    // A model cannot repeat an approval's id, only the call. An idempotency key marks the call as a separate one.
    this.reusesApproval = meta[APPROVAL_META] !== "new" && this.idempotencyKey === undefined;
    if (this.traceparent !== undefined) return;
    this.traceparent = readTraceparent(textOf(meta["traceparent"]));
    this.tracestate = this.traceparent === undefined ? undefined : readTracestate(textOf(meta["tracestate"]));
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function approvalIn({ [APPROVAL_META]: approval }: Table, id: RequestId): string | undefined {
  if (approval === undefined || approval === "new") return undefined;
  const keys = isTable(approval) ? Object.keys(approval).sort().join() : "";
  // Some clients (OpenAI Agents SDK for Python) send a tool's `_meta` of the list with each call: it says nothing about the call.
  if (keys === "asks,category") return undefined;
  const named = isTable(approval) && keys === "id" ? approval["id"] : undefined;
  if (typeof named === "string" && ID.test(named)) return named;
  throw invalid(id, `_meta["${APPROVAL_META}"] must be {id} or "new"`);
}

function idempotencyKeyIn({ raw }: Exchange, { [IDEMPOTENCY_META]: key }: Table, id: RequestId): string | undefined {
  const { "idempotency-key": header } = raw.headers;
  if (header !== undefined && key !== undefined && header !== key) {
    throw invalid(id, `_meta["${IDEMPOTENCY_META}"] and the header Idempotency-Key differ`);
  }
  try {
    return readIdempotencyKey({ "idempotency-key": header ?? (key as string | undefined) });
  } catch {
    throw invalid(id, `_meta["${IDEMPOTENCY_META}"] must have 1 to 255 visible ASCII characters`);
  }
}

/** @throws {RpcError} for malformed parameters */
export async function answerCall(call: ToolCall, sent: RpcRequest, services: McpServices): Promise<EndpointAnswer> {
  const { name } = sent.params;
  const searcher = name === FIND_TOOLS || name === CALL_TOOL ? await searcherFor(call, services) : undefined;
  if (searcher !== undefined && name === FIND_TOOLS) return answerSearch(sent, searcher, services);
  const request = searcher === undefined ? sent : { ...sent, params: innerCall(sent.params["arguments"], sent.id) };
  call.fill(request);
  const found = services.registry.find(call.tool).registered;
  if (!TOOL_NAME.test(call.tool) || (found !== undefined && found.tool.name !== call.tool)) {
    return answerTo(request, await unknownTool(call, services), { services, call });
  }
  call.resultBytesMax = found?.tool.limits.resultBytesMax ?? services.mcp.resultBytesMax;
  const isHeld = services.approvals !== undefined && services.mcp.holdSeconds > 0;
  if (!isHeld) return answerTo(request, await services.proxy.call(call), { services, call });
  return new Promise((resolve, reject) => {
    const onHold = (): void => resolve(eventStream((client) => follow(client, { request, running, services, call })));
    allowHold(call, request, { services, onHold });
    const running = services.proxy.call(call);
    running.then((ended) => resolve(answerTo(request, ended, { services, call })), reject);
  });
}

/** Returns the caller if its tool list has `find_tools` and `call_tool`. For other callers, these are ordinary names. */
async function searcherFor(call: ToolCall, services: McpServices): Promise<Caller | undefined> {
  const { authorization, certificate } = call;
  try {
    const { caller } = await services.callers.verify(authorization, "agents", certificate);
    return isSearchedFor(services, caller) ? caller : undefined;
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

/** Answers `find_tools`. Records and rate-limits it like `tools/list`, because it lists tools. */
async function answerSearch(request: RpcRequest, caller: Caller, services: McpServices): Promise<EndpointAnswer> {
  const { id, params } = request;
  services.requestRate?.take(caller);
  const { arguments: args } = params;
  const found = findTools(toolsOf(services.registry.list(), caller), isTable(args) ? args : {}, id);
  await record(services, { type: "tools.listed", found: found.length, ...identityOf(request, caller) });
  const tools = found.map((each) => described(each, services.approvals !== undefined));
  return rpcResult(request, {
    content: [{ type: "text", text: JSON.stringify({ tools }) }],
    structuredContent: { tools },
  });
}

/** Returns who sent the request. The client's name is bounded, escaped and without secrets, as in the audit entry of a call. */
export function identityOf({ version, client }: Pick<RpcRequest, "version" | "client">, { subject, issuer }: Caller) {
  const { client: named } = protocolFacts({ name: "mcp", version, client }) ?? {};
  return { sub: subject, iss: issuer, protocol: { name: "mcp", version, ...(named && { client: named }) } };
}

/** Refuses a name that no tool can have here. Verifies the token first, like the pipeline. */
async function unknownTool(call: ToolCall, { proxy, callers }: McpServices): Promise<Answer> {
  const { authorization, certificate } = call;
  const refusal = await callers.verify(authorization, "agents", certificate).then(
    () => new Refusal("TOOL_NOT_FOUND", "There is no tool of this name."),
    (error: unknown) => error,
  );
  if (!(refusal instanceof Refusal)) throw refusal;
  return proxy.rejectRequest(call, refusal);
}

interface Holding {
  readonly services: McpServices;
  /** Called when the call starts to wait for an approver, if its client reads events. */
  readonly onHold: () => void;
}

/** Allows the call to wait for an approver until its token expires, if its caller does not hold too many calls. */
function allowHold(call: ToolCall, { progressToken }: RpcRequest, { services, onHold }: Holding): void {
  const readsEvents = (call.exchange.raw.headers.accept ?? "").includes("text/event-stream");
  const longestMs = services.mcp.holdSeconds * 1_000;
  call.waitMs = readsEvents && progressToken !== undefined ? longestMs : Math.min(longestMs, QUIET_HOLD_MS);
  call.hold = {
    begin(caller) {
      const end = slotFor(caller, services);
      if (end === undefined) return undefined;
      const tokenLeftMs = Math.max(0, caller.expiresAt * 1_000 - services.clock());
      const waitMs = Math.min(call.waitMs, tokenLeftMs);
      if (readsEvents) {
        onHold();
        return { waitMs, end };
      }
      // A call on hold takes the place of no other request.
      const intake = intakeOf(services);
      intake.running -= 1;
      const resume = (): void => {
        intake.running += 1;
        end();
      };
      return { waitMs, end: resume };
    },
  };
}

function slotFor(caller: Caller, services: McpServices): (() => void) | undefined {
  try {
    return heldCalls(services).take(caller);
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

interface Following extends Answering {
  readonly request: RpcRequest;
  readonly running: Promise<Answer>;
}

/** Sends a heartbeat every 15 s, as a progress notification if the client asked for progress; then sends the response. */
async function follow(client: EventSink, { request, running, services, call }: Following): Promise<void> {
  const startedAt = services.clock();
  let isDisconnected = false;
  client.onDisconnect(() => {
    isDisconnected = true;
  });
  const sendHeartbeat = (): void => {
    if (!isDisconnected) client.write(heartbeatText(request, Math.floor((services.clock() - startedAt) / 1_000)));
  };
  const heartbeat = setInterval(sendHeartbeat, HEARTBEAT_MS);
  try {
    sendHeartbeat();
    const text = answerText(request, await running, { services, call });
    if (!isDisconnected) client.write(eventText(text));
  } catch (error) {
    services.logError(error);
  } finally {
    clearInterval(heartbeat);
    client.end();
  }
}

function heartbeatText({ progressToken }: RpcRequest, seconds: number): string {
  if (progressToken === undefined) return ": waiting for an approver\n\n";
  const params = { progressToken, progress: seconds, message: "A person is asked whether this call may run." };
  return eventText(JSON.stringify({ jsonrpc: "2.0", method: "notifications/progress", params }));
}

interface Answering {
  readonly services: McpServices;
  readonly call: ToolCall;
}

function answerTo(request: RpcRequest, answer: Answer, answering: Answering): EndpointAnswer {
  const { result } = answer;
  if ((result.status === "denied" || result.status === "error") && REFUSALS[result.error.code].stage === "AUTH") {
    const { code, message, details, retryAfterMs } = result.error;
    return refusalAsRpc(new Refusal(code, message, { details, retryAfterMs }), request.id);
  }
  const outcome = outcomeOf(request, answer, answering);
  return outcome instanceof RpcError ? rpcError(outcome) : rpcResult(request, outcome);
}

/** Returns the response as text, for a call whose event stream has already started. */
function answerText(request: RpcRequest, answer: Answer, answering: Answering): string {
  const outcome = outcomeOf(request, answer, answering);
  return outcome instanceof RpcError ? errorText(outcome) : responseText(request, outcome);
}

/** Returns the result of `tools/call`, or the error for a tool that is unknown to the caller. */
function outcomeOf(request: RpcRequest, { result }: Answer, { services, call }: Answering) {
  const isRefused = result.status === "denied" || result.status === "error";
  const unknown = isRefused ? unknownToolError(request, result.error.code, { services, call }) : undefined;
  return unknown ?? toolResult(result, { era: request.era, mayBePending: isDeclared(call, services) });
}

/** A tool that the caller may not use gets the same answer as a tool that does not exist; only the audit tells them apart. */
function unknownToolError({ id }: RpcRequest, code: string, { services, call }: Answering): RpcError | undefined {
  if (code === "PERMISSION_DENIED") {
    const caller = services.callers.recall(call.authorization, "agents", call.certificate)?.caller;
    const tool = registeredFor(call, services)?.tool;
    if (caller !== undefined && tool !== undefined && isListed(tool, caller)) return undefined;
  } else if (code !== "TOOL_NOT_FOUND") return undefined;
  return new RpcError(ERROR.invalidParams, `Unknown tool: ${shown(call.tool)}`, { id, http: HTTP_OK });
}

const HTTP_OK = 200;

function registeredFor(call: ToolCall, { registry }: McpServices): RegisteredTool | undefined {
  return registry.find(call.tool).registered;
}

function isDeclared(call: ToolCall, services: McpServices): boolean {
  const registered = registeredFor(call, services);
  return registered !== undefined && isPendingDeclared(registered.tool, services.approvals !== undefined);
}
