import { z } from "zod";
import { canonicalJson, NotJsonError } from "../../core/digest.ts";
import { ARGUMENT_LIMITS, isTable } from "../../core/json.ts";
import { BOUNDED_TEXT_LIMITS, parseStrictJson } from "../../core/strict-json.ts";
import { APPROVAL_DECISIONS, type ApprovalDecision, type ApprovalScope } from "../../core/types.ts";
import { sanitizeArgs } from "../../detection/sanitize-args.ts";
import { type Conversation, readConversation } from "./conversation.ts";
import {
  type CallPart,
  isApprovalRequest,
  isClientTool,
  type MessageFormat,
  MessageFormatError,
  membersOf,
} from "./message-format.ts";
import { approvalIdOf, type ModelCall } from "./written.ts";

/** Limit per conversation for answered requests whose call still waits. */
const REQUESTS_MAX = 100;
/** Limit of answers to one request in a conversation. */
const ANSWERS_MAX = 10;
const REQUEST_CHARACTERS_MAX = 1_048_576;
const ANSWER_CHARACTERS_MAX = 16_384;
const REASON_CHARACTERS_MAX = 500;

/** Verifies receipts of the service; created by `createReceiptVerifier`. */
export interface DecisionVerifier {
  verify(
    receipt: unknown,
    expected: { readonly approvalId: string },
  ): Promise<
    | {
        readonly valid: true;
        readonly receipt: { readonly decision: ApprovalDecision; readonly scope: ApprovalScope | undefined };
      }
    | { readonly valid: false; readonly code: string; readonly message: string }
  >;
}

export interface DecisionOptions {
  readonly format: MessageFormat;
  /** Required for approvals: without it, every approval is rejected. */
  readonly receipts?: DecisionVerifier | undefined;
}

/** A decision on a request in the conversation, whose call was not made again yet. */
export interface AcceptedDecision {
  readonly approvalId: string;
  readonly decision: ApprovalDecision;
  readonly scope: ApprovalScope | undefined;
  /** Reason of a denial, as the chat client reported it. */
  readonly reason: string | undefined;
  readonly call: ModelCall;
}

/**
 * A rejected answer. `code` is DECISION_UNREADABLE, CALL_UNKNOWN, RECEIPT_MISSING, RECEIPT_UNVERIFIABLE, RECEIPT_MISMATCH, or a
 * code of the verifier.
 */
export interface RejectedDecision {
  readonly approvalId: string;
  readonly code: string;
  readonly message: string;
}

export interface ExtractedDecisions {
  readonly decisions: readonly AcceptedDecision[];
  readonly rejected: readonly RejectedDecision[];
}

const request = z.object({
  approvalId: z.string().optional(),
  originalToolCall: z.object({
    name: z.string().min(1).max(256),
    args: z.unknown(),
    id: z.string().min(1).max(256).optional(),
  }),
});

const APPROVAL_ID = /^[\x21-\x7e]{1,128}$/;

const answer = z.object({
  decision: z.enum(APPROVAL_DECISIONS),
  receipt: z.unknown().optional(),
  /** An invalid reason is ignored, so that a denial still counts. */
  reason: z.string().optional().catch(undefined),
});

/**
 * Extracts people's decisions from the messages. An approval counts only with the service's receipt for this very request; a
 * denial always counts. Plain text never decides anything.
 *
 * @throws {MessageFormatError} when an item is not a valid message
 */
export async function extractApprovalDecisions(
  messages: readonly object[],
  { format, receipts }: DecisionOptions,
): Promise<ExtractedDecisions> {
  const requests = answeredRequests(readConversation(messages, format));
  const decisions: AcceptedDecision[] = [];
  const rejected: RejectedDecision[] = [];
  for (const { approvalId, call, answers } of requests) {
    const assessed = await Promise.all(answers.map((content) => assess(content, { approvalId, receipts })));
    rejected.push(...assessed.flatMap(({ why }) => (why === undefined ? [] : { approvalId, ...why })));
    const { outcome, scope, reason } = strictest(assessed);
    if (outcome === "rejected") continue;
    if (call === undefined) rejected.push({ approvalId, ...CALL_UNKNOWN });
    else decisions.push({ approvalId, decision: outcome, scope, reason, call });
  }
  return { decisions, rejected };
}

const CALL_UNKNOWN = { code: "CALL_UNKNOWN", message: "The conversation contains no call for this approval request." };

/** Returns the strictest judgment: a denial overrides an approval, whichever came first. */
function strictest(assessed: readonly Assessed[]): Assessed {
  const find = (outcome: Assessed["outcome"]): Assessed | undefined => assessed.find((one) => one.outcome === outcome);
  return find("deny") ?? find("approve") ?? { outcome: "rejected" };
}

interface AnsweredRequest {
  readonly approvalId: string;
  /** Undefined when the conversation contains no matching call of the model. */
  readonly call: ModelCall | undefined;
  readonly answers: readonly unknown[];
}

function answeredRequests(conversation: Conversation): readonly AnsweredRequest[] {
  const { turns, answers } = conversation;
  const contents = contentsById(conversation);
  const requests = new Map<string, AnsweredRequest>();
  const calls = new ModelCalls();
  for (const { part, at } of turns.flatMap((turn, at) => turn.calls.map((part) => ({ part, at })))) {
    const asked = isApprovalRequest(part.name) ? readRequest(part) : undefined;
    calls.add(part);
    const about = asked && calls.find(asked);
    if (asked === undefined || (about !== undefined && answers.has(about))) continue;
    const held = part.id === undefined ? undefined : contents.get(part.id);
    const given = held === undefined ? [answers.get(part)?.result.content] : contentsAfter(held, at);
    const { approvalId, tool, args } = asked;
    // The same request may have been shown twice: collect all its answers.
    const all = [...(requests.get(approvalId)?.answers ?? []), ...given.filter((content) => content !== undefined)];
    if (all.length > ANSWERS_MAX)
      throw new MessageFormatError(`more than ${ANSWERS_MAX} answers to one approval request`);
    const call = about?.id === undefined ? undefined : { tool, args: argsOf(about, args), callId: about.id };
    if (all.length > 0) requests.set(approvalId, { approvalId, call, answers: all });
    if (requests.size > REQUESTS_MAX)
      throw new MessageFormatError(`more than ${REQUESTS_MAX} answered approval requests`);
  }
  return [...requests.values()];
}

/** Returns the model's own arguments when the request shows them with hidden secrets; otherwise the arguments in the request. */
function argsOf({ args: own }: CallPart, asked: unknown): unknown {
  const whole = jsonOf(own, REQUEST_CHARACTERS_MAX);
  try {
    const isShown = canonicalJson(sanitizeArgs(whole), ARGUMENT_LIMITS) === canonicalJson(asked, ARGUMENT_LIMITS);
    return whole !== undefined && isShown ? whole : asked;
  } catch (error) {
    if (!(error instanceof NotJsonError)) throw error;
    return asked;
  }
}

interface Content {
  readonly content: unknown;
  readonly at: number;
}

/** Returns all results by id: a second result with the same id may be the denial that counts. */
function contentsById({ turns }: Conversation): ReadonlyMap<string, readonly Content[]> {
  const contents = new Map<string, Content[]>();
  for (const { at, id, content } of turns.flatMap((turn, at) => turn.results.map((result) => ({ at, ...result })))) {
    if (id === undefined) continue;
    const held = contents.get(id) ?? [];
    if (content !== undefined) held.push({ content, at });
    contents.set(id, held);
  }
  return contents;
}

/**
 * Returns the contents in later messages, at most one more than allowed. The bound limits the work when many calls and many
 * results have the same id.
 */
function contentsAfter(held: readonly Content[], at: number): readonly unknown[] {
  const first = Math.max(0, held.length - ANSWERS_MAX - 1);
  return held.slice(first).flatMap((one) => (one.at > at ? [one.content] : []));
}

/** Calls of the model that have ids. */
class ModelCalls {
  readonly #byId = new Map<string, CallPart>();
  readonly #latest = new Map<string, CallPart>();

  add(part: CallPart): void {
    if (part.name === undefined || part.id === undefined || isClientTool(part.name)) return;
    this.#byId.set(part.id, part);
    this.#latest.set(part.name, part);
  }

  /** Returns the call that a request names by id; without an id, the latest earlier call of that tool. */
  find({ callId, tool }: Asked): CallPart | undefined {
    return callId === undefined ? this.#latest.get(tool) : this.#byId.get(callId);
  }
}

interface Asked {
  readonly approvalId: string;
  readonly tool: string;
  readonly args: unknown;
  readonly callId: string | undefined;
}

function readRequest({ id, args }: CallPart): Asked | undefined {
  const parsed = request.safeParse(jsonOf(args, REQUEST_CHARACTERS_MAX));
  if (!parsed.success) return undefined;
  const { name: tool, args: given, id: callId } = parsed.data.originalToolCall;
  const approvalId = parsed.data.approvalId ?? approvalIdOf(id) ?? "";
  return APPROVAL_ID.test(approvalId) ? { approvalId, tool, args: given, callId } : undefined;
}

interface Assessed {
  readonly outcome: ApprovalDecision | "rejected";
  readonly scope?: ApprovalScope | undefined;
  readonly reason?: string | undefined;
  readonly why?: Pick<RejectedDecision, "code" | "message">;
}

async function assess(
  content: unknown,
  { approvalId, receipts }: { readonly approvalId: string; readonly receipts: DecisionVerifier | undefined },
): Promise<Assessed> {
  const parsed = answer.safeParse(jsonOf(content, ANSWER_CHARACTERS_MAX));
  if (!parsed.success)
    return reject("DECISION_UNREADABLE", 'An answer is {"decision": "approve" or "deny", …}, not words.');
  const { decision, receipt, reason } = parsed.data;
  if (decision === "deny") return { outcome: "deny", reason: reason?.slice(0, REASON_CHARACTERS_MAX).toWellFormed() };
  if (receipt === undefined)
    return reject("RECEIPT_MISSING", "An approval without the service's receipt does not count.");
  if (receipts === undefined)
    return reject("RECEIPT_UNVERIFIABLE", "No verifier is configured that could verify receipts.");
  try {
    const check = await receipts.verify(receipt, { approvalId });
    if (!check.valid) return reject(check.code, check.message);
    if (check.receipt.decision === "approve") return { outcome: "approve", scope: check.receipt.scope };
    return reject("RECEIPT_MISMATCH", "The receipt is for a denial.");
  } catch {
    return reject("RECEIPT_UNVERIFIABLE", "The receipt could not be verified.");
  }
}

function reject(code: string, message: string): Assessed {
  return { outcome: "rejected", why: { code, message } };
}

/** Reads the JSON in a call or result: an object, JSON text, or text blocks that contain JSON text. Undefined when invalid. */
function jsonOf(content: unknown, charactersMax: number): unknown {
  if (isTable(content)) return content;
  const text = Array.isArray(content) ? content.map(textIn).join("") : content;
  if (typeof text !== "string" || text.length > charactersMax) return undefined;
  try {
    return parseStrictJson(text, BOUNDED_TEXT_LIMITS);
  } catch {
    return undefined;
  }
}

function textIn(block: unknown): string {
  const { text } = membersOf(block);
  return typeof text === "string" ? text : "";
}
