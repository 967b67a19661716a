import { FUNCTIONS, LANGUAGE } from "./functions.ts";
import { type Token, tokensOf } from "./tokens.ts";

/** Facts about a statement that only its text shows. Everything else comes from the server. */
export interface ReadStatement {
  /** Reasons to refuse the statement, in words for its author. */
  readonly problems: readonly string[];
  /** The type of each parameter: the type in the CAST around it, or text. */
  readonly parameters: readonly string[];
  /** Called functions that are not known to only compute a value: `name`, or `schema.name`. */
  readonly functions: readonly string[];
  /** The other words before a parenthesis. A stored function may have the same name: `count (x)` with a space calls it. */
  readonly known: readonly string[];
  /**
   * Whether the origins that the server reports for columns are reliable: with a second SELECT, WITH or a table function, the server
   * may report an alias as if it were a table.
   */
  readonly tellsOrigins: boolean;
  /** All words and names in the statement, including the names of its tables. */
  readonly names: readonly string[];
  /** A query with the columns of a change's RETURNING, which the server describes, unlike those of the change. */
  readonly returned: string | undefined;
}

const RUN_COMMENTS = "has a comment that MariaDB runs or obeys: /*!, /*M! or /*+";
const RETURNS = "has RETURNING, which only INSERT INTO and DELETE FROM may have, once and with the name of their table";
const REPEATS = "has RETURNING with ON DUPLICATE KEY, which changes rows that are not new";
const PORTION = "has FOR PORTION OF, which adds rows that MariaDB does not count";
const CHANGES = new Set(["insert", "update", "delete", "replace"]);

/** Reads a statement. @param isChange whether it is the statement of a tool that changes something */
export function readStatement(statement: string, isChange: boolean): ReadStatement {
  const tokens = tokensOf(statement);
  if (tokens === undefined) {
    return {
      problems: [RUN_COMMENTS],
      parameters: [],
      functions: [],
      known: [],
      tellsOrigins: false,
      names: [],
      returned: undefined,
    };
  }
  const words = tokens.map(({ kind, text }) => (kind === "word" ? text : ""));
  const returned = isChange ? returnedBy(statement, tokens, words) : undefined;
  const called = [...new Set(tokens.flatMap((_, at) => calledAt(tokens, at) ?? []))];
  return {
    problems: [...problemsIn(tokens, words), ...(isChange ? changeProblems(words, returned) : [])],
    parameters: tokens.flatMap(({ kind }, at) => (kind === "parameter" ? [typeAround(tokens, at)] : [])),
    functions: called.filter((name) => !isKnown(name)),
    known: called.filter(isKnown),
    tellsOrigins: returned === undefined ? isSingleSelect(words) : !words.some((word) => QUERIES.has(word)),
    names: [...new Set(tokens.flatMap(nameIn))],
    returned,
  };
}

const isKnown = (name: string): boolean => FUNCTIONS.has(name) || LANGUAGE.has(name);

/** A name after a dot may have digits only: `shop.123`. */
function nameIn({ kind, text }: Token): readonly string[] {
  if (kind === "value") return text === "" ? [] : [text.replace(/^\./, "")];
  return kind === "word" || kind === "name" ? [text] : [];
}

function isSingleSelect(words: readonly string[]): boolean {
  return words.filter((word) => word === "select").length === 1 && !words.some((word) => NESTING.has(word));
}

/** Words of queries. A query within a change may copy another column into the returned one. */
const QUERIES = new Set(["select", "table", "with", "json_table"]);
const NESTING = new Set(["with", "values", "value", "json_table", "union", "except", "intersect"]);

function problemsIn(tokens: readonly Token[], words: readonly string[]): readonly string[] {
  const follows = (word: string, next: ReadonlySet<string>): boolean =>
    words.some((each, at) => each === word && next.has(words[at + 1] ?? ""));
  return [
    ...(tokens.some(({ kind, text }) => kind === "mark" && text === "@") ? ["has a variable, @"] : []),
    ...(tokens.some(({ kind, text }) => kind === "mark" && text === ";") ? ["has a `;`"] : []),
    ...(follows("for", new Set(["update", "share"])) || follows("lock", new Set(["in"])) ? ["locks rows"] : []),
    ...(words.includes("into") && words.includes("outfile") ? ["writes a file"] : []),
  ];
}

/** Returns a query for the columns that `INSERT INTO table` or `DELETE FROM table` returns; undefined for another change. */
function returnedBy(statement: string, tokens: readonly Token[], words: readonly string[]): string | undefined {
  const begins = `${words[0]} ${words[1]}`;
  const list = tokens[words.indexOf("returning") + 1];
  const isOne = words.indexOf("returning") === words.lastIndexOf("returning");
  if (!words.includes("returning") || !isOne || list === undefined) return undefined;
  if (begins !== "insert into" && begins !== "delete from") return undefined;
  const isDot = (at: number): boolean => tokens[at]?.kind === "mark" && tokens[at]?.text === ".";
  const last = isDot(3) ? 4 : 2;
  const isDigits = tokens[last + 1]?.kind === "value";
  const isNamed = [2, last].every((at) => tokens[at]?.kind === "name" || tokens[at]?.kind === "word");
  if (!isNamed || isDigits || isDot(last + 1)) return undefined;
  // Each part ends in a line of its own: it may end in a comment.
  return `SELECT ${statement.slice(list.at)}\nFROM ${statement.slice(tokens[2]?.at, tokens[last + 1]?.at)}\nLIMIT 0`;
}

function changeProblems([first = "", ...words]: readonly string[], returned: string | undefined): readonly string[] {
  if (!CHANGES.has(first)) return ["must begin with INSERT, UPDATE, DELETE or REPLACE"];
  return [
    ...(words.includes("returning") && returned === undefined ? [RETURNS] : []),
    ...(words.includes("returning") && words.includes("duplicate") ? [REPEATS] : []),
    ...(words.some((word, at) => word === "for" && words[at + 1] === "portion") ? [PORTION] : []),
  ];
}

/** Returns the type of the parameter there, with its sizes: `CAST(? AS type)` gives it one. */
function typeAround(tokens: readonly Token[], at: number): string {
  const [cast, open] = [tokens[at - 2]?.text, tokens[at - 1]?.text];
  const [as, type] = [tokens[at + 1]?.text, tokens[at + 2]];
  if (cast !== "cast" || open !== "(" || as !== "as" || type === undefined) return "text";
  const end = tokens.findIndex(({ text }, next) => next > at && text === ")");
  const named = CAST_TYPES.get(type.text) ?? type.text;
  if (named === "text" || tokens[at + 3]?.text !== "(") return named;
  const sizes = tokens.slice(at + 4, end).flatMap(({ kind, text }) => (kind === "value" ? [text] : []));
  return `${named}(${sizes.join(",")})`;
}

const CAST_TYPES: ReadonlyMap<string, string> = new Map([
  ["integer", "signed"],
  ["int", "signed"],
  ["dec", "decimal"],
  ["numeric", "decimal"],
  ["fixed", "decimal"],
  ["char", "text"],
  ["varchar", "text"],
  ["nchar", "text"],
]);

/** Returns the name of what may be a function that is called there. */
function calledAt(tokens: readonly Token[], at: number): string | undefined {
  const token = tokens[at];
  if (tokens[at + 1]?.text !== "(" || tokens[at + 1]?.kind !== "mark" || token === undefined) return undefined;
  const [name] = nameIn(token);
  if (name === undefined) return undefined;
  const schemaAt = schemaBefore(tokens, at);
  const before = tokens[(schemaAt ?? at) - 1];
  if (before?.kind === "word" && INTO.has(before.text)) return undefined;
  if (schemaAt !== undefined) return `${tokens[schemaAt]?.text}.${name}`;
  return namesColumns(tokens, at) ? undefined : name;
}

/** Returns where the schema of the name there is: `.123` is one token. */
function schemaBefore(tokens: readonly Token[], at: number): number | undefined {
  if (tokens[at]?.kind === "value") return at - 1;
  return tokens[at - 1]?.kind === "mark" && tokens[at - 1]?.text === "." ? at - 2 : undefined;
}

/** The table after them may have a list of columns. */
const INTO = new Set(["into", "insert", "replace"]);

/** Returns whether the name there has a list of columns, `name (…) AS (…)`: it is a part of WITH. */
function namesColumns(tokens: readonly Token[], at: number): boolean {
  let depth = 0;
  for (let next = at + 1; next < tokens.length; next += 1) {
    const { kind, text } = tokens[next] ?? {};
    if (kind !== "mark") continue;
    if (text === "(") depth += 1;
    if (text === ")") depth -= 1;
    if (depth === 0) return tokens[next + 1]?.text === "as" && tokens[next + 2]?.text === "(";
  }
  return false;
}
