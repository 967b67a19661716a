/** The part of LogQL that log queries are written in here, and a reader of it that knows nothing else. */

export interface Matcher {
  readonly label: string;
  readonly operator: "=" | "!=" | "=~" | "!~";
  readonly value: string;
}

export interface LogQuery {
  readonly matchers: readonly Matcher[];
  /** Texts that a line must contain. */
  readonly contains: readonly string[];
}

export function writeLogQuery({ matchers, contains }: LogQuery): string {
  const selector = matchers.map(({ label, operator, value }) => `${label}${operator}${quote(value)}`).join(", ");
  return [`{${selector}}`, ...contains.map((text) => `|= ${quote(text)}`)].join(" ");
}

/** Printable ASCII only: what is left could end the text, hide in it, or be read in two ways. */
function quote(text: string): string {
  let quoted = '"';
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    if (char === '"' || char === "\\") quoted += `\\${char}`;
    else if (code >= 0x20 && code <= 0x7e) quoted += char;
    else quoted += code > 0xffff ? `\\U${hex(code, 8)}` : `\\u${hex(code, 4)}`;
  }
  return `${quoted}"`;
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, "0");
}

/**
 * Reads a query as Loki would.
 *
 * @throws SyntaxError for anything that `writeLogQuery` does not write, comments and other filters among it
 */
export function parseLogQuery(query: string): LogQuery {
  const reader = new Reader(query);
  const matchers: Matcher[] = [];
  reader.expect("{");
  do matchers.push(readMatcher(reader));
  while (reader.accept(","));
  reader.expect("}");
  const contains: string[] = [];
  while (reader.accept("|=")) contains.push(reader.text());
  reader.end();
  return { matchers, contains };
}

const OPERATORS = ["=~", "!~", "!=", "="] as const;

function readMatcher(reader: Reader): Matcher {
  const label = reader.label();
  const operator = OPERATORS.find((candidate) => reader.accept(candidate));
  if (operator === undefined) throw new SyntaxError("a matcher has no operator");
  return { label, operator, value: reader.text() };
}

class Reader {
  readonly #query: string;
  #at = 0;

  constructor(query: string) {
    this.#query = query;
  }

  accept(token: string): boolean {
    while (this.#query[this.#at] === " ") this.#at += 1;
    if (!this.#query.startsWith(token, this.#at)) return false;
    this.#at += token.length;
    return true;
  }

  expect(token: string): void {
    if (!this.accept(token)) throw new SyntaxError(`the query lacks ${token}`);
  }

  label(): string {
    this.accept("");
    const from = this.#at;
    while (/[A-Za-z0-9_]/.test(this.#query[this.#at] ?? "")) this.#at += 1;
    const label = this.#query.slice(from, this.#at);
    if (!/^[A-Za-z_]/.test(label)) throw new SyntaxError("a matcher has no label");
    return label;
  }

  text(): string {
    this.expect('"');
    let text = "";
    for (;;) {
      const char = this.#query[this.#at];
      if (char === undefined || char < " ") throw new SyntaxError("a text does not end");
      this.#at += 1;
      if (char === '"') return text;
      text += char === "\\" ? this.#escape() : char;
    }
  }

  end(): void {
    this.accept("");
    if (this.#at < this.#query.length) throw new SyntaxError("the query goes on after its end");
  }

  #escape(): string {
    const kind = this.#query[this.#at] ?? "";
    this.#at += 1;
    if (kind === '"' || kind === "\\") return kind;
    if (kind !== "u" && kind !== "U") throw new SyntaxError("an escape is not known");
    const digits = this.#query.slice(this.#at, this.#at + (kind === "u" ? 4 : 8));
    if (!/^(?:[0-9a-f]{4}|[0-9a-f]{8})$/.test(digits)) throw new SyntaxError("an escape is not known");
    this.#at += digits.length;
    return String.fromCodePoint(Number.parseInt(digits, 16));
  }
}
