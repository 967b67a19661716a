/**
 * The audit log cannot do what was asked. The message is for the operator: it names the file and the remedy, and never
 * leaves the service.
 */
export class AuditLogError extends Error {
  override readonly name = "AuditLogError";
}

/** The disk is full, and nothing of what was to be written is on it: with room it can be tried again. */
export class DiskFullError extends AuditLogError {}

/** Full, or over a quota. */
export function isDiskFull(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "ENOSPC" || code === "EDQUOT";
}
