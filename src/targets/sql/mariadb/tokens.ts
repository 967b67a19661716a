/** A token of a statement. Strings and numbers are not words. */
export interface Token {
  readonly kind: "word" | "name" | "value" | "parameter" | "mark";
  /** A word in lower case, a quoted name without its quotes, a number, or a mark. Empty for a text. */
  readonly text: string;
  /** Position of its first character in the statement. */
  readonly at: number;
}

// The server knows spaces of ASCII only: any other one is a part of a name.
const SPACE = /^[\t\n\v\f\r ]+/;
const LINE_COMMENT = /^(?:#|--(?=[\x00- \x7f]|$))[^\n]*/;
const COMMENT = /^\/\*[\s\S]*?(?:\*\/|$)/;
/** `/*!` and `/*M!`, in which the server runs what it reads, and `/*+`, in which it may read settings. */
const RUN_COMMENT = /^\/\*(?:M?!|\+)/;
const STRING = /^'(?:[^'\\]|\\[\s\S]|'')*(?:'|$)|^"(?:[^"\\]|\\[\s\S]|"")*(?:"|$)/;
const QUOTED = /^`((?:[^`]|``)*)(?:`|$)/;
const NUMBER = /^(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w$\u0080-\uffff])/;
const WORD = /^[\w$\u0080-\uffff]+/;

/**
 * Splits a statement as the server does in the mode that connections have: a backslash escapes within strings, and `"` quotes strings.
 * Returns undefined for a statement with a comment that the server would run.
 */
export function tokensOf(statement: string): readonly Token[] | undefined {
  const tokens: Token[] = [];
  let rest = statement;
  const take = (pattern: RegExp): RegExpExecArray | null => {
    const found = pattern.exec(rest);
    if (found !== null) rest = rest.slice(found[0].length);
    return found;
  };
  while (rest !== "") {
    const at = statement.length - rest.length;
    if (RUN_COMMENT.test(rest)) return undefined;
    if (take(SPACE) ?? take(LINE_COMMENT) ?? take(COMMENT)) continue;
    const value = take(STRING) === null ? take(NUMBER)?.[0] : "";
    if (value !== undefined) {
      tokens.push({ kind: "value", text: value, at });
      continue;
    }
    const name = take(QUOTED)?.[1];
    const word = name === undefined ? take(WORD)?.[0] : undefined;
    if (name !== undefined) tokens.push({ kind: "name", text: name.replaceAll("``", "`"), at });
    else if (word !== undefined) tokens.push({ kind: "word", text: word.toLowerCase(), at });
    else {
      const [mark = ""] = rest;
      rest = rest.slice(mark.length);
      tokens.push({ kind: mark === "?" ? "parameter" : "mark", text: mark, at });
    }
  }
  return tokens;
}
