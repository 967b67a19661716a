/**
 * Returns a name quoted for a statement of MariaDB or SQLite. SQLite takes a name in `"` that no column has for a text, as soon as the
 * column is dropped.
 */
export function quotedName(name: string): string {
  return `\`${name.replaceAll("`", "``")}\``;
}
