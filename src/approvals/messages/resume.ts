import type { Failure, ToolCallResult } from "../../core/call-result.ts";
import {
  type AcceptedDecision,
  type DecisionOptions,
  extractApprovalDecisions,
  type RejectedDecision,
} from "./decisions.ts";
import type { MessageFormat } from "./message-format.ts";
import { type FinalResult, type ResultMessages, toToolResultMessage } from "./written.ts";

/** Makes tool calls: the library with its token, or an HTTP client of `/call`. */
export interface ToolCaller {
  call(tool: string, args: unknown, options: ResumedCallOptions): Promise<ToolCallResult>;
}

export interface ResumedCallOptions {
  readonly approvalId: string;
  readonly callId: string;
}

export interface ResumedCall {
  readonly decision: AcceptedDecision;
  readonly result: ToolCallResult | undefined;
  /** Error of the caller: it is not known whether the call ran. The next resume makes it again, and it runs at most once. */
  readonly error?: unknown;
}

export interface Resumed<Format extends MessageFormat> {
  readonly calls: readonly ResumedCall[];
  /** Results of the model's calls, to append; none for a call that is still pending or has no result. */
  readonly messages: readonly ResultMessages[Format][];
  readonly rejected: readonly RejectedDecision[];
}

export interface ResumeOptions<Format extends MessageFormat> extends DecisionOptions {
  readonly format: Format;
}

/**
 * Resumes a conversation that waits for decisions: makes each approved call again, one after the other, and reports each denial
 * to the model. The service enforces the approval: the call runs once, for the requester, exactly as requested.
 *
 * @throws {MessageFormatError} when an item of the conversation is not a valid message
 */
export async function resumeFromMessages<Format extends MessageFormat>(
  client: ToolCaller,
  messages: readonly object[],
  options: ResumeOptions<Format>,
): Promise<Resumed<Format>> {
  const { decisions, rejected } = await extractApprovalDecisions(messages, options);
  const calls: ResumedCall[] = [];
  for (const decision of decisions) calls.push(await resume(client, decision));
  const results = calls.flatMap((resumed) => {
    const outcome = outcomeOf(resumed);
    return outcome === undefined ? [] : toToolResultMessage(resumed.decision.call, outcome, options);
  });
  return { calls, messages: results, rejected };
}

/** Makes the call again. Catches errors, so that one failing call does not lose the results of the others. */
async function resume(client: ToolCaller, decision: AcceptedDecision): Promise<ResumedCall> {
  if (decision.decision === "deny") return { decision, result: undefined };
  const { approvalId, call } = decision;
  try {
    const { tool, args, callId } = call;
    return { decision, result: await client.call(tool, args, { approvalId, callId }) };
  } catch (error) {
    return { decision, result: undefined, error };
  }
}

/** Returns the result for the model; undefined while there is none. */
function outcomeOf({ decision, result }: ResumedCall): FinalResult | undefined {
  if (decision.decision === "deny") {
    const { reason } = decision;
    const message = reason ? `Denied by user: ${reason}` : "Denied by user.";
    return { status: "denied", error: { code: "APPROVAL_DENIED", message } };
  }
  if (result === undefined || result.status === "pending") return undefined;
  return result.status !== "success" && isUnused(result) ? undefined : result;
}

/** Returns whether the failure left the approval unused, so that a later attempt may succeed. */
function isUnused({ error }: Failure): boolean {
  return error.stage === "AUTH" || (error.retryable && (error.stage === "LIMIT" || error.stage === "APPROVAL"));
}
