import type { Found } from "../query/scan.ts";
import { type EntryView, type Members, membersOf, parseLine, textOf } from "../query/view.ts";

const VERSION = "1.8.0";
const CATEGORY = { category_uid: 6, category_name: "Application Activity" } as const;
const CLASS = { class_uid: 6003, class_name: "API Activity" } as const;

const ACTIVITIES: Readonly<Record<string, readonly [id: number, name: string]>> = {
  read: [2, "Read"],
  write: [3, "Update"],
  destructive: [4, "Delete"],
};
const UNKNOWN_ACTIVITY = [0, "Unknown"] as const;

const STATUSES: Readonly<Record<string, readonly [id: number, name: string]>> = {
  ALLOWED: [1, "Success"],
  DENIED: [2, "Failure"],
  ERROR: [2, "Failure"],
};
const OTHER_STATUS = [99, "Other"] as const;

const SEVERITIES: Readonly<Record<string, readonly [id: number, name: string]>> = {
  DENIED: [2, "Low"],
  ERROR: [3, "Medium"],
};
const INFORMATIONAL = [1, "Informational"] as const;

/** One call as an OCSF event. What OCSF has no place for stands in `unmapped`; what is not known is left out. */
export function toOcsf({ entry, line }: Found): object {
  const members = parseLine(line) ?? {};
  const [activityId, activity] = ACTIVITIES[entry.classification ?? ""] ?? UNKNOWN_ACTIVITY;
  const [statusId, status] = STATUSES[entry.decision ?? ""] ?? OTHER_STATUS;
  const [severityId, severity] = SEVERITIES[entry.decision ?? ""] ?? INFORMATIONAL;
  return {
    ...{ activity_id: activityId, activity_name: activity, ...CATEGORY, ...CLASS },
    ...{ type_uid: CLASS.class_uid * 100 + activityId, type_name: `${CLASS.class_name}: ${activity}` },
    time: entry.timeMs,
    ...{ severity_id: severityId, severity, status_id: statusId, status },
    status_code: entry.code,
    status_detail: entry.reason,
    duration: entry.duration === undefined ? undefined : Math.round(entry.duration),
    count: entry.count,
    actor: actorOf(entry),
    api: apiOf(entry),
    // The log keeps no addresses: the caller is known by its token.
    src_endpoint: { svc_name: entry.sub ?? "unknown" },
    metadata: metadataOf(entry, members),
    unmapped: unmappedOf(entry, members),
  };
}

function actorOf({ sub, iss }: EntryView): object {
  return { user: { uid: sub ?? "unknown", name: sub }, idp: iss === undefined ? undefined : { name: iss } };
}

function apiOf({ tool, system, traceId, code, reason }: EntryView): object {
  return {
    operation: tool ?? "unknown",
    service: { name: system ?? "unknown" },
    request: { uid: traceId ?? "unknown" },
    response: code === undefined ? undefined : { error: code, error_message: reason },
  };
}

function metadataOf({ traceId, timestamp, wireTraceId }: EntryView, members: Members): object {
  const seq = members["seq"];
  return {
    version: VERSION,
    product: { name: "Safe Tool Call", vendor_name: "Safe Tool Call" },
    uid: traceId,
    correlation_uid: wireTraceId,
    original_time: timestamp,
    log_name: "audit",
    sequence: Number.isSafeInteger(seq) ? seq : undefined,
    reporter: { name: textOf(members["instance"]) },
  };
}

function unmappedOf({ decision, stage, classification, approvalId, approvedBy }: EntryView, members: Members): object {
  const request = membersOf(members["request"]);
  return {
    decision,
    stage,
    classification,
    permissions: membersOf(members["caller"])?.["permissions"],
    act: membersOf(members["caller"])?.["act"],
    args: request?.["args"],
    args_hash: request?.["argsHash"],
    args_hash_alg: request?.["hashAlg"],
    filtered_fields: membersOf(members["response"])?.["filteredFields"],
    output_hash: membersOf(members["response"])?.["outputHash"],
    plan_digest: membersOf(members["plan"])?.["digest"],
    approval_id: approvalId,
    approved_by: approvedBy,
    chain_hash: members["hash"],
  };
}
