/**
 * States of an approval request. `pending` changes to exactly one of the others; `approved` and `claimed` can change again, all
 * others are final.
 */
export const APPROVAL_STATES = [
  ...(["pending", "approved", "denied", "expired", "cancelled", "revoked"] as const),
  ...(["claimed", "executed", "failed", "in_doubt"] as const),
] as const;

export type ApprovalState = (typeof APPROVAL_STATES)[number];
