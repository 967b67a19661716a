/**
 * Tells whether a change may store the value of another column in a column that it returns. SQLite reports the origin of what RETURNING
 * names, and not of what was stored there. Reads the text, and prefers to say yes.
 */

const COMMENT_OR_QUOTED = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]/g;
const KEYWORDS = /\b(?:where|set|returning|select|insert|update)\b/g;
/** Further names of a column that is the key of its rows. */
const ROW_NUMBER = "rowid|oid|_rowid_";
const STRING = "\u0002";
const SPLIT = "\u0001";

/** Returns whether the statement may copy another column into this one. */
export function mayCopyInto(statement: string, column: string): boolean {
  const text = bare(statement);
  if (!/\b(?:insert|update)\b/.test(text)) return false;
  if (/\bselect\b/.test(text)) return true;
  const [, assigned] = /\bset\b([\s\S]*)/.exec(text) ?? [];
  // VALUES cannot name columns.
  if (assigned === undefined) return false;
  const until = assigned.lastIndexOf("returning");
  const [clause = "", ...conditions] = assigned.slice(0, until === -1 ? undefined : until).split(/\bwhere\b/);
  // Another ON CONFLICT comes after a condition.
  if (conditions.length > 1 || conditions.some((text) => /\bset\b/.test(text))) return true;
  const name = escaped(masked(column.toLowerCase()));
  const value = `(?:\\$\\d+|[-+]?\\d[\\d.]*|null|${STRING}[^${STRING}]*${STRING})`;
  const stored = `${value}|cast\\s*\\(\\s*${value}\\s+as\\s+\\w+\\s*\\)|coalesce\\s*\\(\\s*${value}\\s*,\\s*${name}\\s*\\)`;
  const others = clause.replaceAll(new RegExp(`(^|,)\\s*${name}\\s*=\\s*(?:${stored})\\s*(?=,|$)`, "g"), "$1");
  return new RegExp(`(?<![\\w$\\u0080-\\uffff])(?:${name}|${ROW_NUMBER})(?![\\w$\\u0080-\\uffff])`).test(others);
}

/** Returns the text in lower case without comments and quotes. Keywords within quotes are none any more. */
function bare(statement: string): string {
  const text = statement.replaceAll(COMMENT_OR_QUOTED, (found) => {
    if (found.startsWith("--") || found.startsWith("/*")) return " ";
    const quote = found.startsWith("[") ? "]" : (found[0] ?? "");
    const content = masked(
      found
        .slice(1, -1)
        .replaceAll(quote + quote, quote)
        .toLowerCase(),
    );
    return quote === "'" ? `${STRING}${content}${STRING}` : content;
  });
  return text.toLowerCase();
}

function masked(text: string): string {
  return text.replaceAll(KEYWORDS, (word) => `${word.slice(0, 1)}${SPLIT}${word.slice(1)}`);
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
