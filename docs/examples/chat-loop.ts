/**
 * Code that the chat examples share: a model that calls tools through the service, and a conversation that waits for approvers.
 *
 * `messages` has everything, approval requests included; the model sees what `prepareMessagesForLLM` leaves. Here the program
 * waits for the decision and adds it to `messages` itself; a web page would send `messages` back with the decision.
 */
import { readFileSync } from "node:fs";
import {
  assertNoClientTools,
  type ToolCallResult,
  createReceiptVerifier,
  type MessageFormat,
  type ModelCall,
  prepareMessagesForLLM,
  resumeFromMessages,
  toApprovalRequestMessage,
  toApprovalResultMessage,
  toToolResultMessage,
} from "safe-tool-call";

const TURNS_MAX = 20;

const base = process.env["STC_URL"] ?? "http://127.0.0.1:8787";
const token = process.env["STC_TOKEN"] ?? "";
const authorization = `Bearer ${token}`;

/** One provider's part: how to ask its model, and how to read what it says. */
export interface Chat {
  readonly format: MessageFormat;
  readonly prompt: object;
  /** The model's whole answer. */
  ask(messages: readonly object[]): Promise<object>;
  /** The assistant's message of an answer, as it goes back into the conversation. */
  messageOf(answer: object): object;
  callsOf(message: object): readonly ModelCall[];
  textOf(message: object): string;
}

/** Talks until the model makes no more calls; answers what it says then. */
export async function converse(chat: Chat): Promise<string> {
  const { format } = chat;
  const messages: object[] = [chat.prompt];
  for (let turn = 0; turn < TURNS_MAX; turn += 1) {
    const answer = await chat.ask(prepareMessagesForLLM(messages, { format }));
    const { output, dropped } = assertNoClientTools(answer, { format });
    for (const { name } of dropped) console.error(`the model called ${name}: dropped`);
    const message = chat.messageOf(output);
    messages.push(message);
    const calls = chat.callsOf(message);
    if (calls.length === 0) return chat.textOf(message);
    for (const made of calls) await makeCall(messages, made, format);
  }
  throw new Error(`no end after ${TURNS_MAX} turns`);
}

async function makeCall(messages: object[], made: ModelCall, format: MessageFormat): Promise<void> {
  const result = await call(made.tool, made.args, { callId: made.callId });
  if (result.status !== "pending") {
    messages.push(toToolResultMessage(made, result, { format }));
    return;
  }
  const { id } = result.approval;
  messages.push(toApprovalRequestMessage(result, { format, call: made }));
  console.error(`waiting for a person: approval ${id}`);
  const { state, receipt, decisionReason: reason } = await answerTo(id);
  console.error(`the answer: ${state}`);
  const decision = state === "approved" ? "approve" : "deny";
  messages.push(toApprovalResultMessage({ approvalId: id, decision, receipt, reason }, { format }));
  const resumed = await resumeFromMessages({ call }, messages, { format, receipts });
  for (const { code } of resumed.rejected) console.error(`a decision that is none: ${code}`);
  messages.push(...resumed.messages);
}

/** `POST /call`. */
async function call(tool: string, args: unknown, options: { callId?: string; approvalId?: string }): Promise<ToolCallResult> {
  const { callId, approvalId } = options;
  const approval = approvalId === undefined ? undefined : { id: approvalId };
  const response = await fetch(new URL("/call", base), {
    method: "POST",
    headers: { authorization, "content-type": "application/json" },
    body: JSON.stringify({ tool, args, callId, approval }),
  });
  return (await response.json()) as ToolCallResult;
}

interface Answer {
  readonly state: string;
  readonly decisionReason?: string;
  readonly receipt?: string;
}

/** Polls the approval request until it is no longer pending; the service holds each poll for up to 30 s. */
async function answerTo(id: string): Promise<Answer> {
  for (;;) {
    const response = await fetch(new URL(`/approvals/${id}?wait=30`, base), { headers: { authorization } });
    const { approval, receipt } = (await response.json()) as { approval: Answer; receipt?: string };
    if (approval.state !== "pending") return { ...approval, receipt };
  }
}

/** The tools that this agent may use, in the provider's own form. */
export async function tools(format: "openai" | "anthropic" | "google"): Promise<readonly object[]> {
  const response = await fetch(new URL(`/tools?format=${format}`, base), { headers: { authorization } });
  return ((await response.json()) as { tools: readonly object[] }).tools;
}

/** Posts to the model and answers what it says. */
export async function askModel(path: string, body: object, headers: Record<string, string>): Promise<object> {
  const response = await fetch(new URL(path, process.env["MODEL_URL"]), {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`the model answered ${response.status}: ${await response.text()}`);
  return (await response.json()) as object;
}

/** Who this agent is stands in its own token. */
function requester(): { readonly issuer: string; readonly subject: string } {
  const claims = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
  return { issuer: claims.iss, subject: claims.sub };
}

const receipts = createReceiptVerifier({
  publicKey: readFileSync(process.env["STC_RECEIPT_KEY"] ?? "certs/dev/receipts/public.pem", "utf8"),
  deployment: process.env["STC_DEPLOYMENT"] ?? "safe-tool-call",
  requester: requester(),
  now: Date.now,
});
