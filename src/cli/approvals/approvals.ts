import { isTable } from "../../core/json.ts";
import {
  type ClientOptions,
  connect,
  reportUnknownAnswer,
  requestAnswer,
  requestById,
  type ServiceAnswer,
} from "../client.ts";
import { EXIT, print, reportChange, wrongUsage } from "../output.ts";
import { printable, printableCell } from "../printable.ts";
import { isViewOfDigest, readApproval, readApprovalPage, type ShownApproval } from "./answers.ts";
import { approvalLines, columnsOf, missingText, printListing, timeLeft } from "./view.ts";

const PAGE_APPROVALS = 200;
const PAGES_MAX = 50;
const REASON_CHARACTERS_MAX = 500;
/** A view that does not match its digest is never decided on, because it is not what the approver was shown. */
export const OTHER_VIEW = "the view does not match its digest: nothing is decided";
export const NO_VIEW = "this token may not see the view: it cannot decide";

/** `stc approvals list`: lists approvals, newest first. */
export async function listApprovals(options: ClientOptions & { readonly state?: string }): Promise<void> {
  const client = connect(options);
  if (client === undefined) return;
  const bodies: unknown[] = [];
  const rows: (readonly string[])[] = [];
  const missing: string[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < PAGES_MAX; pages += 1) {
    const query = new URLSearchParams({
      limit: String(PAGE_APPROVALS),
      ...(options.state !== undefined && { state: options.state }),
      ...(cursor !== undefined && { cursor }),
    });
    const answer = await requestAnswer(client, { method: "GET", path: `/approvals?${query}` }, options);
    if (answer === undefined) return;
    const page = readApprovalPage(answer.body);
    if (page === undefined) return reportUnknownAnswer();
    // Programs get every member that the service sent, not only those that are printed.
    if (isTable(answer.body) && Array.isArray(answer.body["approvals"])) bodies.push(...answer.body["approvals"]);
    rows.push(...page.approvals.map((approval) => row(approval, answer.servedAt)));
    missing.push(...page.approvals.map((approval) => (approval.state === "pending" ? missingText(approval) : "")));
    cursor = page.cursor ?? undefined;
    if (cursor === undefined) break;
  }
  if (options.json === true) return print.json({ approvals: bodies, ...(cursor !== undefined && { cursor }) });
  printListing(withMissing([["ID", "STATE", "RISK", "TOOL", "WHO", "LEFT", "SUMMARY"], ...rows], missing));
  if (cursor !== undefined) print.line(`note: there are more; these are the first ${rows.length}`);
}

function row(approval: ShownApproval, now: number | undefined): readonly string[] {
  const { id, state, risk, tool, requester, decideBy, summary } = approval;
  const left = state === "pending" ? timeLeft(decideBy, now) : "-";
  return [id, state, risk ?? "-", tool, requester?.sub ?? "-", left, summary].map(printableCell);
}

/** Adds a column when policies require more than one approval. */
function withMissing(rows: readonly (readonly string[])[], missing: readonly string[]): readonly (readonly string[])[] {
  if (missing.every((text) => text === "")) return rows;
  const cells = ["MISSING", ...missing.map((text) => printableCell(text || "-"))];
  return rows.map((cellsOf, at) => [...cellsOf.slice(0, -1), cells[at] ?? "", ...cellsOf.slice(-1)]);
}

export async function showApproval(id: string, options: ClientOptions): Promise<void> {
  const found = await fetchApproval(id, options);
  if (found === undefined) return;
  if (options.json === true) print.json(found.answer.body);
  else printView(found);
}

interface Found {
  readonly approval: ShownApproval;
  readonly answer: ServiceAnswer;
}

async function fetchApproval(id: string, options: ClientOptions): Promise<Found | undefined> {
  const answer = await requestById(id, options, (name) => ({ method: "GET", path: `/approvals/${name}` }));
  if (answer === undefined) return undefined;
  const approval = readApproval(answer.body);
  if (approval === undefined || approval.id !== id) reportUnknownAnswer();
  else if (isViewOfDigest(approval)) return { approval, answer };
  else {
    print.error(OTHER_VIEW);
    process.exitCode = EXIT.failed;
  }
  return undefined;
}

function printView({ approval, answer }: Found): void {
  print.line(approvalLines(approval, { columns: columnsOf(process.stdout), now: answer.servedAt }).join("\n"));
}

interface DecideOptions extends ClientOptions {
  readonly reason?: string;
  readonly session?: boolean;
  readonly answer?: string;
  /** Digest of the view that was shown earlier. Without it, the current view is printed and approved. */
  readonly viewDigest?: string;
}

/** `stc approvals approve <id>`: approves exactly one view, which is printed. */
export async function approve(id: string, options: DecideOptions): Promise<void> {
  if (!isReason(options.reason)) return;
  let { viewDigest } = options;
  if (viewDigest === undefined) {
    const found = await fetchApproval(id, options);
    if (found === undefined) return;
    viewDigest = found.approval.viewDigest;
    if (viewDigest === undefined || found.approval.view === undefined) return wrongUsage(NO_VIEW);
    try {
      if (options.json !== true) printView(found);
    } catch (error) {
      print.error("not decided: the view cannot be shown");
      throw error;
    }
  }
  const scope = options.session === true ? "session" : "once";
  await change(id, options, {
    to: "/decisions",
    body: { decision: "approve", scope, reason: options.reason, answer: options.answer, viewDigest },
  });
}

export async function deny(id: string, options: DecideOptions): Promise<void> {
  if (!isReason(options.reason)) return;
  await change(id, options, { to: "/decisions", body: { decision: "deny", reason: options.reason } });
}

/** `stc approvals revoke <id>`: revokes an approval that has not been used yet. */
export async function revoke(id: string, options: ClientOptions): Promise<void> {
  await change(id, options, { to: "/revoke", body: {} });
}

async function change(
  id: string,
  options: ClientOptions,
  { to, body }: { readonly to: string; readonly body: Readonly<Record<string, unknown>> },
): Promise<void> {
  const answer = await requestById(id, options, (name) => ({
    method: "POST",
    path: `/approvals/${name}${to}`,
    body: JSON.stringify(body),
  }));
  if (answer === undefined) return;
  const approval = readApproval(answer.body);
  if (approval === undefined || approval.id !== id) return reportUnknownAnswer();
  if (options.json === true) return reportChange(() => print.json(answer.body));
  const scope = approval.scope == null ? "" : ` (${printable(approval.scope)})`;
  const missing = missingText(approval);
  const isCounted = approval.state === "pending" && missing !== "";
  const counted = `counted: ${printable(approval.id)} still needs ${missing}`;
  reportChange(() =>
    print.line(isCounted ? counted : `${printable(approval.state)}${scope}: ${printable(approval.id)}`),
  );
}

function isReason(reason: string | undefined): boolean {
  if (reason === undefined || reason.length <= REASON_CHARACTERS_MAX) return true;
  wrongUsage(`the reason has more than ${REASON_CHARACTERS_MAX} characters`);
  return false;
}
