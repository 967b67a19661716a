/** Returns any thrown value as text for operators. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Returns the system's error code for a file or socket that is not available, such as `ENOENT`, for messages to operators. */
export function systemCode(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "unknown error";
}

/** Returns an error's name and code, without its message: the runtime's messages may quote a URL that contains a secret. */
export function errorName(error: unknown): string {
  if (!(error instanceof Error)) return "failed";
  const code = "code" in error && typeof error.code === "string" ? ` ${error.code}` : "";
  return `${error.name}${code}`;
}
