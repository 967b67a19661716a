import { headlineText } from "../../core/headline.ts";
import { isTable } from "../../core/json.ts";
import { printable, printableCell } from "../../core/printable.ts";
import { vouchableIn } from "../../core/vouching.ts";
import {
  type ClientOptions,
  connect,
  connectAndRequest,
  requestAnswer,
  type ServiceAnswer,
  segment,
  unknownAnswer,
} from "../client.ts";
import { CommandError, EXIT, print, reportChange, wrongUsage } from "../output.ts";
import { isViewOfDigest, readApproval, readApprovalPage, type ShownApproval } from "./answers.ts";
import type { TypedTerms } from "./grant-terms.ts";
import { approvalLines, columnsOf, missingText, printListing, timeLeft } from "./view.ts";

const PAGE_APPROVALS = 200;
const PAGES_MAX = 50;
const REASON_CHARACTERS_MAX = 500;
/** A view that does not match its digest cannot be approved: it may not be the view that the service would run. */
export const VIEW_MISMATCH = "the view does not match its digest: nothing is decided";
export const NO_VIEW = "this token is not permitted to see the view, so it cannot decide";

/** `stc approvals list`: lists approvals, newest first. */
export async function listApprovals(options: ClientOptions & { readonly state: string }): Promise<void> {
  const client = connect(options);
  const bodies: unknown[] = [];
  const rows: (readonly string[])[] = [];
  const missing: string[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < PAGES_MAX; pages += 1) {
    const query = new URLSearchParams({
      limit: String(PAGE_APPROVALS),
      state: options.state,
      ...(options.json !== true && { headlinesFrom: new Date(0).toISOString() }),
      ...(cursor !== undefined && { cursor }),
    });
    const answer = await requestAnswer(client, { method: "GET", path: `/approvals?${query}` }, options);
    const page = readApprovalPage(answer.body) ?? unknownAnswer();
    // Programs get every member that the service sent, not only those that are printed.
    if (isTable(answer.body) && Array.isArray(answer.body["approvals"])) bodies.push(...answer.body["approvals"]);
    rows.push(...page.approvals.map((approval) => row(approval, answer.servedAt)));
    missing.push(...page.approvals.map((approval) => (approval.state === "pending" ? missingText(approval) : "")));
    cursor = page.cursor ?? undefined;
    if (cursor === undefined) break;
  }
  if (options.json === true) return print.json({ approvals: bodies, ...(cursor !== undefined && { cursor }) });
  printListing(
    withMissing([["ID", "STATE", "RISK", "TOOL", "REQUESTER", "TIME LEFT", "SUMMARY", "WILL RUN"], ...rows], missing),
  );
  if (cursor !== undefined) print.line(`note: there are more; these are the first ${rows.length}`);
}

function row(approval: ShownApproval, now: number | undefined): readonly string[] {
  const { id, state, risk, tool, requester, decideBy, summary } = approval;
  const left = state === "pending" ? timeLeft(decideBy, now) : "-";
  return [id, state, risk ?? "-", tool, requester?.sub ?? "-", left, summary, willRun(approval)].map(printableCell);
}

/** Returns what the call does in one line; the arguments of a request whose view does not say it. */
function willRun({ headline, arguments: given }: ShownApproval): string {
  if (headline !== undefined) return headlineText(headline) || "-";
  return given === undefined ? "-" : JSON.stringify(given);
}

/** Adds a column with the approvals that are still missing, when there are any. */
function withMissing(rows: readonly (readonly string[])[], missing: readonly string[]): readonly (readonly string[])[] {
  if (missing.every((text) => text === "")) return rows;
  const cells = ["MISSING", ...missing.map((text) => printableCell(text || "-"))];
  return rows.map((cellsOf, at) => [...cellsOf.slice(0, -2), cells[at] ?? "", ...cellsOf.slice(-2)]);
}

export async function showApproval(id: string, options: ClientOptions): Promise<void> {
  const found = await fetchApproval(id, options);
  if (options.json === true) print.json(found.answer.body);
  else printView(found);
}

interface ApprovalAnswer {
  readonly approval: ShownApproval;
  readonly answer: ServiceAnswer;
}

async function fetchApproval(id: string, options: ClientOptions): Promise<ApprovalAnswer> {
  const answer = await connectAndRequest(options, { method: "GET", path: `/approvals/${segment(id)}` });
  const approval = approvalIn(answer, id);
  if (!isViewOfDigest(approval)) throw new CommandError(EXIT.failed, VIEW_MISMATCH);
  return { approval, answer };
}

/** Returns the approval in an answer. An answer about another approval counts as unknown. */
function approvalIn({ body }: ServiceAnswer, id: string): ShownApproval {
  const approval = readApproval(body);
  return approval?.id === id ? approval : unknownAnswer();
}

function printView({ approval, answer }: ApprovalAnswer): void {
  print.line(approvalLines(approval, { columns: columnsOf(process.stdout), now: answer.servedAt }).join("\n"));
}

interface DecideOptions extends ClientOptions {
  readonly reason?: string;
  readonly session?: boolean;
  readonly grant?: TypedTerms;
  readonly answer?: string;
  /** The argument whose values are vouched for. */
  readonly vouch?: string;
  /** Digest of the view that was shown earlier. Without it, the current view is printed and approved. */
  readonly viewDigest?: string;
}

/** `stc approvals approve <id>`: approves exactly one view, which is printed. */
export async function approve(id: string, options: DecideOptions): Promise<void> {
  checkReason(options.reason);
  let { viewDigest } = options;
  let vouch: readonly string[] | undefined;
  if (viewDigest === undefined || options.vouch !== undefined) {
    const found = await fetchApproval(id, options);
    if (options.vouch !== undefined) vouch = vouchedIn(found.approval, options.vouch);
    viewDigest ??= found.approval.viewDigest;
    if (viewDigest === undefined || found.approval.view === undefined) wrongUsage(NO_VIEW);
    try {
      if (options.json !== true) printView(found);
    } catch (error) {
      print.error("not decided: the view cannot be shown");
      throw error;
    }
  }
  const { reason, answer, grant, session } = options;
  const scope = session === true ? "session" : "once";
  const chosen = grant === undefined ? { scope } : { scope: "bounded", grant };
  await decide(id, options, { decision: "approve", ...chosen, reason, answer, vouch, viewDigest });
}

/** Returns the values of an argument that the view offers to vouch for. */
function vouchedIn(approval: ShownApproval, argument: string): readonly string[] {
  const offered = vouchableIn(approval);
  const values = offered.filter((one) => one.argument === argument).map(({ value }) => value);
  if (values.length > 0) return values;
  const names = [...new Set(offered.map((one) => printable(one.argument)))];
  return wrongUsage(
    names.length === 0
      ? "this request offers to vouch for nothing: nothing is decided"
      : `this request offers to vouch for ${names.join(", ")} only: nothing is decided`,
  );
}

export async function deny(id: string, options: DecideOptions): Promise<void> {
  checkReason(options.reason);
  await decide(id, options, { decision: "deny", reason: options.reason });
}

async function decide(id: string, options: ClientOptions, decision: object): Promise<void> {
  const path = `/approvals/${segment(id)}/decisions`;
  reportApproval(
    id,
    options,
    await connectAndRequest(options, { method: "POST", path, body: JSON.stringify(decision) }),
  );
}

/** `stc approvals revoke <id>`: revokes an approval that has not been used yet. */
export async function revoke(id: string, options: ClientOptions): Promise<void> {
  const path = `/approvals/${segment(id)}/revoke`;
  reportApproval(id, options, await connectAndRequest(options, { method: "POST", path, body: "{}" }));
}

function reportApproval(id: string, options: ClientOptions, answer: ServiceAnswer): void {
  const approval = approvalIn(answer, id);
  const scope = approval.scope == null ? "" : ` (${printable(approval.scope)})`;
  const missing = missingText(approval);
  const isCounted = approval.state === "pending" && missing !== "";
  const counted = `counted: ${printable(approval.id)} still needs ${missing}`;
  const ended = `${printable(approval.state)}${scope}: ${printable(approval.id)}`;
  reportChange(() => (options.json === true ? print.json(answer.body) : print.line(isCounted ? counted : ended)));
}

function checkReason(reason = ""): void {
  if (reason.length > REASON_CHARACTERS_MAX) wrongUsage(`the reason has more than ${REASON_CHARACTERS_MAX} characters`);
}
