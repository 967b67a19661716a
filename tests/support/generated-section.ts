const END = "<!-- end -->";

/**
 * Returns the page with this text between its markers, which name the command that writes it.
 *
 * @throws {Error} when the page has no markers of this command
 */
export function withSection(page: string, command: string, text: string): string {
  const begin = `<!-- made by \`bun run ${command}\`: do not write here -->`;
  const from = page.indexOf(begin);
  const to = page.indexOf(END, from);
  if (from < 0 || to < 0) throw new Error(`the page has no section of ${command}`);
  return `${page.slice(0, from)}${begin}\n\n${text}\n\n${page.slice(to)}`;
}
