import type { Pending } from "../../core/call-result.ts";
import { sanitizeArgs } from "../../detection/sanitize-args.ts";
import { APPROVAL_TOOL } from "./client-tools.ts";
import type { MessageFormat } from "./message-format.ts";
import { type CallMessages, type ModelCall, type ResultMessages, writeCall, writeResult } from "./written.ts";

/** Of the application's own calls, and of nobody else's. */
const CALL_ID = "approval_";

export interface ApprovalRequestOptions<Format extends MessageFormat> {
  readonly format: Format;
  /** The model's call that has to wait: made again after a yes. */
  readonly call: ModelCall;
}

/**
 * The question as a call that the application makes of its chat client: append it to what is kept, never send it to a model
 * (`prepareMessagesForLLM` leaves it out). Secrets in the arguments are hidden in it; after a yes the model's own call is made again.
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
  return writeCall({ id: `${CALL_ID}${id}`, name: APPROVAL_TOOL, args: request }, format);
}

/** What a person answered in the chat client. */
export interface ChatAnswer {
  readonly approvalId: string;
  readonly decision: "approve" | "deny";
  /** The service's word that an authenticated person decided; without it a yes counts for nothing. */
  readonly receipt?: string | undefined;
  /** Of a no. */
  readonly reason?: string | undefined;
}

/** The answer as the result of the application's call: what the chat client appends. */
export function toApprovalResultMessage<Format extends MessageFormat>(
  { approvalId, decision, receipt, reason }: ChatAnswer,
  { format }: { readonly format: Format },
): ResultMessages[Format] {
  const content = { decision, ...(receipt !== undefined && { receipt }), ...(reason !== undefined && { reason }) };
  const id = `${CALL_ID}${approvalId}`;
  return writeResult({ id, name: APPROVAL_TOOL, content, text: JSON.stringify(content), isError: false }, format);
}

/** The id of the question that a call of the application asks, when the call itself does not say it. */
export function approvalIdOf(callId: string | undefined): string | undefined {
  return callId?.startsWith(CALL_ID) ? callId.slice(CALL_ID.length) : undefined;
}
