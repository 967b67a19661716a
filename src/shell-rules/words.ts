import type {
  Assignment,
  Command,
  DoubleQuotedChild,
  ParameterExpansionPart,
  Redirection,
  Word,
  WordPart,
} from "unbash";

/** Marks a value in an evaluated word that is not known before the script runs. A script cannot contain it. */
export const UNKNOWN = "\0";
/** Marks the home directory in an evaluated word: an unquoted `~` and `$HOME`, but not a file named `~`. */
export const HOME = "\u0001";
/** Marks any path below the working directory, such as a file that `find` finds. */
export const INSIDE = "\u0002";

const FIELDS_MAX = 64;
const FIELD_CHARACTERS_MAX = 16_384;
/** Matches an alternative of a pattern that can mean `..`. */
const MAY_BE_PARENT = /(?:^|[|(])[.?*@+()]{0,64}\.[.?*@+()]{0,64}(?:$|[|)])/;
/** Matches a substitution that creates a temporary file or folder. */
const NEW_FILE = /^"?\$\(mktemp(?: -d)?\)"?$/;

export type VariableLookup = (name: string) => string;

/** Returns whether a word contains no expansion, glob or brace. */
export function isLiteral({ parts }: Word): boolean {
  return parts === undefined || parts.every(isLiteralPart);
}

function isLiteralPart(part: WordPart): boolean {
  if (part.type === "DoubleQuoted" || part.type === "LocaleString")
    return part.parts.every(({ type }) => type === "Literal");
  return part.type === "Literal" || part.type === "SingleQuoted" || part.type === "AnsiCQuoted";
}

/** Returns the fields of a word: one, unless `$IFS` or a brace produces several. */
export function fieldsOf(word: Word, lookup: VariableLookup): readonly string[] {
  if (word.parts === undefined) return [withHome(word.text, word.value)];
  let open: readonly string[] = [""];
  const done: string[] = [];
  for (const [index, part] of word.parts.entries()) {
    const choices = choicesOf(part, lookup, index === 0);
    if (isUnquotedExpansion(part) && choices[0] === " ") {
      done.push(...open);
      open = [""];
    } else open = limited(open.flatMap((before) => choices.map((choice) => limitedText(before + choice))));
  }
  const fields = [...done, ...open];
  return limited(done.length === 0 ? fields : fields.filter((field) => field !== ""));
}

/** Returns a word as one text, as an assignment or a redirection uses it. */
export function textOf(word: Word, lookup: VariableLookup): string {
  if (word.parts === undefined) return withHome(word.text, word.value);
  const texts = word.parts.map((part, index) => {
    const choices = choicesOf(part, lookup, index === 0);
    return choices.length === 1 ? (choices[0] ?? "") : UNKNOWN;
  });
  return limitedText(texts.join(""));
}

/** Returns the fields of an argument. An assignment stays one field, `NAME=value` or `NAME[]=value`. */
export function argumentFields(part: Word | Assignment, lookup: VariableLookup): readonly string[] {
  if (part.type === "Word") return fieldsOf(part, lookup);
  const index = part.index === undefined ? "" : "[]";
  return [`${part.name}${index}=${part.value.type === "Word" ? textOf(part.value, lookup) : UNKNOWN}`];
}

function isUnquotedExpansion({ type }: WordPart): boolean {
  return /^(?:SimpleExpansion|ParameterExpansion|CommandExpansion|ArithmeticExpansion)$/.test(type);
}

function limited(fields: readonly string[]): readonly string[] {
  return fields.length > FIELDS_MAX ? [...fields.slice(0, FIELDS_MAX - 1), UNKNOWN] : fields;
}

function limitedText(text: string): string {
  return text.length > FIELD_CHARACTERS_MAX ? UNKNOWN : text;
}

/** Returns the text of a part, or the alternatives of a brace expansion. */
function choicesOf(part: WordPart, lookup: VariableLookup, isFirst: boolean): readonly string[] {
  switch (part.type) {
    case "Literal":
      return [isFirst ? withHome(part.text, part.value) : part.value];
    case "SingleQuoted":
      return [part.value];
    case "AnsiCQuoted":
      // `$'\x01'` must not be read as one of our own marks.
      return [part.value.replace(/[\0-\x08\x0b-\x1f]/g, UNKNOWN)];
    case "DoubleQuoted":
    case "LocaleString":
      return [part.parts.map((inner) => expansionOf(inner, lookup)).join("")];
    case "Glob":
      return [part.text];
    case "ExtendedGlob":
      return [MAY_BE_PARENT.test(part.pattern) ? UNKNOWN : "*"];
    case "BraceExpansion": {
      const inner = part.text.slice(1, -1);
      return !inner.includes(",") || /["'`$\\{}]/.test(inner) ? [UNKNOWN] : limited(inner.split(","));
    }
    case "ProcessSubstitution":
      return [`/dev/fd/${UNKNOWN}`];
    default:
      return [expansionOf(part, lookup)];
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

function parameterOf({ parameter, prefix, index, operation }: ParameterExpansionPart, lookup: VariableLookup): string {
  if (prefix !== undefined || index !== undefined) return UNKNOWN;
  return operation === undefined || operation.type === "Default" ? lookup(parameter) : UNKNOWN;
}

/** An unquoted tilde is the home directory. */
function withHome(text: string, value: string): string {
  return text.startsWith("~") && (value === "~" || value.startsWith("~/")) ? HOME + value.slice(1) : value;
}

export interface Opened {
  readonly path: string;
  readonly writes: boolean;
}

/** Files that redirections open, and the literal texts that come in through them. */
export interface Redirected {
  readonly opened: readonly Opened[];
  readonly input: readonly string[];
  /** False when a redirection has no target. */
  readonly isComplete: boolean;
}

export function redirectedBy(redirects: readonly Redirection[], lookup: VariableLookup): Redirected {
  const opened: Opened[] = [];
  const input: string[] = [];
  let isComplete = true;
  for (const redirect of redirects) {
    if (redirect.type === "HereDoc") input.push(redirect.body.text);
    else if (redirect.target === undefined) isComplete = false;
    else if (redirect.type === "HereString") input.push(textOf(redirect.target, lookup));
    // `2>&1` and `<&-` open no file.
    else if (!/^[<>]&$/.test(redirect.operator) || !/^(?:[0-9]+-?|-)$/.test(redirect.target.value))
      opened.push({ path: textOf(redirect.target, lookup), writes: !/^<&?$/.test(redirect.operator) });
  }
  return { opened, input, isComplete };
}

export function isInput(redirect: Redirection): boolean {
  return redirect.type !== "Redirect" || redirect.operator.startsWith("<");
}

/** Returns the texts that `echo`, `printf` or a bare `cat` passes to the next program of a pipeline, when they are known. */
export function printedBy({ name, suffix, redirects }: Command, lookup: VariableLookup): readonly string[] {
  const program = name?.value;
  if (program === "cat" && suffix.every((part) => part.type !== "Word")) return redirectedBy(redirects, lookup).input;
  if ((program !== "echo" && program !== "printf") || redirects.some((redirect) => !isInput(redirect))) return [];
  const words = suffix
    .flatMap((part) => (part.type === "Word" || part.type === "Assignment" ? argumentFields(part, lookup) : []))
    .filter((word) => !/^-[neE]+$/.test(word));
  return [words.join(" ").replaceAll("\\n", "\n"), ...words];
}
