/** Returns the lines of a text, each with its newline; only the last may lack one. An empty text has no lines. */
export function linesOf(text: string): readonly string[] {
  const lines: string[] = [];
  for (let at = 0; at < text.length; ) {
    const newline = text.indexOf("\n", at);
    const end = newline < 0 ? text.length : newline + 1;
    lines.push(text.slice(at, end));
    at = end;
  }
  return lines;
}
