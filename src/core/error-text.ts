/** What was thrown, whatever it was, as text for operators. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
