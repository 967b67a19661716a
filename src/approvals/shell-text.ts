import { forEachChild, parse, type SyntaxNode } from "unbash";

/** Texts inside texts that the shell might be handed as scripts. */
const LEVELS_MAX = 6;
/** UTF-16 units of a script that is parsed; what is longer is cut at every operator. */
const PARSED_CHARACTERS_MAX = 65_536;
/** Nested deeper, a script is cut at every operator: the parser reads what stands inside anew at each depth. */
const DEPTH_MAX = 64;
/** What has the form of a key's line, which a shell would start only if somebody had named a program so. */
const KEY_LINE = /^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[A-Za-z0-9+/=]+$/;
/** Of a line that may be anything, and of one that surely is a command. UTF-16 units. */
const KEY_LINE_CHARACTERS_MIN = 24;
const STARTED_KEY_LINE_CHARACTERS_MIN = 60;
const OPERATOR = /[;&|<>()`\n]/g;
/** Means itself here, and more to whatever reads the text again: `eval`, another shell. */
const ESCAPED_OPERATOR = /\\[;&|<>()`$\n]/g;
const LINE_END = /[\n\r]/g;
/** What they are given are assignments. */
const DECLARING = ["export", "readonly", "local", "declare", "typeset"];
const REDACTED = "[REDACTED]";

/** Offsets, `end` exclusive. */
interface Stretch {
  readonly start: number;
  readonly end: number;
}

export interface SecretsOf {
  /** Where secrets stand, in order, without overlaps. */
  readonly findSecrets: (text: string) => readonly Stretch[];
  readonly filterSecrets: (text: string) => string;
}

/**
 * A shell's command without its secrets, and with everything that the shell would start: what looks like the rest of a secret is
 * none when it is another command, a substitution or a redirection, however close it stands.
 */
export function shownScript(text: string, secretsOf: SecretsOf): string {
  const scripts = new Scripts(text);
  return shownSecrets(text, secretsOf, (secret) => scripts.cutsIn(secret));
}

/** Any other text without its secrets: of what begins like a key and goes on over several lines, those that are none stand there. */
export function shownLines(text: string, secretsOf: SecretsOf): string {
  return shownSecrets(
    text,
    secretsOf,
    ({ start, end }) =>
      new Map([...text.slice(start, end).matchAll(LINE_END)].map(({ index }) => [start + index, false])),
  );
}

/** Where a secret is over, and whether what stands there surely is started. */
type Cuts = (secret: Stretch) => ReadonlyMap<number, boolean>;

function shownSecrets(text: string, { findSecrets, filterSecrets }: SecretsOf, cutsIn: Cuts): string {
  let shown = "";
  let at = 0;
  for (const secret of findSecrets(text)) {
    const { start, end } = secret;
    const cuts = [...cutsIn(secret)].sort(([a], [b]) => a - b);
    const parts = cuts.map(([cut, isStarted], index) =>
      shownPart(text.slice(cut, cuts[index + 1]?.[0] ?? end), isStarted, filterSecrets),
    );
    shown += text.slice(at, start) + (start === cuts[0]?.[0] ? "" : REDACTED) + parts.join("");
    at = end;
  }
  return shown + text.slice(at);
}

function shownPart(part: string, isStarted: boolean, filterSecrets: SecretsOf["filterSecrets"]): string {
  const line = part.trim();
  const isLong = line.length >= (isStarted ? STARTED_KEY_LINE_CHARACTERS_MIN : KEY_LINE_CHARACTERS_MIN);
  return isLong && KEY_LINE.test(line) ? part.replace(line, REDACTED) : filterSecrets(part);
}

/** A script and the texts inside it that may be scripts; each is read once, when a secret stands in it. */
class Scripts {
  readonly #text: string;
  readonly #read = new Map<string, Script>();

  constructor(text: string) {
    this.#text = text;
  }

  /** Where a secret that begins here is over, whatever it looks like. */
  cutsIn({ start, end }: Stretch): ReadonlyMap<number, boolean> {
    const cuts = new Map<number, boolean>();
    let whole: Stretch | undefined = { start: 0, end: this.#text.length };
    for (let level = 0; whole !== undefined && level < LEVELS_MAX; level += 1) {
      const from: number = whole.start;
      const script = this.#scriptIn(whole, level === 0);
      // What a text in quotes begins with may be a value: its first part is hidden.
      const first = level === 0 ? start : Math.max(start, from + 1);
      for (const cut of between(script.words, start + 1 - from, end - from)) cuts.set(from + cut, false);
      for (const cut of between(script.starts, first - from, end - from))
        cuts.set(from + cut, level === 0 || cuts.get(from + cut) === true);
      const inside: Stretch | undefined = script.texts.find(
        (text) => from + text.start <= start && start < from + text.end,
      );
      whole = inside && { start: from + inside.start, end: from + inside.end };
    }
    return cuts;
  }

  #scriptIn({ start, end }: Stretch, isOutermost: boolean): Script {
    const name = `${isOutermost} ${start} ${end}`;
    const script = this.#read.get(name) ?? new Script(this.#text.slice(start, end), isOutermost);
    this.#read.set(name, script);
    return script;
  }
}

/** Of offsets in their order. */
function between(offsets: readonly number[], from: number, to: number): readonly number[] {
  let low = 0;
  let high = offsets.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((offsets[middle] ?? 0) < from) low = middle + 1;
    else high = middle;
  }
  let end = low;
  while ((offsets[end] ?? to) < to) end += 1;
  return offsets.slice(low, end);
}

/** A text as the shell would read it. What it cannot read is cut at every operator. */
class Script {
  /** Where something is started, or read or written, and where it is over. */
  readonly starts: number[] = [];
  /** Where words begin and end. */
  readonly words: number[] = [];
  /** What stands in quotes, and here-documents: perhaps scripts. */
  readonly texts: Stretch[] = [];
  /** In a text that may be no script at all, blanks separate nothing. */
  readonly #isOutermost: boolean;
  readonly #text: string;

  constructor(text: string, isOutermost: boolean) {
    this.#text = text;
    this.#isOutermost = isOutermost;
    try {
      const tree = text.length > PARSED_CHARACTERS_MAX ? undefined : parse(text);
      if (tree !== undefined) this.#visit(tree, false);
      if (tree === undefined || (tree.errors?.length ?? 0) > 0) this.#cutAt(OPERATOR, text);
    } catch (error) {
      // The parser's own faults and an exhausted stack.
      if (!(error instanceof Error)) throw error;
      this.#cutAt(OPERATOR, text);
    }
    this.starts.sort((a, b) => a - b);
    this.words.sort((a, b) => a - b);
  }

  /** `isValue`: of a variable, which nothing runs where it is given. */
  #visit(node: SyntaxNode, isValue: boolean, depth = 0): void {
    if (depth > DEPTH_MAX) {
      this.#cutAt(OPERATOR, this.#text.slice(node.pos, node.end), node.pos);
      return;
    }
    this.#note(node, isValue);
    const declares = node.type === "Command" && DECLARING.includes(node.name?.value ?? "");
    forEachChild(node, (child) => {
      const startsAnew = child.type === "CommandExpansion" || child.type === "ProcessSubstitution";
      this.#visit(child, !startsAnew && (isValue || declares || child.type === "Assignment"), depth + 1);
    });
  }

  #note(node: SyntaxNode, isValue: boolean): void {
    switch (node.type) {
      case "Command":
        this.starts.push(node.pos, node.end, ...(node.name === undefined ? [] : [node.name.pos]));
        break;
      case "CommandExpansion":
      case "ProcessSubstitution":
      case "ArithmeticCommandExpansion":
      case "ArithmeticExpansion":
      case "ParameterExpansion":
      case "Redirect":
      case "HereString":
      case "HereDoc":
      case "Function":
        this.starts.push(node.pos, node.end);
        break;
      case "Word":
        // A value keeps its name: without it nothing says what it is.
        if (isValue) break;
        if (this.#isOutermost) this.words.push(node.pos, node.end);
        this.#cutAt(ESCAPED_OPERATOR, node.text, node.pos);
        break;
      default:
        if (!isValue) this.texts.push(...textOf(node));
    }
  }

  #cutAt(pattern: RegExp, text: string, offset = 0): void {
    for (const { index } of text.matchAll(pattern)) this.starts.push(offset + index);
  }
}

function textOf(node: SyntaxNode): readonly Stretch[] {
  switch (node.type) {
    case "SingleQuoted":
    case "DoubleQuoted":
      return [{ start: node.pos + 1, end: node.end - 1 }];
    case "AnsiCQuoted":
    case "LocaleString":
      return [{ start: node.pos + 2, end: node.end - 1 }];
    case "HereDocBody":
      return [{ start: node.pos, end: node.end }];
    default:
      return [];
  }
}
