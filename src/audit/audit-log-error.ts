/**
 * A failed operation of the audit log. The message is for the operator: it names the file and the remedy, and never
 * leaves the service.
 */
export class AuditLogError extends Error {
  override readonly name = "AuditLogError";
}

/** The disk is full and none of the data was written: the operation can be retried once there is room. */
export class DiskFullError extends AuditLogError {}

export function isDiskFull(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "ENOSPC" || code === "EDQUOT";
}
