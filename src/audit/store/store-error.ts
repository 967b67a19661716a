/** A problem with an audit store. The message names no URL, which may contain a password. */
export class AuditStoreError extends Error {
  override readonly name: string = "AuditStoreError";
}

/** A statement exceeded its time limit. */
export class SlowStatement extends AuditStoreError {
  override readonly name = "SlowStatement";
}
