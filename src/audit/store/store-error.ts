/** A problem with an audit store. The message names no URL, which may contain a password. */
export class AuditStoreError extends Error {
  override readonly name: string = "AuditStoreError";
}

/** The store does not hold what a proof needs. */
export class NotProvable extends AuditStoreError {
  override readonly name = "NotProvable";
}

/** A statement exceeded its time limit. */
export class SlowStatement extends AuditStoreError {
  override readonly name = "SlowStatement";
}
