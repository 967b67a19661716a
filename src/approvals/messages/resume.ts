import type { CallResult, Failure } from "../../core/call-result.ts";
import {
  type ApprovalDecision,
  type DecisionOptions,
  extractApprovalDecisions,
  type RejectedDecision,
} from "./decisions.ts";
import type { MessageFormat } from "./message-format.ts";
import { type ResultMessages, type Told, toToolResultMessage } from "./written.ts";

/** Whatever makes calls: the library with its token, or something that posts to `/call`. */
export interface ToolCaller {
  call(tool: string, args: unknown, options: ResumedCallOptions): Promise<CallResult>;
}

export interface ResumedCallOptions {
  readonly approvalId: string;
  readonly callId: string;
}

/** What became of one decision. */
export interface ResumedCall {
  readonly decision: ApprovalDecision;
  /** Undefined after a no, and when there was no answer. */
  readonly result: CallResult | undefined;
  /** What the caller threw: whether the call ran is not known. The next time it is made again, and runs at most once. */
  readonly error?: unknown;
}

export interface Resumed<Format extends MessageFormat> {
  readonly calls: readonly ResumedCall[];
  /** Results of the model's calls, to append; none for a call that still waits or has no answer. */
  readonly messages: readonly ResultMessages[Format][];
  readonly rejected: readonly RejectedDecision[];
}

export interface ResumeOptions<Format extends MessageFormat> extends DecisionOptions {
  readonly format: Format;
}

/**
 * Goes on where a conversation waits for people: makes each call again that somebody said yes to, one after the other, and tells
 * the model of each no. The service has the last word on a yes: it runs once, by the one who asked, as it was asked.
 *
 * @throws {MessageFormatError} when something in the conversation is no message
 */
export async function resumeFromMessages<Format extends MessageFormat>(
  client: ToolCaller,
  messages: readonly object[],
  options: ResumeOptions<Format>,
): Promise<Resumed<Format>> {
  const { decisions, rejected } = await extractApprovalDecisions(messages, options);
  const calls: ResumedCall[] = [];
  for (const decision of decisions) calls.push(await resume(client, decision));
  const told = calls.flatMap((resumed) => {
    const outcome = outcomeOf(resumed);
    return outcome === undefined ? [] : toToolResultMessage(resumed.decision.call, outcome, options);
  });
  return { calls, messages: told, rejected };
}

/** A call that fails to come back must not take the answers of the others with it. */
async function resume(client: ToolCaller, decision: ApprovalDecision): Promise<ResumedCall> {
  if (decision.decision === "deny") return { decision, result: undefined };
  const { approvalId, call } = decision;
  try {
    const { tool, args, callId } = call;
    return { decision, result: await client.call(tool, args, { approvalId, callId }) };
  } catch (error) {
    return { decision, result: undefined, error };
  }
}

/** What the model is told; undefined while there is nothing to tell. */
function outcomeOf({ decision, result }: ResumedCall): Told | undefined {
  if (decision.decision === "deny") {
    const { reason } = decision;
    const message = reason ? `Denied by user: ${reason}` : "Denied by user.";
    return { status: "denied", error: { code: "APPROVAL_DENIED", message } };
  }
  if (result === undefined || result.status === "pending") return undefined;
  return result.status !== "success" && isUnused(result) ? undefined : result;
}

/** The yes is still there: what was in the way may be gone the next time. */
function isUnused({ error }: Failure): boolean {
  return error.stage === "AUTH" || (error.retryable && (error.stage === "LIMIT" || error.stage === "APPROVAL"));
}
