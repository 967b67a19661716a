import type { Pending, ToolCallResult } from "../../core/call-result.ts";
import type { ApprovalDecision } from "../../core/types.ts";
import { sanitizeArgs } from "../../detection/sanitize-args.ts";
import { APPROVAL_TOOL, type MessageFormat } from "./message-format.ts";

// These types match the parameter types of the providers' own packages, whose lists are not readonly.

export interface OpenAiCallMessage {
  role: "assistant";
  content: null;
  tool_calls: { id: string; type: "function"; function: { name: string; arguments: string } }[];
}

export interface OpenAiResultMessage {
  role: "tool";
  tool_call_id: string;
  content: string;
}

export interface AnthropicCallMessage {
  role: "assistant";
  content: { type: "tool_use"; id: string; name: string; input: Record<string, unknown> }[];
}

export interface AnthropicResultMessage {
  role: "user";
  content: { type: "tool_result"; tool_use_id: string; content: string; is_error?: boolean }[];
}

export interface GoogleCallMessage {
  role: "model";
  parts: { functionCall: { id: string; name: string; args: Record<string, unknown> } }[];
}

export interface GoogleResultMessage {
  role: "user";
  parts: { functionResponse: { id: string; name: string; response: Record<string, unknown> } }[];
}

export interface CallMessages {
  openai: OpenAiCallMessage;
  anthropic: AnthropicCallMessage;
  google: GoogleCallMessage;
}

export interface ResultMessages {
  openai: OpenAiResultMessage;
  anthropic: AnthropicResultMessage;
  google: GoogleResultMessage;
}

interface WrittenCall {
  readonly id: string;
  readonly name: string;
  readonly args: Record<string, unknown>;
}

const WRITE_CALL: { readonly [Format in MessageFormat]: (call: WrittenCall) => CallMessages[Format] } = {
  openai: ({ id, name, args }) => ({
    role: "assistant",
    content: null,
    tool_calls: [{ id, type: "function", function: { name, arguments: JSON.stringify(args) } }],
  }),
  anthropic: ({ id, name, args }) => ({
    role: "assistant",
    content: [{ type: "tool_use", id, name, input: args }],
  }),
  google: ({ id, name, args }) => ({ role: "model", parts: [{ functionCall: { id, name, args } }] }),
};

interface WrittenResult {
  readonly id: string;
  readonly name: string;
  readonly content: Record<string, unknown>;
  readonly isError: boolean;
}

const WRITE_RESULT: { readonly [Format in MessageFormat]: (result: WrittenResult) => ResultMessages[Format] } = {
  openai: ({ id, content }) => ({ role: "tool", tool_call_id: id, content: JSON.stringify(content) }),
  anthropic: ({ id, content, isError }) => ({
    role: "user",
    content: [
      { type: "tool_result", tool_use_id: id, content: JSON.stringify(content), ...(isError && { is_error: true }) },
    ],
  }),
  google: ({ id, name, content }) => ({
    role: "user",
    parts: [{ functionResponse: { id, name, response: content } }],
  }),
};

/** A call of the model, as the application read it from the model's output. */
export interface ModelCall {
  readonly tool: string;
  readonly args: unknown;
  /** Id of the model's call, which its result refers to. Give a Google call without an id one, in `functionCall.id`. */
  readonly callId: string;
}

export type FinalResult =
  | Pick<ToolCallResult & { readonly status: "success" }, "status" | "result" | "truncated">
  | FailedResult;

interface FailedResult {
  readonly status: "denied" | "error";
  readonly error: { readonly code: string; readonly message: string };
}

/**
 * Returns the result of a call as a message for the model: `{ untrusted: true, output }`, with `truncated: true` when the output
 * is partial, or `{ error }`.
 */
export function toToolResultMessage<Format extends MessageFormat>(
  { tool, callId }: Pick<ModelCall, "tool" | "callId">,
  result: FinalResult,
  { format }: { readonly format: Format },
): ResultMessages[Format] {
  const isError = result.status !== "success";
  const content = result.status === "success" ? outputOf(result) : { error: failureOf(result) };
  return WRITE_RESULT[format]({ id: callId, name: tool, content, isError });
}

function outputOf({ result, truncated }: FinalResult & { readonly status: "success" }): Record<string, unknown> {
  return { untrusted: true, ...(truncated && { truncated }), output: result };
}

/** Returns the parts of an error that help the model to fix its call; the rest is for the application. */
function failureOf({ error }: FailedResult): Record<string, unknown> {
  const { code, message, details, retryAfterMs } = error as FailedResult["error"] & Record<string, unknown>;
  return {
    code,
    message,
    ...(details !== undefined && { details }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  };
}

const CALL_ID = "approval_";

export interface ApprovalRequestOptions<Format extends MessageFormat> {
  readonly format: Format;
  /** The model's call that waits, and is made again after an approval. */
  readonly call: ModelCall;
}

/**
 * Returns the approval request as a call by the application to its chat client. Append it to the stored messages, and never
 * send it to a model (`prepareMessagesForLLM` removes it). Secrets in its arguments are hidden; after an approval, the model's
 * own call is made again.
 */
export function toApprovalRequestMessage<Format extends MessageFormat>(
  { approval }: Pending,
  { format, call }: ApprovalRequestOptions<Format>,
): CallMessages[Format] {
  const { id, message, options, decideBy, statusUrl } = approval;
  const { tool, args, callId } = call;
  const request = {
    approvalId: id,
    originalToolCall: { id: callId, name: tool, args: sanitizeArgs(args) },
    message,
    options: [...options],
    decideBy,
    statusUrl,
  };
  return WRITE_CALL[format]({ id: `${CALL_ID}${id}`, name: APPROVAL_TOOL, args: request });
}

export interface ChatAnswer {
  readonly approvalId: string;
  readonly decision: ApprovalDecision;
  /** The service's proof that an authenticated person decided; an approval does not count without it. */
  readonly receipt?: string | undefined;
  readonly reason?: string | undefined;
}

/** Returns the decision as the result of the application's call, which the chat client appends. */
export function toApprovalResultMessage<Format extends MessageFormat>(
  { approvalId, decision, receipt, reason }: ChatAnswer,
  { format }: { readonly format: Format },
): ResultMessages[Format] {
  const content = { decision, ...(receipt !== undefined && { receipt }), ...(reason !== undefined && { reason }) };
  const id = `${CALL_ID}${approvalId}`;
  return WRITE_RESULT[format]({ id, name: APPROVAL_TOOL, content, isError: false });
}

/** Returns the approval id in a call id of the application, for a call whose arguments do not contain it. */
export function approvalIdOf(callId: string | undefined): string | undefined {
  return callId?.startsWith(CALL_ID) ? callId.slice(CALL_ID.length) : undefined;
}
