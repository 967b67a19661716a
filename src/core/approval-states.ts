/** A pending request becomes exactly one of the others; `approved` and `claimed` go on, all else is an end. */
export const APPROVAL_STATES = [
  ...(["pending", "approved", "denied", "expired", "cancelled", "revoked"] as const),
  ...(["claimed", "executed", "failed", "in_doubt"] as const),
] as const;

export type ApprovalState = (typeof APPROVAL_STATES)[number];
