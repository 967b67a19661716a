import { z } from "zod";
import type { ReadonlyDeep } from "./readonly.ts";

/** Rates and shares are from 0 to 1; `null` without decisions, like times. */
const share = z.number().nullable();

/** Statistics of decisions. */
const decisions = z.object({
  approved: z.number(),
  denied: z.number(),
  /** `approval_rate` or `hasty_share`: approvers probably no longer read requests. */
  alerts: z.array(z.string()),
  approvalRate: share,
  medianSeconds: share,
  p90Seconds: share,
  /** Share of the decisions that were approvals within three seconds. */
  hastyShare: share,
});

/** Requests to one approver, and this approver's decisions, in an hour. */
const approverHour = z.object({
  iss: z.string(),
  sub: z.string(),
  /** Requests made in this hour that name the approver, or that the approver decided at any time. */
  asked: z.number(),
  /** Decisions made in this hour, whenever they were requested. */
  decided: z.number(),
  medianSeconds: share,
  /** Share of the decisions that were approvals within three seconds. */
  quickApprovalShare: share,
});

/** A clock hour in which something was requested or decided. */
const hour = z.object({
  /** Start of the hour in ISO 8601. */
  from: z.string(),
  asked: z.number(),
  decided: z.number(),
  approvers: z.array(approverHour),
});

/** How the approval requests of a period were answered: `GET /approvals/report`. Times are in ISO 8601. */
export const approvalReport = decisions.extend({
  from: z.string(),
  to: z.string(),
  /** False when older requests of the period are left out. */
  isWhole: z.boolean(),
  asked: z.number(),
  pending: z.number(),
  /** Requests that nobody decided in time. */
  expired: z.number(),
  cancelled: z.number(),
  /** Tools with the most requests first. */
  tools: z.array(decisions.extend({ tool: z.string(), asked: z.number(), expired: z.number() })),
  deciders: z.array(
    decisions.extend({
      iss: z.string(),
      sub: z.string(),
      /** Average number of decisions per clock hour, counting only hours with decisions; and the highest number in one hour. */
      perHour: z.number(),
      busiestHour: z.number(),
    }),
  ),
  /** Newest first. */
  hours: z.array(hour).default([]),
  /** How often agents asked whether a call would need an approval, without making it. */
  dryRuns: z.array(z.object({ tool: z.string(), dryRuns: z.number() })).default([]),
  suggestions: z.array(z.object({ kind: z.string(), tool: z.string().optional(), prompts: z.number() })),
});

export type Decisions = ReadonlyDeep<z.output<typeof decisions>>;
export type ApproverHour = ReadonlyDeep<z.output<typeof approverHour>>;
export type ReportHour = ReadonlyDeep<z.output<typeof hour>>;
export type ApprovalReport = ReadonlyDeep<z.output<typeof approvalReport>>;
