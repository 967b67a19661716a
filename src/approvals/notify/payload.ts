import { sha256Hex } from "../../core/digest.ts";
import type { Json } from "../../core/types.ts";
import type { Approval, ApprovalEvent } from "../types.ts";

/** What a channel is told: that there is something, and where; or also what the deciders' list and page show. */
export type Detail = "summary" | "view";

export interface PayloadOptions {
  /** The webhook's name. */
  readonly name: string;
  readonly deployment: string;
  readonly detail: Detail;
  /** What links begin with; without it they are paths. */
  readonly publicUrl: string | undefined;
}

export interface Message {
  readonly id: string;
  readonly body: string;
}

/** A larger view is left out, and said to be. */
const VIEW_CHARACTERS_MAX = 262_144;
const ID_CHARACTERS = 32;

/** The same event has the same id at each attempt, and another at each webhook. */
export function messageOf(event: ApprovalEvent, approval: Approval | undefined, options: PayloadOptions): Message {
  const { type, at, seq, id } = event;
  const digest = sha256Hex(JSON.stringify(["stc/webhook/v1", options.deployment, options.name, seq, at, type, id]));
  const body = JSON.stringify({ type, timestamp: iso(at), data: dataOf(event, approval, options) });
  return { id: `msg_${digest.slice(0, ID_CHARACTERS)}`, body };
}

function dataOf({ id, tool, summary }: ApprovalEvent, approval: Approval | undefined, options: PayloadOptions): Json {
  const told = { id, ...(tool !== undefined && { tool }), ...(summary !== undefined && { summary }) };
  const link = `${options.publicUrl ?? ""}/approvals/${id}/page`;
  if (approval === undefined) return { ...told, link };
  const { state, risk, scopes, decideBy, planDigest, viewDigest } = approval;
  const times = { decideBy: iso(decideBy) };
  const stands = { state, risk, options: ["cancel", ...scopes], ...times, planDigest, viewDigest };
  const wants: Record<string, Json> = approval.answer === undefined ? {} : { wantsAnswer: true };
  return { ...told, ...stands, ...wants, link, ...(options.detail === "view" && detailOf(approval)) };
}

/** For channels that the operator trusts with it. Its secrets were filtered when it was made. */
function detailOf(approval: Approval): Record<string, Json> {
  const { requester, rules, category, classification, traceId, view, answer } = approval;
  const { issuer, subject, actors } = requester;
  const isWhole = JSON.stringify(view).length <= VIEW_CHARACTERS_MAX;
  return {
    ...{ rules: [...rules], category, classification, traceId },
    requester: { iss: issuer, sub: subject, act: [...actors] },
    ...(answer?.choices !== undefined && { choices: [...answer.choices] }),
    ...(isWhole ? { view } : { viewLeftOut: true }),
  };
}

/** ISO 8601, UTC. */
function iso(ms: number): string {
  return new Date(ms).toISOString();
}
