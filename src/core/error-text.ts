/** What was thrown, whatever it was, as text for operators. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The system's own word for why a file or a socket cannot be had, such as `ENOENT`: for messages to operators. */
export function systemCode(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "unknown error";
}
