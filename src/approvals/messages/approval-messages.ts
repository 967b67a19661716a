import type { Pending } from "../../core/call-result.ts";
import { sanitizeArgs } from "../../detection/sanitize-args.ts";
import { APPROVAL_TOOL } from "./client-tools.ts";
import type { MessageFormat } from "./message-format.ts";
import { type CallMessages, type ModelCall, type ResultMessages, writeCall, writeResult } from "./written.ts";

/** Prefix of the ids of the application's own calls. */
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
  return writeCall({ id: `${CALL_ID}${id}`, name: APPROVAL_TOOL, args: request }, format);
}

/** A person's decision in the chat client. */
export interface ChatAnswer {
  readonly approvalId: string;
  readonly decision: "approve" | "deny";
  /** The service's proof that an authenticated person decided; an approval does not count without it. */
  readonly receipt?: string | undefined;
  /** Reason of a denial. */
  readonly reason?: string | undefined;
}

/** Returns the decision as the result of the application's call, which the chat client appends. */
export function toApprovalResultMessage<Format extends MessageFormat>(
  { approvalId, decision, receipt, reason }: ChatAnswer,
  { format }: { readonly format: Format },
): ResultMessages[Format] {
  const content = { decision, ...(receipt !== undefined && { receipt }), ...(reason !== undefined && { reason }) };
  const id = `${CALL_ID}${approvalId}`;
  return writeResult({ id, name: APPROVAL_TOOL, content, text: JSON.stringify(content), isError: false }, format);
}

/** Returns the approval id in a call id of the application, for a call whose arguments do not contain it. */
export function approvalIdOf(callId: string | undefined): string | undefined {
  return callId?.startsWith(CALL_ID) ? callId.slice(CALL_ID.length) : undefined;
}
