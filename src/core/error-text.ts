/** Returns any thrown value as text for operators. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Returns the system's error code for a file or socket that is not available, such as `ENOENT`, for messages to operators. */
export function systemCode(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "unknown error";
}
