/** Ids that callers choose: visible ASCII without spaces. */
export const CALL_ID = /^[\x21-\x7e]{1,128}$/;

export const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/;

/** How long one request may wait, such as for an approver: less than a minute, after which clients and proxies time out. */
export const WAIT_SECONDS_MAX = 55;
