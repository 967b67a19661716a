import { APPROVAL_SCOPES, APPROVAL_STATES, CATEGORIES, CLASSIFICATIONS } from "../../core/types.ts";
import type { Row } from "../../database/dialect.ts";
import { integer, json, oneOf, optionalInteger, optionalText, text, texts, unreadable } from "../../database/rows.ts";
import { readAnswer, type WantedAnswer } from "../answer.ts";
import { escalatedRequirement } from "../approver-policies/escalation.ts";
import {
  type Escalation,
  type Requirement,
  readEscalations,
  readRequirement,
  readVotes,
  type Vote,
} from "../approver-policies/requirement.ts";
import { type GrantBounds, type GrantTerms, readBounds, readTerms } from "../grants.ts";
import type { Approver } from "../identities.ts";
import {
  type Approval,
  type ApprovalEvent,
  EVENT_TYPES,
  type Grant,
  MODES,
  RISKS,
  type Session,
  type StoredAnswer,
} from "../types.ts";

/** Returns the approval as of `now`: one past its deadline is expired, whether or not the row already says so. */
export function toApproval(row: Row, now: number): Approval {
  const approval = storedApproval(row);
  const isOver =
    (approval.state === "pending" && approval.decideBy <= now) ||
    (approval.state === "approved" && (approval.executeBy ?? 0) <= now);
  return isOver ? { ...approval, state: "expired", version: approval.version + 1 } : approval;
}

function storedApproval(row: Row): Approval {
  const grantKey = optionalText(row, "grant_key");
  const required = requirement(row);
  const taken = escalations(row);
  const members = texts(row, "members");
  return {
    id: text(row, "id"),
    state: oneOf(row, "state", APPROVAL_STATES),
    version: integer(row, "version"),
    requester: {
      issuer: text(row, "issuer"),
      subject: text(row, "subject"),
      actors: texts(row, "actors"),
      session: text(row, "session") || undefined,
    },
    tool: text(row, "tool"),
    category: oneOf(row, "category", CATEGORIES),
    classification: oneOf(row, "classification", CLASSIFICATIONS),
    risk: oneOf(row, "risk", RISKS),
    rules: texts(row, "rules"),
    planDigest: text(row, "plan_digest"),
    view: json(row, "view"),
    viewDigest: text(row, "view_digest"),
    summary: text(row, "summary"),
    scopes: APPROVAL_SCOPES.filter((scope) => texts(row, "scopes").includes(scope)),
    grantKey,
    offer: bounds(row, "grant_offer"),
    traceId: text(row, "trace_id"),
    requirement: required && escalatedRequirement(required, taken),
    escalations: taken,
    votes: votes(row),
    answer: answer(row),
    createdAt: integer(row, "created_at"),
    decideBy: integer(row, "decide_by"),
    executeBy: optionalInteger(row, "execute_by"),
    decidedAt: optionalInteger(row, "decided_at"),
    decidedBy: approverIn(row, "decided"),
    scope: row["scope"] === null ? undefined : oneOf(row, "scope", APPROVAL_SCOPES),
    granted: granted(row),
    decisionReason: optionalText(row, "decision_reason"),
    ...(members.length > 0 && { members }),
  };
}

export function toGrant(row: Row): Grant {
  const held = bounds(row, "bounds");
  return {
    id: text(row, "id"),
    issuer: text(row, "issuer"),
    subject: text(row, "subject"),
    session: text(row, "session"),
    tool: text(row, "tool"),
    grantKey: text(row, "grant_key"),
    summary: text(row, "summary"),
    approvalId: text(row, "approval_id"),
    grantedBy: { issuer: text(row, "granted_issuer"), subject: text(row, "granted_subject") },
    createdAt: integer(row, "created_at"),
    expiresAt: integer(row, "expires_at"),
    ...(held !== undefined && { bounded: { bounds: held, runsUsed: integer(row, "runs_used") } }),
  };
}

/** Returns the session as of `now`: a mode past its end is `default`. */
export function toSession(row: Row, now: number): Session {
  const modeUntil = optionalInteger(row, "mode_until");
  const isOver = modeUntil !== undefined && modeUntil <= now;
  return {
    id: text(row, "id"),
    issuer: text(row, "issuer"),
    subject: text(row, "subject"),
    mode: isOver ? "default" : oneOf(row, "mode", MODES),
    modeUntil: isOver ? undefined : modeUntil,
    modeSetBy: isOver ? undefined : approverIn(row, "mode"),
    createdAt: integer(row, "created_at"),
    expiresAt: integer(row, "expires_at"),
  };
}

export function toEvent(row: Row): ApprovalEvent {
  return {
    seq: integer(row, "seq"),
    at: integer(row, "at"),
    type: oneOf(row, "type", EVENT_TYPES),
    id: text(row, "id"),
    tool: optionalText(row, "tool"),
    summary: optionalText(row, "summary"),
    issuer: text(row, "issuer"),
    subject: text(row, "subject"),
    ...(row["webhooks"] !== null && { webhooks: texts(row, "webhooks") }),
    ...(row["member"] !== null && { member: text(row, "member") }),
  };
}

/** Trusts the stored JSON: the service itself wrote it. */
export function toAnswer(row: Row): StoredAnswer {
  return json(row, "answer") as unknown as StoredAnswer;
}

function approverIn(row: Row, prefix: "decided" | "mode"): Approver | undefined {
  const issuer = optionalText(row, `${prefix}_issuer`);
  return issuer === undefined ? undefined : { issuer, subject: text(row, `${prefix}_subject`) };
}

/** Throws when the requirement is unreadable: ignoring it would let one approver be enough. */
function requirement(row: Row): Requirement | undefined {
  if (row["requirement"] === null && row["requirement_digest"] === "") return undefined;
  const read = row["requirement"] === null ? undefined : readRequirement(json(row, "requirement"));
  if (read === undefined || read.digest !== row["requirement_digest"]) throw unreadable("requirement");
  return read;
}

function bounds(row: Row, column: "grant_offer" | "bounds"): GrantBounds | undefined {
  if (row[column] === null) return undefined;
  const read = readBounds(json(row, column));
  if (read === undefined) throw unreadable(column);
  return read;
}

function granted(row: Row): GrantTerms | undefined {
  if (row["granted"] === null) return undefined;
  const read = readTerms(json(row, "granted"));
  if (read === undefined) throw unreadable("granted");
  return read;
}

function votes(row: Row): readonly Vote[] {
  const read = row["votes"] === "[]" ? [] : readVotes(json(row, "votes"));
  if (read === undefined) throw unreadable("votes");
  return read;
}

function escalations(row: Row): readonly Escalation[] {
  const read = row["escalations"] === "[]" ? [] : readEscalations(json(row, "escalations"));
  if (read === undefined) throw unreadable("escalations");
  return read;
}

function answer(row: Row): WantedAnswer | undefined {
  if (row["answer"] === null) return undefined;
  const read = readAnswer(json(row, "answer"));
  if (read === undefined) throw unreadable("answer");
  return read;
}
