import type { DoubleQuotedChild, ParameterExpansionPart, Word, WordPart } from "unbash";

/** Stands in evaluated words where a value is not known before it runs. No text that is read holds it. */
export const UNKNOWN = "\0";
/** Stands in evaluated words for the home directory: `~` and `$HOME`, unlike a file that is called `~`. */
export const HOME = "\u0001";

/** Stands for some path below the place where the script stands: what a loop over `*.txt` meets. */
export const INSIDE = "\u0002";

/** Stands between the words of `"$@"`. */
export const FIELD = "\u0003";

const FIELDS_MAX = 64;
const FIELD_CHARACTERS_MAX = 16_384;

/** One choice of a pattern that can mean `..`. */
const CLIMBS = /(?:^|[|(])[.?*@+()]{0,64}\.[.?*@+()]{0,64}(?:$|[|)])/;

/** What an expansion is worth: a text that is known, or `UNKNOWN`. */
export type VariableLookup = (name: string) => string;

export const NOTHING_KNOWN: VariableLookup = () => UNKNOWN;

/** Whether a word says what it is by itself: no expansion, glob or brace in it. */
export function isLiteral({ parts }: Word): boolean {
  return parts === undefined || parts.every(isLiteralPart);
}

function isLiteralPart(part: WordPart): boolean {
  switch (part.type) {
    case "Literal":
    case "SingleQuoted":
    case "AnsiCQuoted":
      return true;
    case "DoubleQuoted":
    case "LocaleString":
      return part.parts.every((inner) => inner.type === "Literal");
    default:
      return false;
  }
}

/** The fields that a word becomes: one, unless an unquoted expansion of a known text or a brace makes several. */
export function fieldsOf(word: Word, lookup: VariableLookup): readonly string[] {
  if (word.parts === undefined) return [withHome(word.text, word.value)];
  const pieces: Piece[] = word.parts.map((part, index) => pieceOf(part, { lookup, isFirst: index === 0 }));
  return limited(splitFields(pieces));
}

/** What is left out may be anything. */
function limited(fields: readonly string[]): readonly string[] {
  return fields.length > FIELDS_MAX ? [...fields.slice(0, FIELDS_MAX - 1), UNKNOWN] : fields;
}

function limitedText(text: string): string {
  return text.length > FIELD_CHARACTERS_MAX ? UNKNOWN : text;
}

/** The word as one text, as an assignment or a redirection takes it. */
export function textOf(word: Word, lookup: VariableLookup): string {
  if (word.parts === undefined) return withHome(word.text, word.value);
  const texts = word.parts.map((part, index) => {
    const { choices } = pieceOf(part, { lookup, isFirst: index === 0 });
    return choices.length === 1 ? (choices[0] ?? "") : UNKNOWN;
  });
  return limitedText(texts.join("")).replaceAll(FIELD, " ");
}

interface Piece {
  /** One text, or those of a brace expansion. */
  readonly choices: readonly string[];
  /** Whether blanks in it end the field. */
  readonly splits: boolean;
}

interface PieceContext {
  readonly lookup: VariableLookup;
  readonly isFirst: boolean;
}

function pieceOf(part: WordPart, { lookup, isFirst }: PieceContext): Piece {
  const whole = (text: string): Piece => ({ choices: [text], splits: false });
  switch (part.type) {
    case "Literal":
      return whole(isFirst ? withHome(part.text, part.value) : part.value);
    case "SingleQuoted":
      return whole(part.value);
    case "AnsiCQuoted":
      return whole(unforged(part.value));
    case "DoubleQuoted":
    case "LocaleString":
      return whole(part.parts.map((inner) => expansionOf(inner, lookup)).join(""));
    case "Glob":
      return whole(part.text);
    case "ExtendedGlob":
      return whole(CLIMBS.test(part.pattern) ? UNKNOWN : "*");
    case "BraceExpansion":
      return { choices: bracesOf(part.text), splits: false };
    case "ProcessSubstitution":
      return whole(`/dev/fd/${UNKNOWN}`);
    default:
      return { choices: [expansionOf(part, lookup)], splits: true };
  }
}

function expansionOf(part: DoubleQuotedChild, lookup: VariableLookup): string {
  switch (part.type) {
    case "Literal":
      return part.value;
    case "SimpleExpansion":
      return lookup(part.text.slice(1));
    case "ParameterExpansion":
      return parameterOf(part, lookup);
    case "CommandExpansion":
      return NEW_FILE.test(part.text) ? `/tmp/${INSIDE}` : UNKNOWN;
    default:
      return UNKNOWN;
  }
}

/** A file or folder that is made for the script, where such things lie. */
export const NEW_FILE = /^"?\$\(mktemp(?: -d)?\)"?$/;

function parameterOf({ parameter, prefix, index, operation }: ParameterExpansionPart, lookup: VariableLookup): string {
  if (prefix !== undefined || index !== undefined) return UNKNOWN;
  const value = lookup(parameter);
  if (operation === undefined) return value;
  // Without its ending it lies where it lay, under another name.
  if (operation.type === "Remove" && operation.operator === "%" && value === INSIDE) {
    const ending = textOf(operation.operand, NOTHING_KNOWN);
    return /^\.[A-Za-z0-9.]{1,16}$/.test(ending) ? INSIDE : UNKNOWN;
  }
  if (operation.type !== "Default" || value === UNKNOWN) return UNKNOWN;
  const operand = () => textOf(operation.operand, lookup);
  switch (operation.operator) {
    case "-":
    case ":-":
    case "=":
    case ":=":
      return value === "" ? operand() : value;
    case "+":
    case ":+":
      return value === "" ? "" : operand();
    default:
      // `?` ends the script where there is nothing.
      return value === "" ? UNKNOWN : value;
  }
}

/** Joins the pieces; blanks of an unquoted expansion end a field, as the shell does it. */
function splitFields(pieces: readonly Piece[]): readonly string[] {
  let open = [""];
  let done: readonly string[] = [];
  for (const { choices, splits } of pieces) {
    const [only = ""] = choices;
    if (only.includes(FIELD) || (splits && /\s/.test(only))) {
      const [first = "", ...rest] = limited(only.split(splits ? /[\s\u0003]+/ : FIELD));
      const closed = open.map((before) => before + first);
      open = [rest.pop() ?? ""];
      done = limited([...done, ...closed, ...rest].filter((field) => field !== ""));
    } else {
      open = [...limited(open.flatMap((before) => choices.map((choice) => limitedText(before + choice))))];
    }
  }
  return done.length === 0 ? open : [...done, ...open.filter((field) => field !== "")];
}

/** `{a,b}` to its choices; sequences, nesting and whatever needs a shell to be read are unknown. */
function bracesOf(text: string): readonly string[] {
  const inner = text.slice(1, -1);
  if (!inner.includes(",") || /["'`$\\{}]/.test(inner)) return [UNKNOWN];
  return limited(inner.split(","));
}

/** A tilde counts only where it was not quoted. */
function withHome(text: string, value: string): string {
  return text.startsWith("~") && (value === "~" || value.startsWith("~/")) ? HOME + value.slice(1) : value;
}

/** `$'\x01'` must not be taken for one of our own signs. */
function unforged(value: string): string {
  return value.replace(/[\0-\x08\x0b-\x1f]/g, UNKNOWN);
}
