import type { DryRun, ToolCallResult } from "../core/call-result.ts";
import { Refusal } from "../core/errors.ts";
import type { RegisteredTool } from "../core/evidence.ts";
import { isTable } from "../core/json.ts";
import { ERROR } from "../core/mcp.ts";
import { REFUSALS, STAGES } from "../core/refusals.ts";
import type { CallerContext, Json } from "../core/types.ts";
import type { EndpointAnswer, Exchange } from "../http/endpoint.ts";
import { record } from "../http/guard.ts";
import { eventStream } from "../http/server-sent-events.ts";
import type { Answer } from "../pipeline/answer.ts";
import { couldUse, permissionsFor } from "../pipeline/built-in-points.ts";
import { protocolFacts } from "../pipeline/entry-facts.ts";
import { meantTool } from "../pipeline/registry.ts";
import { type PageRound, pageError, pageRequest, pageRoundOf, waitRequest } from "./elicitation.ts";
import { ageOf, allowHold, type Held, sendWhenEnded } from "./holds.ts";
import type { McpServices } from "./part.ts";
import { RpcError, type RpcRequest, shown } from "./protocol.ts";
import {
  completed,
  errorOf,
  errorText,
  type JsonObject,
  refusalAsRpc,
  responseText,
  rpcError,
  rpcResult,
  toolResult,
} from "./replies.ts";
import { CALL_TOOL, FIND_TOOLS, findTools, innerCall, isSearchedFor } from "./search.ts";
import { createTask, type DueTask, declaresTasks, type TaskRun } from "./tasks.ts";
import { callerOf, ToolCall } from "./tool-call.ts";
import { described, isListed, isPendingDeclared, toolsOf } from "./tools.ts";

/** Tool names that MCP clients accept. Aliases with a dot work only at `POST /call`. */
const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;

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
    const response = () => running.then((ended) => answerText(request, ended, { services, call }));
    const onHold = (): void =>
      resolve(eventStream((client) => sendWhenEnded(client, { request, response: response(), services })));
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
  const caller = await callerOf(call, services);
  const { tool, args, idempotencyKey } = call;
  const made = { tool, args: args as Json, ...(idempotencyKey !== undefined && { idempotencyKey }) };
  const task = await createTask({ caller, call: made, pending: result }, services);
  return answerTo(request, { answer, instead: task }, { services, call });
}

/** Returns who polls a task, and how its call is made: with the token of this request. */
export function taskRequester(
  request: RpcRequest,
  { exchange, caller }: { readonly exchange: Exchange; readonly caller: CallerContext },
  services: McpServices,
) {
  return {
    caller,
    mayUse(name: string, required: readonly string[]): boolean {
      const { registered } = services.registry.find(name);
      return registered !== undefined && isListed(registered.tool, caller) && couldUse(caller.permissions, required);
    },
    async remember(name: string, answer: Json): Promise<void> {
      const { registered } = services.registry.find(name);
      const flow = services.dataFlow?.();
      if (registered === undefined || flow === undefined) return;
      try {
        await flow.remember({ tool: registered.tool, caller, args: () => ({}), traceId: "" }, answer);
      } catch (cause) {
        flow.withheld();
        throw new Refusal("POLICY_STATE_UNAVAILABLE", "The answer cannot be released now. Try again later.", { cause });
      }
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
function hasRun(result: ToolCallResult | DryRun): boolean {
  if (result.status === "success") return true;
  return result.status !== "pending" && result.status !== "dryRun" && STAGES[result.error.stage].run === "possible";
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
function temporaryRefusal(result: ToolCallResult | DryRun): Refusal | undefined {
  if (result.status === "success" || result.status === "dryRun") return undefined;
  if (result.status === "pending") return new Refusal("APPROVAL_REQUIRED", result.approval.message);
  const { code, message, retryable, retryAfterMs } = result.error;
  // Operators take back what stops a call. The approval can still be used then.
  const isStopped = REFUSALS[code].cause === "stop";
  const isTemporary = retryable || code === "UNAUTHENTICATED" || code === "APPROVAL_CONSUMED" || isStopped;
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
async function searcherFor(call: ToolCall, services: McpServices): Promise<CallerContext | undefined> {
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
async function answerSearch(
  request: RpcRequest,
  caller: CallerContext,
  services: McpServices,
): Promise<EndpointAnswer> {
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
  { subject, issuer }: CallerContext,
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
  const code = "error" in result ? result.error?.code : undefined;
  const unknown = code && unknownToolError(request, code, { services, call });
  if (unknown !== undefined) return unknown;
  const mayBePending = isDeclared(call, services);
  return toolResult(result, { era: request.era, mayBePending, attaches: attaches(call, services) });
}

/** A tool that the caller may not use gets the same answer as a tool that does not exist; only the audit tells them apart. */
function unknownToolError({ id }: RpcRequest, code: string, { services, call }: Answering): RpcError | undefined {
  const caller = services.callers.recall(call.authorization, "agents", call.certificate)?.caller;
  if (code === "PERMISSION_DENIED") {
    const tool = registeredFor(call, services)?.tool;
    if (caller !== undefined && tool !== undefined && isListed(tool, caller)) return undefined;
  } else if (code !== "TOOL_NOT_FOUND") return undefined;
  const meant = caller && meantTool(call.tool, services.registry.list(), caller);
  const message = `Unknown tool: ${shown(call.tool)}${meant === undefined ? "" : `; did you mean ${meant}?`}`;
  return new RpcError(ERROR.invalidParams, message, { id, http: HTTP_OK });
}

const HTTP_OK = 200;

function registeredFor(call: ToolCall, { registry }: McpServices): RegisteredTool | undefined {
  return registry.find(call.tool).registered;
}

function isDeclared(call: ToolCall, services: McpServices): boolean {
  const registered = registeredFor(call, services);
  return registered !== undefined && isPendingDeclared(registered.tool, services.approvals !== undefined);
}
