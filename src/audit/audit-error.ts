/**
 * The audit log cannot do what was asked. The message is for the operator: it names the file and the remedy, and never
 * leaves the service.
 */
export class AuditError extends Error {
  override readonly name = "AuditError";
}

/** What went wrong, in one line: the system's code and text when there are any. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
