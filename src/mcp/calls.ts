import type { CallResult } from "../core/call-result.ts";
import { REFUSALS, Refusal } from "../core/errors.ts";
import type { RegisteredTool } from "../core/evidence.ts";
import { isTable } from "../core/json.ts";
import type { Caller, Json } from "../core/types.ts";
import type { EndpointAnswer, EndpointServices, EventSink, Exchange, McpSettings } from "../http/endpoint.ts";
import { record } from "../http/guard.ts";
import { beginHold, HttpCall, readIdempotencyKey, readTraceparent, readTracestate } from "../http/routes/call.ts";
import { eventStream } from "../http/server-sent-events.ts";
import type { Answer } from "../pipeline/answer.ts";
import type { CallProtocol } from "../pipeline/call-request.ts";
import { protocolFacts } from "../pipeline/entry-facts.ts";
import { couldUse, permissionsFor } from "../pipeline/permission-engine.ts";
import { type PageRound, pageError, pageRequest, pageRoundOf, waitRequest } from "./elicitation.ts";
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
import {
  completed,
  errorOf,
  errorText,
  eventText,
  type JsonObject,
  RUN_STAGES,
  refusalAsRpc,
  responseText,
  rpcError,
  rpcResult,
  toolResult,
} from "./replies.ts";
import { CALL_TOOL, FIND_TOOLS, findTools, innerCall, isSearchedFor } from "./search.ts";
import { createTask, type DueTask, declaresTasks, type TaskRun } from "./tasks.ts";
import { APPROVAL_META, described, isListed, isPendingDeclared, toolsOf } from "./tools.ts";

export type McpServices = EndpointServices & { readonly mcp: McpSettings };

/** Tool names that MCP clients accept. Aliases with a dot work only at `POST /call`. */
const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;
const ID = /^[\x21-\x7e]{1,128}$/;
const IDEMPOTENCY_META = "safe-tool-call/idempotencyKey";

/** Maximum hold for a client that did not ask for progress: such clients give up after about a minute. */
const QUIET_HOLD_MS = 50_000;
const HEARTBEAT_MS = 15_000;

type Resumed = DueTask["call"] & Pick<DueTask, "approvalId">;

/** A call over MCP. Its protocol version and client are known once the message is read. */
export class ToolCall extends HttpCall {
  #isTask = false;
  protocol: CallProtocol;
  resultBytesMax: number;

  constructor(exchange: Exchange, { mcp }: McpServices) {
    super(exchange, "/mcp");
    this.protocol = { name: "mcp", version: statedVersion(exchange.raw.headers["mcp-protocol-version"]) };
    this.resultBytesMax = mcp.resultBytesMax;
  }

  /** A task's call goes on when the client of its poll disconnects: a later poll gets the answer. */
  override get disconnect(): Exchange | undefined {
    return this.#isTask ? undefined : this.exchange;
  }

  /** Becomes the call that a task keeps. */
  resume({ version, client }: RpcRequest, { tool, args, idempotencyKey, approvalId }: Resumed): void {
    this.protocol = { name: "mcp", version, client };
    this.tool = tool;
    this.args = args;
    this.idempotencyKey = idempotencyKey;
    this.approvalId = approvalId;
    this.#isTask = true;
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
    this.newApproval = meta[APPROVAL_META] === "new";
    if (this.traceparent !== undefined) return;
    this.traceparent = readTraceparent(textOf(meta["traceparent"]));
    this.tracestate = this.traceparent === undefined ? undefined : readTracestate(textOf(meta["tracestate"]));
  }
}

function verified({ authorization, certificate }: ToolCall, { callers }: McpServices) {
  return callers.recall(authorization, "agents", certificate) ?? callers.verify(authorization, "agents", certificate);
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
    return answerTo(request, { answer: await unknownTool(call, services) }, { services, call });
  }
  boundResult(call, services);
  if (services.approvals !== undefined && declaresTasks(request)) return answerOrTask(call, request, services);
  const isHeld = services.approvals !== undefined && services.mcp.holdSeconds > 0;
  const round = services.approvals && attaches(call, services) ? pageRoundOf(request, services.mcp) : undefined;
  if (!isHeld || round === "first" || round === "declined") {
    return answerTo(request, await reply({ call, request, round }, services), { services, call });
  }
  return new Promise((resolve, reject) => {
    const onHold = (): void => resolve(eventStream((client) => follow(client, { request, running, services, call })));
    const held = allowHold(call, request, { services, round, onHold });
    const running = reply({ call, request, round, held }, services);
    running.then((ended) => resolve(answerTo(request, ended, { services, call })), reject);
  });
}

/** Returns whether the same call again uses the approval that this one has asked for. */
function attaches({ newApproval }: ToolCall, { mcp }: McpServices): boolean {
  return mcp.attaches() && !newApproval;
}

/** Gives the call its tool's own bound for results. */
function boundResult(call: ToolCall, services: McpServices): void {
  const { resultBytesMax } = registeredFor(call, services)?.tool.limits ?? {};
  if (resultBytesMax !== undefined) call.resultBytesMax = resultBytesMax;
}

/** Answers with a task when the call waits for an approver. */
async function answerOrTask(call: ToolCall, request: RpcRequest, services: McpServices): Promise<EndpointAnswer> {
  const answer = await services.proxy.call(call);
  const { result } = answer;
  if (result.status !== "pending") return answerTo(request, { answer }, { services, call });
  const { caller } = await verified(call, services);
  const { tool, args, idempotencyKey } = call;
  const made = { tool, args: args as Json, ...(idempotencyKey !== undefined && { idempotencyKey }) };
  const task = await createTask({ caller, call: made, pending: result }, services);
  return answerTo(request, { answer, instead: task }, { services, call });
}

/** Returns who polls a task, and how its call is made: with the token of this request. */
export function taskRequester(
  request: RpcRequest,
  { exchange, caller }: { readonly exchange: Exchange; readonly caller: Caller },
  services: McpServices,
) {
  return {
    caller,
    mayUse(name: string, required: readonly string[]): boolean {
      const { registered } = services.registry.find(name);
      return registered !== undefined && isListed(registered.tool, caller) && couldUse(caller.permissions, required);
    },
    async run({ approvalId, call: made }: Pick<DueTask, "approvalId" | "call">): Promise<TaskRun> {
      const call = new ToolCall(exchange, services);
      call.resume(request, { approvalId, ...made });
      boundResult(call, services);
      const { result } = await services.proxy.call(call);
      const outcome = outcomeOf(request, { answer: { result } }, { services, call });
      const answer = outcome instanceof RpcError ? { error: errorOf(outcome) } : { result: completed(outcome) };
      const required = hasRun(result) ? requiredBy(call, services) : undefined;
      return { answer, required, refusal: temporaryRefusal(result) };
    },
  };
}

/** Returns whether the answer may contain what the target returned. */
function hasRun(result: CallResult): boolean {
  if (result.status === "success") return true;
  return result.status !== "pending" && RUN_STAGES.has(result.error.stage);
}

function requiredBy(call: ToolCall, services: McpServices): readonly string[] {
  const tool = registeredFor(call, services)?.tool;
  if (tool === undefined) return [];
  try {
    return permissionsFor(tool, tool.input.parse(call.args));
  } catch {
    // The manifest has changed since the run: its new schema refuses the arguments.
    const { required, elevatedIf } = tool.permissions;
    return [...required, ...(elevatedIf?.required ?? [])];
  }
}

/** Returns the refusal after which the task's call may be made again if it did not use the approval. */
function temporaryRefusal(result: CallResult): Refusal | undefined {
  if (result.status === "success") return undefined;
  if (result.status === "pending") return new Refusal("APPROVAL_REQUIRED", result.approval.message);
  const { code, message, retryable, retryAfterMs } = result.error;
  const isTemporary = retryable || code === "UNAUTHENTICATED" || code === "APPROVAL_CONSUMED";
  return isTemporary ? new Refusal(code, message, { retryAfterMs }) : undefined;
}

interface Replied {
  readonly answer: Pick<Answer, "result">;
  /** Sent instead of the pending result. */
  readonly instead?: JsonObject | RpcError | undefined;
}

interface Asking {
  readonly call: ToolCall;
  readonly request: RpcRequest;
  readonly round: PageRound | undefined;
  readonly held?: Held;
}

/** Makes the call. One that waits for an approver asks a client that opens pages to open the page of its request. */
async function reply({ call, request, round, held }: Asking, services: McpServices): Promise<Replied> {
  const answer = await services.proxy.call(call);
  const { result } = answer;
  const { approvalPage = "", holdSeconds } = services.mcp;
  if (result.status !== "pending" || round === undefined || round === "declined") return { answer };
  if (round === "first") return { answer, instead: pageRequest(result, approvalPage) };
  if (round === "earlier") return { answer, instead: pageError(result, approvalPage, request) };
  // A call that was not held would be sent again at once.
  if (held?.hasRunOut !== true) return { answer };
  const age = await ageOf(result.approval.id, services);
  return { answer, instead: age !== undefined && age < holdSeconds * 1_000 ? waitRequest() : undefined };
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
  await record(services, { type: "tools.listed", found: found.length, ...identityOf(request, caller, services) });
  const tools = found.map((each) => described(each, services.approvals !== undefined));
  return rpcResult(request, {
    content: [{ type: "text", text: JSON.stringify({ tools }) }],
    structuredContent: { tools },
  });
}

/** Returns who sent the request. The client's name is bounded, escaped and without secrets, as in the audit entry of a call. */
export function identityOf(
  { version, client }: Pick<RpcRequest, "version" | "client">,
  { subject, issuer }: Caller,
  { detector }: McpServices,
) {
  const { client: named } = protocolFacts({ name: "mcp", version, client }, detector()) ?? {};
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
  readonly round: PageRound | undefined;
  /** Called when the call starts to wait for an approver, if its client reads events. */
  readonly onHold: () => void;
}

interface Held {
  /** Whether the whole time has passed without a decision. */
  hasRunOut: boolean;
}

/** Allows the call to wait for an approver until its token expires, if its caller does not hold too many calls. */
function allowHold(call: ToolCall, { progressToken }: RpcRequest, { services, round, onHold }: Holding): Held {
  const held: Held = { hasRunOut: false };
  const startedAt = services.clock();
  const readsEvents = (call.exchange.raw.headers.accept ?? "").includes("text/event-stream");
  const longestMs = services.mcp.holdSeconds * 1_000;
  const isLong = readsEvents && progressToken !== undefined && round === undefined;
  call.waitMs = isLong ? longestMs : Math.min(longestMs, QUIET_HOLD_MS);
  const isNew = async (approvalId: string): Promise<boolean> => {
    const age = await ageOf(approvalId, services);
    return age === undefined || age <= services.clock() - startedAt;
  };
  call.hold = {
    async begin(caller, approvalId) {
      // A client that does not know the page yet gets its URL first.
      if (round === "earlier" && (await isNew(approvalId))) return undefined;
      const leave = beginHold(services, caller, { keepsRequest: !readsEvents });
      if (leave === undefined) return undefined;
      const tokenLeftMs = Math.max(0, caller.expiresAt * 1_000 - services.clock());
      const waitMs = Math.min(call.waitMs, tokenLeftMs);
      const timer = setTimeout(() => {
        held.hasRunOut = tokenLeftMs > call.waitMs;
      }, waitMs);
      // The request ends here for a client that reads events: its answer is a stream.
      if (readsEvents) onHold();
      const end = (): void => {
        clearTimeout(timer);
        leave();
      };
      return { waitMs, end };
    },
  };
  return held;
}

/** Returns undefined when the store fails. */
async function ageOf(approvalId: string, { approvals, logError }: McpServices): Promise<number | undefined> {
  try {
    return await approvals?.ageOf(approvalId);
  } catch (error) {
    logError(error);
    return undefined;
  }
}

interface Following extends Answering {
  readonly request: RpcRequest;
  readonly running: Promise<Replied>;
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

function answerTo(request: RpcRequest, replied: Replied, answering: Answering): EndpointAnswer {
  const { result } = replied.answer;
  if ((result.status === "denied" || result.status === "error") && REFUSALS[result.error.code].stage === "AUTH") {
    const { code, message, details, retryAfterMs } = result.error;
    return refusalAsRpc(new Refusal(code, message, { details, retryAfterMs }), request.id);
  }
  const outcome = outcomeOf(request, replied, answering);
  return outcome instanceof RpcError ? rpcError(outcome) : rpcResult(request, outcome);
}

/** Returns the response as text, for a call whose event stream has already started. */
function answerText(request: RpcRequest, replied: Replied, answering: Answering): string {
  const outcome = outcomeOf(request, replied, answering);
  return outcome instanceof RpcError ? errorText(outcome) : responseText(request, outcome);
}

/** Returns the result of `tools/call`, or the error for a tool that is unknown to the caller. */
function outcomeOf(request: RpcRequest, { answer: { result }, instead }: Replied, { services, call }: Answering) {
  if (instead !== undefined) return instead;
  const isRefused = result.status === "denied" || result.status === "error";
  const unknown = isRefused ? unknownToolError(request, result.error.code, { services, call }) : undefined;
  if (unknown !== undefined) return unknown;
  const mayBePending = isDeclared(call, services);
  return toolResult(result, { era: request.era, mayBePending, attaches: attaches(call, services) });
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
