import type { ApprovalAnswer, ApprovalTerms } from "../../../core/api/approvals.ts";
import { APPROVAL_SCOPES, type ApprovalScope } from "../../../core/types.ts";
import { members } from "../api.ts";
import { counted } from "../words.ts";

/** Approval requests as the service shows them to operators. */

/** A request in a list. An event that has just arrived has only the members that are named here. */
export type ListedRequest = Pick<ApprovalAnswer, "id" | "state" | "tool" | "summary"> & {
  readonly createdAt: string;
} & Partial<ApprovalAnswer>;

/** A request with everything that an approver reads before deciding. */
export type ShownRequest = ListedRequest & { readonly view: unknown };

/** The longest reason that the service accepts. */
export const REASON_CHARACTERS_MAX = 500;
/** The longest answer that the service accepts. */
export const ANSWER_CHARACTERS_MAX = 4_000;

export function isPending({ state }: Pick<ListedRequest, "state">): boolean {
  return state === "pending";
}

/** Returns whether the request's risk is above medium by what the list or the view says. An unknown risk counts as high. */
export function isHighRisk({ risk, view }: ShownRequest): boolean {
  const { risk: shown = risk } = members(view);
  return [risk, shown].some((word) => word !== "low" && word !== "medium");
}

const OUTCOMES: Readonly<Record<string, string>> = {
  pending: "Waiting",
  approved: "Approved",
  denied: "Denied",
  claimed: "Approved, running",
  executed: "Approved, has run",
  failed: "Approved, failed",
  in_doubt: "Approved, outcome unknown",
  expired: "Expired",
  cancelled: "Cancelled by the caller",
  revoked: "Revoked",
  ended: "No longer waiting",
};

/** Returns the state of a request in words. */
export function outcomeOf({ state, decidedBy }: Pick<ListedRequest, "state"> & { decidedBy?: unknown }): string {
  // An approval expires, too, when no call uses it in time.
  if (state === "expired" && decidedBy !== undefined) return "Approved, unused";
  return Object.hasOwn(OUTCOMES, state) ? (OUTCOMES[state] ?? state) : state;
}

/** Returns the tone of a state: `good` for what was approved, `bad` for what was denied. */
export function toneOf(state: string): string {
  if (["approved", "claimed", "executed"].includes(state)) return "good";
  if (["denied", "revoked", "failed", "in_doubt"].includes(state)) return "bad";
  return "plain";
}

/** Returns the scopes in which a request can be approved. */
export function scopesOf({ options = [], offer }: ListedRequest): readonly ApprovalScope[] {
  const scopes = APPROVAL_SCOPES.filter((scope) => options.includes(scope));
  return offer === undefined ? scopes.filter((scope) => scope !== "bounded") : scopes;
}

/** Returns what an approval covers beyond the call, in words that follow it. */
export function coverageOf(
  scope: string | undefined,
  terms: Pick<ApprovalTerms, "runs" | "minutes"> | undefined,
): string {
  if (scope === "session") return " for the session";
  if (scope !== "bounded" || terms === undefined) return "";
  return `, with ${counted(terms.runs, "run")} in ${counted(terms.minutes, "minute")}`;
}

/**
 * Returns whether the view is the one that the service would run: a decision names the digest, and the page shows the view. Also
 * true where the browser cannot compute digests.
 */
export async function isViewOfDigest({ view, planDigest, viewDigest }: ShownRequest): Promise<boolean> {
  if (globalThis.crypto?.subtle === undefined) return true;
  const bytes = new TextEncoder().encode(canonical({ t: "stc/view/v1", planDigest, view }));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("") === viewDigest;
}

/** Returns the canonical text of JSON (RFC 8785). */
function canonical(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([name, item]) => `${JSON.stringify(name)}:${canonical(item)}`).join(",")}}`;
}
