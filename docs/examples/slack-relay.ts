/**
 * Asks approvers in Slack: posts approval requests, and sends their decisions to the service (docs/webhooks.md).
 *
 *     STC_URL=http://127.0.0.1:8787 RELAY_FILES=./slack bun docs/examples/slack-relay.ts
 */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const { STC_URL = "http://127.0.0.1:8787", STC_WEBHOOK = "slack", RELAY_FILES = "./slack" } = process.env;
const { RELAY_HOST = "127.0.0.1", RELAY_PORT = "8790" } = process.env;
const PART_CHARACTERS_MAX = 2_500;

function secret(name: string, form: RegExp): string {
  const [, value] = form.exec(readFileSync(join(RELAY_FILES, name), "utf8").trim()) ?? [];
  if (value === undefined) throw new Error(`${join(RELAY_FILES, name)} must hold ${form.source}`);
  return value;
}
const WEBHOOK_KEY = /^whsec_([A-Za-z0-9+/]{32,88}={0,2})$/;
const notifyKey = Buffer.from(secret("notify.key", WEBHOOK_KEY), "base64");
const decideKey = Buffer.from(secret("decide.key", WEBHOOK_KEY), "base64");
const slackSecret = secret("signing-secret", /^(\S{16,128})$/);
const slackUrl = new URL(secret("url", /^(https?:\/\/\S+)$/));

type Fact = "id" | "tool" | "state" | "risk" | "decideBy" | "planDigest" | "viewDigest" | "link";
interface Notification {
  readonly type: string;
  readonly data: Readonly<Record<Fact, string>> & {
    readonly wantsAnswer?: boolean;
    readonly requester?: { readonly iss: string; readonly sub: string; readonly act: readonly string[] };
    readonly view?: Readonly<Record<string, unknown>>;
  };
}

/** A press of a button, as Slack sends it. */
interface Pressed {
  readonly type: string;
  readonly user: { readonly id: string; readonly username?: string };
  readonly actions?: readonly { readonly value?: string }[];
  readonly state?: { readonly values: { readonly reason?: { readonly reason?: { readonly value: string | null } } } };
  readonly message?: { readonly blocks?: readonly { readonly type: string }[] };
  readonly response_url?: string;
}

const mac = (key: string | Buffer, text: string): Buffer => createHmac("sha256", key).update(text).digest();
function isSame(text: string, other: string): boolean {
  const [one, two] = [Buffer.from(text), Buffer.from(other)];
  return one.length === two.length && timingSafeEqual(one, two);
}
const answer = (status: number, text?: string): Response => new Response(text ?? null, { status });
const isNow = (seconds: string): boolean =>
  /^\d{1,12}$/.test(seconds) && Math.abs(Date.now() / 1_000 - Number(seconds)) <= 300;

/** Proves that a button is one of this relay's, for exactly this decision. */
const tagOf = (parts: readonly string[]): string => mac(decideKey, `button.${parts.join(".")}`).toString("base64url");

const seen = new Set<string>();
function remember(id: string): void {
  seen.add(id);
  if (seen.size > 10_000) seen.delete(seen.values().next().value ?? "");
}

/** Everything that comes from outside is in `plain_text` or `text` elements, in which Slack reads neither markup nor mentions. */
const plain = (text: string, max = 3_000) => ({ type: "plain_text", text: text.slice(0, max), emoji: false });
const section = (text: string) => ({ type: "section", text: plain(text) });

/** One label with a value, which is cut where it is too long. */
function part(label: string, value: string) {
  const more = value.length - PART_CHARACTERS_MAX;
  const start = value.slice(0, PART_CHARACTERS_MAX).toWellFormed();
  const text = more > 0 ? `${start}\n[CUT HERE: ${more} more characters]` : start;
  const elements = [
    { type: "rich_text_section", elements: [{ type: "text", text: label, style: { bold: true } }] },
    { type: "rich_text_preformatted", elements: [{ type: "text", text }] },
  ];
  return { isCut: more > 0, block: { type: "rich_text", elements } };
}

/** Members of the view that are shown first, because they say what will run; and those shown elsewhere in the message. */
const FIRST = ["command", "workingDir", "message", "arguments", "target", "files", "environment"];
const ELSEWHERE = ["tool", "risk", "requester"];

function messageOf({ type, data }: Notification) {
  const { id, tool, risk, decideBy, planDigest, viewDigest, link, view, requester, wantsAnswer } = data;
  const { reason, ...shown } = view ?? {};
  const names = [...FIRST, ...Object.keys(shown).filter((name) => ![...FIRST, ...ELSEWHERE].includes(name))];
  const parts = [
    ...names.flatMap((name) => (Object.hasOwn(shown, name) ? [part(name, JSON.stringify(shown[name], null, 1))] : [])),
    ...(reason === undefined ? [] : [part("The agent says (nobody has checked it)", JSON.stringify(reason))]),
  ];
  // Nobody approves here what is not shown here in full, or needs an answer.
  const mayApprove = view !== undefined && parts.every(({ isCut }) => !isCut) && wantsAnswer !== true;
  const button = (decision: "approve" | "deny", text: string, style: "primary" | "danger") => {
    const chosen = [decision, id, planDigest, viewDigest];
    const value = [...chosen, tagOf(chosen)].join(".");
    return { type: "button", action_id: decision, style, value, text: plain(text) };
  };
  const deny = button("deny", "Deny", "danger");
  const { iss = "-", sub = "unknown", act = [] } = requester ?? {};
  const who = [sub, ...act].join(" through ").replace(/\s+/g, " ");
  const title = `${type === "approval.escalated" ? "Nobody has decided" : "Approve?"}: ${tool}`;
  const element = { type: "plain_text_input", action_id: "reason", max_length: 500 };
  return {
    text: `Approval request (${risk.replace(/\W/g, "")} risk)`,
    blocks: [
      { type: "header", text: plain(title, 150) },
      section(`Risk: ${risk}\nRequested by: ${who} (${iss})\nDecide by: ${decideBy}`),
      ...parts.map(({ block }) => block),
      section(`${mayApprove ? "In full" : "To approve, read it in full"}: stc approvals show ${id}\n${link}`),
      { type: "input", block_id: "reason", optional: true, element, label: plain("Reason, which the agent reads") },
      { type: "actions", elements: mayApprove ? [button("approve", "Approve once", "primary"), deny] : [deny] },
    ],
  };
}

function post(url: URL, body: string, headers: Record<string, string> = {}): Promise<Response | undefined> {
  const init = { method: "POST", body, headers: { "content-type": "application/json", ...headers } };
  const signal = AbortSignal.timeout(2_000); // Slack waits three seconds for the answer to a button.
  return fetch(url, { ...init, signal, redirect: "error" }).catch(() => undefined);
}

/** The service's notification, which any library of Standard Webhooks verifies in the same way. */
async function fromService(request: Request): Promise<Response> {
  const body = await request.text();
  const header = (name: string): string => request.headers.get(`webhook-${name}`) ?? "";
  const expected = `v1,${mac(notifyKey, `${header("id")}.${header("timestamp")}.${body}`).toString("base64")}`;
  const signatures = header("signature").split(" ");
  if (!signatures.some((one) => isSame(one, expected)) || !isNow(header("timestamp"))) return answer(401);
  const notification = JSON.parse(body) as Notification;
  const asks = ["approval.requested", "approval.escalated"].includes(notification.type);
  // Events may arrive twice, and after a decision.
  if (!asks || notification.data.state !== "pending" || seen.has(header("id"))) return answer(204);
  const posted = await post(slackUrl, JSON.stringify(messageOf(notification)));
  if (posted?.ok !== true) return answer(502, "Slack did not accept the message");
  remember(header("id"));
  return answer(204);
}

async function fromSlack(request: Request): Promise<Response> {
  const body = await request.text();
  const seconds = request.headers.get("x-slack-request-timestamp") ?? "";
  const signature = request.headers.get("x-slack-signature") ?? "";
  const expected = `v0=${mac(slackSecret, `v0:${seconds}:${body}`).toString("hex")}`;
  if (!isSame(signature, expected) || !isNow(seconds)) return answer(401, "not signed by Slack");
  if (seen.has(signature)) return answer(409, "seen before");
  remember(signature);
  const pressed = JSON.parse(new URLSearchParams(body).get("payload") ?? "{}") as Pressed;
  const [action] = pressed.actions ?? [];
  if (pressed.type !== "block_actions" || action?.value === undefined) return answer(200);
  const chosen = action.value.split(".");
  const tag = chosen.pop() ?? "";
  if (!isSame(tag, tagOf(chosen))) return answer(400, "not a button of this relay");
  reply(pressed, await decide(pressed, chosen, signature)).catch(failed);
  return answer(200);
}

/** `isOver`: the buttons are of no more use. */
type Outcome = { readonly text: string; readonly isOver: boolean };

/** Sends the decision. The service's table `decisions.people`, not this program, says which operator a Slack user is. */
async function decide({ user, state }: Pressed, chosen: readonly string[], signature: string): Promise<Outcome> {
  const [decision, approvalId, planDigest, viewDigest] = chosen;
  const reason = state?.values.reason?.reason?.value ?? undefined;
  const body = JSON.stringify({ approvalId, planDigest, viewDigest, decision, reason, decidedBy: { user: user.id } });
  // The service counts each id once: what Slack has signed cannot be replayed, not even after a restart of this program.
  const id = `slack_${createHash("sha256").update(signature).digest("hex")}`;
  const seconds = String(Math.floor(Date.now() / 1_000));
  const signed = `v1,${mac(decideKey, `${id}.${seconds}.${body}`).toString("base64")}`;
  const headers = { "webhook-id": id, "webhook-timestamp": seconds, "webhook-signature": signed };
  const answered = await post(new URL(`/webhooks/${STC_WEBHOOK}/decisions`, STC_URL), body, headers);
  if (answered === undefined) return { text: "The service does not answer. Press again.", isOver: false };
  type Approval = { readonly state: string };
  type Answer = { approval?: Approval; error?: { message: string; details?: { approval?: Approval } } };
  const { approval, error } = (await answered.json().catch(() => ({}))) as Answer;
  if (approval?.state === "pending") return { text: "Counted. Others have to approve too.", isOver: false };
  const ended = error?.details?.approval?.state ?? "pending";
  if (approval === undefined) return { text: error?.message ?? "Refused.", isOver: ended !== "pending" };
  const outcome = approval.state === "approved" ? "Approved" : "Denied";
  return { text: `${outcome} by ${user.username ?? user.id}.`, isOver: true };
}

/** Replaces the buttons by the outcome, or tells only the person who pressed one. */
async function reply({ response_url: url, message }: Pressed, { text, isOver }: Outcome): Promise<void> {
  if (url === undefined || !URL.canParse(url) || new URL(url).origin !== slackUrl.origin) return;
  const kept = (message?.blocks ?? []).filter(({ type }) => type !== "actions" && type !== "input");
  const blocks = [...(isOver ? kept : []), section(text)];
  const how = isOver ? { replace_original: true } : { replace_original: false, response_type: "ephemeral" };
  await post(new URL(url), JSON.stringify({ ...how, text: "The approval request was answered.", blocks }));
}

const failed = (): Response => answer(400, "the message could not be read");
const server = Bun.serve({
  ...{ hostname: RELAY_HOST, port: Number(RELAY_PORT), maxRequestBodySize: 1_048_576 },
  routes: {
    "/stc": { POST: (request) => fromService(request).catch(failed) },
    "/slack": { POST: (request) => fromSlack(request).catch(failed) },
  },
  fetch: () => new Response("not found", { status: 404 }),
});
console.log(`listening on ${server.url}`);
