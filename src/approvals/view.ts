import { forEachChild, parse, type SyntaxNode } from "unbash";
import { canonicalJson, NotJsonError, sha256Hex } from "../core/digest.ts";
import { visible } from "../core/terminal-text.ts";
import type { ExecutionPlan, Json, Tool } from "../core/types.ts";
import type { Requester } from "./identities.ts";
import { shellCommandOf } from "./risk.ts";
import type { Risk } from "./types.ts";

const REASON_CHARACTERS_MAX = 500;
/** A longer text is shown in part, and says so, with its length and hash. */
const TEXT_CHARACTERS_MAX = 16_384;
const SHOWN_OF_LONG_TEXT = 4_096;
const DEPTH_MAX = 64;
/** More than this nobody reads; `ask` takes no more. */
const VIEW_LIMITS = { depthMax: DEPTH_MAX + 4, nodesMax: 200_000, bytesMax: 1_048_576 } as const;
/** A longer value is no secret for its name alone: those of its shapes are found in it all the same. */
const NAMED_SECRET_CHARACTERS_MAX = 4_096;
/** A longer key names nothing: it would be read once for each text of its value. */
const NAME_CHARACTERS_MAX = 256;
const REDACTED = "[REDACTED]";

export interface ViewFacts extends SecretsOf {
  readonly tool: Tool;
  readonly plan: ExecutionPlan;
  readonly planDigest: string;
  /** The parsed arguments. */
  readonly input: unknown;
  readonly requester: Requester;
  /** What the agent says it wants. Shown as its word, and believed by nobody. */
  readonly reason: string | undefined;
  readonly risk: Risk;
  readonly rules: readonly string[];
  /** The service's own remarks on the call. */
  readonly notes: readonly string[];
  /** Whether a member's name alone says that its value is a secret; the value tells a secret from a count. */
  readonly namesSecret: (name: string, value: unknown) => boolean;
}

interface RenderedView {
  readonly view: Json;
  readonly viewDigest: string;
  /** One line without arguments. */
  readonly summary: string;
}

/** What of a plan is named in the view; everything else of it stands under `target`. */
const NAMED = { argv: "command", cwd: "workingDir", environment: "environment", files: "files", message: "message" };

/**
 * What a decider is shown: made from the plan that will run, not from what anybody says about it. Every text is free of secrets
 * and of characters that a person cannot see. Undefined: there is more in it than a person can be shown.
 */
export function renderView(facts: ViewFacts): RenderedView | undefined {
  const { tool, planDigest, risk } = facts;
  const view = viewOf(facts);
  try {
    const viewDigest = sha256Hex(canonicalJson({ t: "stc/view/v1", planDigest, view }, VIEW_LIMITS));
    const summary = `${tool.name} on ${tool.target.system} (${tool.classification}, ${risk} risk)`;
    return { view, viewDigest, summary };
  } catch (error) {
    if (error instanceof NotJsonError && error.reason === "size") return undefined;
    throw error;
  }
}

function viewOf({ filterSecrets, findSecrets, namesSecret, ...facts }: ViewFacts): Json {
  const { tool, plan, requester, reason, input } = facts;
  const showing = { filterSecrets, findSecrets, namesSecret, script: shellCommandOf(plan), depth: 0 };
  const show = (value: unknown): Json => shown(value, showing);
  const { argv, command, ...rest } = plan;
  // A function's plan is its arguments, which are shown once.
  const members = Object.entries(rest).filter(
    ([key]) => key !== "kind" && !(plan.kind === "inline" && key === "input"),
  );
  const own = members.filter(([key]) => Object.hasOwn(NAMED, key));
  const target = members.filter(([key]) => !Object.hasOwn(NAMED, key));
  return {
    tool: tool.name,
    description: show(tool.description),
    ...(tool.approval.message !== undefined && { toolMessage: show(tool.approval.message) }),
    classification: tool.classification,
    category: tool.category,
    risk: facts.risk,
    rules: show(facts.rules),
    notes: show(facts.notes),
    target: { system: tool.target.system, kind: plan.kind, ...(show(Object.fromEntries(target)) as object) },
    ...(Array.isArray(argv) && { command: shownCommand([command, ...argv], showing) }),
    ...Object.fromEntries(own.map(([key, value]) => [NAMED[key as keyof typeof NAMED], show(value)])),
    arguments: show(input),
    requester: {
      issuer: show(requester.issuer),
      subject: show(requester.subject),
      actors: show(requester.actors),
      ...(requester.session !== undefined && { session: show(requester.session) }),
    },
    ...(reason !== undefined && {
      reason: { untrusted: true, text: show(filterSecrets(reason).slice(0, REASON_CHARACTERS_MAX)) },
    }),
    confinement: plan.kind === "cli" ? levelOf(plan["confinement"]) : "not applicable",
  };
}

/** In one word; what it lets through stands under `target`. */
function levelOf(confinement: Json | undefined): Json {
  const isTable = typeof confinement === "object" && confinement !== null && "level" in confinement;
  return isTable ? visible(String(confinement["level"])) : "none";
}

interface Showing extends SecretsOf, Pick<ViewFacts, "namesSecret"> {
  readonly depth: number;
  /** The shell's command, wherever it stands. */
  readonly script: string | undefined;
  /** Of the member that the value stands in. */
  readonly name?: string | undefined;
}

/** Plans are JSON by now; a schema may have made something else of the arguments. */
function shown(value: unknown, showing: Showing): Json {
  if (typeof value === "string") return shownText(value, showing);
  if (value === null || typeof value === "boolean" || typeof value === "number") return value;
  if (typeof value === "bigint") return value.toString();
  if (typeof value !== "object" || showing.depth > DEPTH_MAX) return "(not shown)";
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "(no date)" : value.toISOString();
  if (value instanceof Map || value instanceof Set) return shown([...value], showing);
  if (value instanceof Uint8Array) return shown(Buffer.from(value).toString("base64"), showing);
  const inside = { ...showing, depth: showing.depth + 1 };
  if (Array.isArray(value)) return value.map((item) => shown(item, inside));
  const members = new Map<string, Json>();
  for (const [key, inner] of Object.entries(value)) {
    if (inner === undefined) continue;
    let label = visible(showing.filterSecrets(key));
    // Two keys that are secrets read alike: neither may hide the other's value.
    if (members.has(label)) label = `${label} (member ${members.size + 1})`;
    while (members.has(label)) label += "'";
    members.set(
      label,
      showing.namesSecret(key, inner) ? hidden(inner, inside) : shown(inner, { ...inside, name: key }),
    );
  }
  return Object.fromEntries(members);
}

/** What the name says is a secret: a text, a number, bytes, or a list of them. What has members is looked through. */
function hidden(value: unknown, showing: Showing): Json {
  if (Array.isArray(value) || value instanceof Set) return [...value].map((item) => hidden(item, showing));
  const isText = typeof value === "string" || typeof value === "number" || typeof value === "bigint";
  return (isText && value !== "") || value instanceof Uint8Array ? REDACTED : shown(value, showing);
}

/** Each word by itself; what follows an option is its value. */
function shownCommand(words: readonly unknown[], showing: Showing): Json {
  return words.map((word, index) => {
    const before = words[index - 1];
    const name = typeof before === "string" && before.startsWith("-") ? before.replace(/^--?/, "") : undefined;
    return shown(word, { ...showing, name });
  });
}

/** Nothing is left out in silence. */
function shownText(text: string, showing: Showing): Json {
  const filtered = text === showing.script ? shownScript(text, showing) : withoutSecrets(text, showing);
  if (filtered.length <= TEXT_CHARACTERS_MAX) return visible(filtered);
  return {
    shortened: true,
    characters: text.length,
    sha256: sha256Hex(text),
    begins: visible(filtered.slice(0, SHOWN_OF_LONG_TEXT)),
    ends: visible(filtered.slice(-SHOWN_OF_LONG_TEXT)),
  };
}

/** What a secret's name stands beside is one, though it has no shape of its own. */
function withoutSecrets(text: string, { name, ...secretsOf }: Showing): string {
  const { filterSecrets } = secretsOf;
  const filtered = shownLines(text, secretsOf);
  if (name === undefined || name.length > NAME_CHARACTERS_MAX) return filtered;
  if (filtered !== text || text.length > NAMED_SECRET_CHARACTERS_MAX) return filtered;
  const line = JSON.stringify({ [name]: text });
  return filterSecrets(line) === line || filterSecrets(name) !== name ? text : REDACTED;
}

/** Texts inside texts that the shell might be handed as scripts. */
const LEVELS_MAX = 6;
/** UTF-16 units of a script that is parsed; what is longer is cut at every operator. */
const PARSED_CHARACTERS_MAX = 65_536;
/** Nested deeper, a script is cut at every operator: the parser reads what stands inside anew at each depth. */
const STATEMENTS_DEPTH_MAX = 64;
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

/** Offsets, `end` exclusive. */
interface Stretch {
  readonly start: number;
  readonly end: number;
}

interface SecretsOf {
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
function shownLines(text: string, secretsOf: SecretsOf): string {
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
    if (depth > STATEMENTS_DEPTH_MAX) {
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
