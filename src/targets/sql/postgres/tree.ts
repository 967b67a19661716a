/** Reads trees of statements, as the server has understood them. In names, characters that mean something in a tree have a backslash. */

/** Returns where the value of a field of the outermost node begins; -1 when the node does not have the field. */
export function fieldAt(tree: string, field: string): number {
  let depth = 0;
  for (let at = 0; at < tree.length; at += 1) {
    const character = tree[at];
    if (character === "\\") at += 1;
    else if (character === "{") depth += 1;
    else if (character === "}") depth -= 1;
    else if (depth === 1 && character === ":" && tree.startsWith(field, at)) return at + field.length;
  }
  return -1;
}

/** Returns the entries of the list that begins at `start`; entries may hold lists of their own. */
export function entriesOf(tree: string, start: number): readonly string[] {
  const entries: string[] = [];
  let depth = 0;
  let from = start;
  for (let at = start; at < tree.length; at += 1) {
    const character = tree[at];
    if (character === "\\") at += 1;
    else if (character === "{") {
      if (depth === 0) from = at;
      depth += 1;
    } else if (character === "}") {
      depth -= 1;
      if (depth === 0) entries.push(tree.slice(from, at + 1));
    } else if (character === ")" && depth === 0) break;
  }
  return entries;
}

/** Returns whether one of the queries in a tree locks rows. */
export function locksRows(tree: string): boolean {
  return tree.includes(":rowMarks ({");
}
