import {
  type Assignment,
  type Command,
  forEachChild,
  type ParameterExpansionPart,
  parse,
  type SyntaxNode,
  type Word,
} from "unbash";
import type { ApprovalView } from "../core/approval-view.ts";
import { canonicalJson, NotJsonError, sha256Hex } from "../core/digest.ts";
import { membersHeadline, questionHeadline } from "../core/headline.ts";
import { shellScriptOf } from "../core/shell-script.ts";
import { visible } from "../core/terminal-text.ts";
import type { Binding, ExecutionPlan, Json, ShownPlan, Tool } from "../core/types.ts";
import { SHELL_RULES, type ShellJudgement } from "../shell-rules/shell-rules.ts";
import type { Requester } from "./identities.ts";
import type { Risk } from "./types.ts";

const REASON_CHARACTERS_MAX = 500;
/** A longer text is shown in part and marked as shortened, with its length and hash. */
const TEXT_CHARACTERS_MAX = 16_384;
const SHOWN_OF_LONG_TEXT = 4_096;
const DEPTH_MAX = 64;
/** A larger view is not shown: nobody would read it, and `ask` would reject it. */
const VIEW_LIMITS = { depthMax: DEPTH_MAX + 4, nodesMax: 200_000, bytesMax: 1_048_576 } as const;
/** A longer value is not hidden because of its name alone; secrets with a known shape are still found in it. */
const NAMED_SECRET_CHARACTERS_MAX = 4_096;
/** A longer member name is not checked for a secret's name: it would be scanned again for each text in its value. */
const NAME_CHARACTERS_MAX = 256;
const REDACTED = "[REDACTED]";

export interface ViewFacts extends SecretsOf {
  readonly tool: Tool;
  readonly plan: ExecutionPlan;
  readonly planDigest: string;
  readonly binding: Binding;
  readonly input: unknown;
  readonly requester: Requester;
  /** Purpose that the agent states. Shown as untrusted text. */
  readonly reason: string | undefined;
  readonly risk: Risk;
  readonly rules: readonly string[];
  readonly notes: readonly string[];
  /** Returns the members that come from elsewhere: `grant` and `dataFlow`, which `pipeline/approval/view.ts` fills. */
  readonly others?: (show: Show) => ApprovalView;
  /** Returns whether a member's name marks its value as a secret; the value distinguishes a secret from a count. */
  readonly namesSecret: (name: string, value: unknown) => boolean;
}

/** Converts a value to JSON without its secrets. */
export type Show = (value: unknown) => Json;

export interface RenderedView {
  readonly view: ApprovalView;
  readonly viewDigest: string;
  readonly summary: string;
}

/** Maps members of a plan to members of the view; the view shows all other members under `target`. */
const NAMED = {
  argv: "command",
  cwd: "workingDir",
  environment: "environment",
  files: "files",
  message: "message",
} as const satisfies Readonly<Record<string, keyof ApprovalView>>;

/**
 * Renders what the approver sees. Uses the plan that will run, not anybody's description of it. Removes secrets and invisible
 * characters from every text. Returns undefined when the view is too large to show to a person.
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

function viewOf({ filterSecrets, findSecrets, namesSecret, ...facts }: ViewFacts): ApprovalView {
  const { tool, plan, binding, requester, reason, input } = facts;
  const showing = { filterSecrets, findSecrets, namesSecret, script: shellScriptOf(plan["argv"]), depth: 0 };
  const show: Show = (value) => shown(value, showing);
  const { argv, command, ...rest } = plan;
  const described = binding.describe?.(plan) ?? {};
  // The arguments are shown under `arguments`, even where they are the plan.
  const members = Object.entries(rest).filter(
    ([key]) => key !== "kind" && !(binding.planIsInput === true && key === "input"),
  );
  const own = members.filter(([key]) => Object.hasOwn(NAMED, key)).map(([key, value]) => [key, show(value)] as const);
  const target = show(Object.fromEntries(members.filter(([key]) => !Object.hasOwn(NAMED, key)))) as ShownPlan;
  const words = Array.isArray(argv) ? shownCommand([command, ...argv], showing) : undefined;
  const given = show(input);
  // From what is shown, so that no secret is in it, nor the half of one that would not be recognized.
  const headline =
    binding.headline?.({ ...target, ...Object.fromEntries(own), ...(words !== undefined && { argv: words }) }) ??
    (tool.approval.answer === undefined ? undefined : questionHeadline(given)) ??
    membersHeadline(given);
  return {
    tool: tool.name,
    description: show(tool.description),
    ...(tool.approval.message !== undefined && { toolMessage: show(tool.approval.message) }),
    classification: tool.classification,
    category: tool.category,
    risk: facts.risk,
    rules: show(facts.rules),
    notes: show([...facts.notes, ...(described.notes ?? [])]),
    headline: { ...headline },
    target: { system: tool.target.system, kind: plan.kind, ...target },
    ...(words !== undefined && { command: words }),
    ...Object.fromEntries(own.map(([key, value]) => [NAMED[key as keyof typeof NAMED], value])),
    arguments: given,
    ...facts.others?.(show),
    requester: {
      issuer: show(requester.issuer),
      subject: show(requester.subject),
      actors: show(requester.actors),
      ...(requester.session !== undefined && { session: show(requester.session) }),
    },
    ...(reason !== undefined && {
      reason: { untrusted: true, text: show(filterSecrets(reason).slice(0, REASON_CHARACTERS_MAX)) },
    }),
    // The level alone; its details are shown under `target`.
    confinement: visible(described.confinement ?? "not applicable"),
  };
}

interface Showing extends SecretsOf, Pick<ViewFacts, "namesSecret"> {
  readonly depth: number;
  /** Shell command of the plan, recognized wherever it appears. */
  readonly script: string | undefined;
  readonly name?: string | undefined;
}

/** Converts a value to JSON for the view. A plan is already JSON; a schema may have put other types into the arguments. */
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
    // The member `shortened` is reserved for texts that the service shortens: no argument can look like one.
    if (label === "shortened") label += "'";
    // Redacted keys may be equal: neither may hide the other's value.
    if (members.has(label)) label = `${label} (member ${members.size + 1})`;
    while (members.has(label)) label += "'";
    members.set(
      label,
      showing.namesSecret(key, inner) ? hidden(inner, inside) : shown(inner, { ...inside, name: key }),
    );
  }
  return Object.fromEntries(members);
}

/** Redacts a value whose name marks it as a secret: a text, a number, bytes, or a list of them. Searches objects further. */
function hidden(value: unknown, showing: Showing): Json {
  if (Array.isArray(value) || value instanceof Set) return [...value].map((item) => hidden(item, showing));
  const isText = typeof value === "string" || typeof value === "number" || typeof value === "bigint";
  return (isText && value !== "") || value instanceof Uint8Array ? REDACTED : shown(value, showing);
}

/** Shows each word separately, and a word after an option as the value of that option. */
function shownCommand(words: readonly unknown[], showing: Showing): Json {
  return words.map((word, index) => {
    const before = words[index - 1];
    const name = typeof before === "string" && before.startsWith("-") ? before.replace(/^--?/, "") : undefined;
    return shown(word, { ...showing, name });
  });
}

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

/** Removes secrets from a text, and redacts it when it is the value of a secret's name without looking like a secret itself. */
function withoutSecrets(text: string, { name, ...secretsOf }: Showing): string {
  const { filterSecrets } = secretsOf;
  const filtered = shownLines(text, secretsOf);
  if (name === undefined || name.length > NAME_CHARACTERS_MAX) return filtered;
  if (filtered !== text || text.length > NAMED_SECRET_CHARACTERS_MAX) return filtered;
  const line = JSON.stringify({ [name]: text });
  return filterSecrets(line) === line || filterSecrets(name) !== name ? text : REDACTED;
}

/** Maximum number of levels of nested texts that are read as possible scripts. */
const LEVELS_MAX = 6;
/** Maximum length of a script that is parsed, in UTF-16 units. A longer script is cut at every operator. */
const PARSED_CHARACTERS_MAX = 65_536;
/** Statements nested deeper are cut at every operator, because the parser parses nested text again at each level. */
const STATEMENTS_DEPTH_MAX = 64;
/** Matches a line of a key block. A shell would run such a line only if a program had that name. */
const KEY_LINE = /^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[A-Za-z0-9+/=]+$/;
/** Minimum length of a redacted key line (UTF-16 units): for any line, and for a line that the shell certainly runs. */
const KEY_LINE_CHARACTERS_MIN = 24;
const STARTED_KEY_LINE_CHARACTERS_MIN = 60;
const OPERATOR = /[;&|<>()`\n]/g;
/** Escaped operators: literal here, but operators when `eval` or another shell reads the text again. */
const ESCAPED_OPERATOR = /\\[;&|<>()`$\n]/g;
const LINE_END = /[\n\r]/g;
/** Commands whose arguments are assignments. */
const DECLARING = ["export", "readonly", "local", "declare", "typeset"];
/** Matches a text that is more than one word when a shell runs it. One word could only start a program without arguments. */
const SEVERAL_WORDS = /[\s;&|<>()`${]/;
/** Characters that split a name without changing it: `$PASS\` at the end of a line, `PASS""WORD`. */
const NAME_SPLITTERS = /\\\n|['"\\]/g;

/** A range of UTF-16 offsets; `end` is exclusive. */
interface Stretch {
  readonly start: number;
  readonly end: number;
}

/** Finds and removes secrets. */
export interface SecretsOf {
  /** Returns the ranges of secrets, in order, without overlaps. */
  readonly findSecrets: (text: string) => readonly Stretch[];
  readonly filterSecrets: (text: string) => string;
}

/**
 * Returns a shell command without its secrets, but with everything that the shell would run: text that looks like the rest of a
 * secret is kept when it is another command, a substitution or a redirection, even without a space in between.
 * Quoted text and values of variables are read as scripts whatever gets them, since any program may run them: the rest of a secret
 * after a `;` is shown. A value that is a secret because of its variable's name is hidden whole if nothing uses the variable.
 */
export function shownScript(text: string, secretsOf: SecretsOf): string {
  const scripts = new Scripts(text);
  return shownSecrets(text, secretsOf, (secret) => scripts.cutsIn(secret));
}

/** Returns any other text without its secrets. In a match over several lines, keeps the later lines that are not key lines. */
function shownLines(text: string, secretsOf: SecretsOf): string {
  return shownSecrets(
    text,
    secretsOf,
    ({ start, end }) =>
      new Map([...text.slice(start, end).matchAll(LINE_END)].map(({ index }) => [start + index, false])),
  );
}

/**
 * Returns the offsets at which a secret is split into parts that are redacted separately. The value tells whether the shell
 * certainly runs the text from that offset on.
 */
type Cuts = (secret: Stretch) => ReadonlyMap<number, boolean>;

interface Part extends Stretch {
  readonly level: number;
}

function shownSecrets(
  text: string,
  secretsOf: SecretsOf,
  cutsIn: Cuts,
  { start: from, end: to, level }: Part = { start: 0, end: text.length, level: 0 },
): string {
  let shown = "";
  let at = from;
  for (const found of secretsOf.findSecrets(text.slice(from, to))) {
    const secret = { start: from + found.start, end: from + found.end };
    const cuts = [...cutsIn(secret)].sort(([a], [b]) => a - b);
    const parts = cuts.map(([cut, isStarted], index) => {
      const end = cuts[index + 1]?.[0] ?? secret.end;
      const part = text.slice(cut, end);
      const line = part.trim();
      if (isKeyLine(line, isStarted)) return part.replace(line, REDACTED);
      // A part may contain another secret, with another command after it.
      if (level < LEVELS_MAX) return shownSecrets(text, secretsOf, cutsIn, { start: cut, end, level: level + 1 });
      return secretsOf.filterSecrets(part);
    });
    shown += text.slice(at, secret.start) + (secret.start === cuts[0]?.[0] ? "" : REDACTED) + parts.join("");
    at = secret.end;
  }
  return shown + text.slice(at, to);
}

function isKeyLine(line: string, isStarted: boolean): boolean {
  return line.length >= (isStarted ? STARTED_KEY_LINE_CHARACTERS_MIN : KEY_LINE_CHARACTERS_MIN) && KEY_LINE.test(line);
}

/** A script and the nested texts that may be scripts. Each is parsed once, when a secret is found in it. */
class Scripts {
  readonly #text: string;
  readonly #read = new Map<string, Script>();
  readonly #uses: VariableUses;

  constructor(text: string) {
    this.#text = text;
    this.#uses = new VariableUses(text);
  }

  /** Returns the offsets at which the secret in this range is split; see `Cuts`. */
  cutsIn({ start, end }: Stretch): ReadonlyMap<number, boolean> {
    const cuts = new Map<number, boolean>();
    let whole: Stretch | undefined = { start: 0, end: this.#text.length };
    for (let level = 0; whole !== undefined && level < LEVELS_MAX; level += 1) {
      const from: number = whole.start;
      const script = this.#scriptIn(whole, level === 0);
      // A nested text may start with the secret itself, not with a command: do not split at its start.
      const first = level === 0 ? start : Math.max(start, from + 1);
      for (const cut of between(script.words, start + 1 - from, end - from)) cuts.set(from + cut, false);
      for (const cut of between(script.starts, first - from, end - from))
        cuts.set(from + cut, level === 0 || cuts.get(from + cut) === true);
      const use = script.useOf(start - from, this.#uses);
      if (use === "none") break;
      if (use === "run") cuts.set(start, false);
      for (const cut of between(script.escapes, start - from, end - from)) cuts.set(from + cut, false);
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

/** Returns the offsets from `from` (inclusive) to `to` (exclusive); `offsets` is sorted. */
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

/** The use that a script may make of a variable's value: none, giving it to a program as text, or running it. */
type VariableUse = "none" | "given" | "run";

/** The use that a script makes of its variables. A script that runs code that its text does not show may use variables without naming them. */
class VariableUses {
  readonly #script: string;
  readonly #joined: string;
  readonly #uses = new Map<string, VariableUse>();
  #judgement: ShellJudgement | undefined;

  constructor(script: string) {
    this.#script = script;
    this.#joined = script.replace(NAME_SPLITTERS, "");
  }

  /** Returns what happens to the value of a variable; without a name, to an argument. */
  of(name = ""): VariableUse {
    const use = this.#uses.get(name) ?? this.#read(name);
    this.#uses.set(name, use);
    return use;
  }

  /** Returns whether a word of the script is the name of a program that the script starts. */
  isProgram(word: string): boolean {
    return this.#judged().script.calls.some(({ spelled }) => spelled === word);
  }

  #read(name: string): VariableUse {
    const { script, rules } = this.#judged();
    if (script.unclear.size > 0) return "run";
    const isNamed = name !== "" && this.#joined.split(name).length > 2;
    if (isNamed && rules.some(({ runs }) => runs !== undefined)) return "run";
    return name === "" || isNamed || rules.some(({ runs }) => runs === "input") ? "given" : "none";
  }

  #judged(): ShellJudgement {
    this.#judgement ??= SHELL_RULES.judge(this.#script, { cwd: undefined, home: undefined });
    return this.#judgement;
  }
}

/** A text that the script gives to a variable, an alias or a program. */
interface Value {
  readonly text: string;
  readonly variable?: string;
  readonly isAlias?: boolean;
}

/** A text parsed as a shell script. A text that cannot be parsed is cut at every operator. */
class Script {
  /** Start and end offsets of commands, expansions, redirections and functions. */
  readonly starts: number[] = [];
  readonly words: number[] = [];
  /** Offsets of escaped operators. */
  readonly escapes: number[] = [];
  /** Values by the offsets at which they start. */
  readonly #values = new Map<number, Value>();
  /** Quoted texts and here-documents, which may be scripts. */
  readonly texts: Stretch[] = [];
  /** False for nested texts: they may not be scripts, so whitespace in them may not separate words. */
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
      // The parser failed or exhausted the stack.
      if (!(error instanceof Error)) throw error;
      this.#cutAt(OPERATOR, text);
    }
    this.starts.sort((a, b) => a - b);
    this.words.sort((a, b) => a - b);
    this.escapes.sort((a, b) => a - b);
  }

  /** Returns what the whole script may do with the value that starts here; undefined: no value, or one that remains hidden. */
  useOf(start: number, uses: VariableUses): VariableUse | undefined {
    const value = this.#values.get(start);
    if (value === undefined) return undefined;
    if (uses.isProgram(value.text)) return "run";
    const use = value.isAlias === true ? "run" : uses.of(value.variable);
    if (use === "run") return SEVERAL_WORDS.test(value.text) ? use : undefined;
    // Only the first line is a secret because of the variable's name: a key block in any variable starts like this.
    return use === "none" && /[\n\r]/.test(value.text) ? "given" : use;
  }

  /** Visits a node. `isValue`: the node is in the value of a variable. */
  #visit(node: SyntaxNode, isValue: boolean, depth = 0): void {
    if (depth > STATEMENTS_DEPTH_MAX) {
      this.#cutAt(OPERATOR, this.#text.slice(node.pos, node.end), node.pos);
      return;
    }
    // Do not cut between a variable's name and its value: only the name shows that the value is a secret.
    if (node.type === "Word" && !isValue && this.#isOutermost) this.words.push(node.pos, node.end);
    this.#note(node);
    forEachChild(node, (child) => {
      if (child.type === "Assignment") this.#noteVariable(child, node);
      const isSubstitution = child.type === "CommandExpansion" || child.type === "ProcessSubstitution";
      this.#visit(child, !isSubstitution && (isValue || child.type === "Assignment"), depth + 1);
    });
  }

  #note(node: SyntaxNode): void {
    switch (node.type) {
      case "Command":
        this.starts.push(node.pos, node.end, ...namesIn(node));
        break;
      case "CommandExpansion":
      case "ProcessSubstitution":
      case "ArithmeticCommandExpansion":
      case "ArithmeticExpansion":
      case "Redirect":
      case "HereString":
      case "HereDoc":
      case "Function":
        this.starts.push(node.pos, node.end);
        break;
      case "ParameterExpansion":
        this.starts.push(node.pos, node.end);
        // Operators after the name, as in `${x:-a;b}`, are text without quotes.
        this.#escapesIn(node, OPERATOR);
        break;
      case "Word":
        this.#escapesIn(node, ESCAPED_OPERATOR);
        if (!this.#values.has(textStart(node))) this.#values.set(textStart(node), { text: node.value });
        break;
      default:
        this.texts.push(...textRanges(node));
    }
  }

  #escapesIn({ pos, text }: Word | ParameterExpansionPart, operator: RegExp): void {
    for (const { index } of text.matchAll(operator)) this.escapes.push(pos + index);
  }

  #noteVariable(assignment: Assignment, parent: SyntaxNode): void {
    const { name, value } = assignment;
    if (value.type !== "Word") return;
    const isArgument = parent.type === "Command" && parent.suffix.includes(assignment);
    const isAlias = isArgument && !DECLARING.includes(parent.name?.value ?? "");
    this.#values.set(textStart(value), { text: value.value, isAlias, variable: name });
  }

  #cutAt(pattern: RegExp, text: string, offset = 0): void {
    for (const { index } of text.matchAll(pattern)) this.starts.push(offset + index);
  }
}

/** Returns where the name of the program may start: a word with an expansion may be empty, so that the next word is the name. */
function namesIn({ name, suffix }: Command): readonly number[] {
  const words = [...(name === undefined ? [] : [name]), ...suffix];
  const end = words.findIndex((word) => word.type === "Word" && word.parts === undefined);
  return words.slice(0, end === -1 ? words.length : end + 1).map(({ pos }) => pos);
}

/** Returns where the text of a word starts, without a quote. */
function textStart({ pos, parts = [] }: Word): number {
  const [first] = parts;
  return (first && textRanges(first)[0]?.start) ?? pos;
}

function textRanges(node: SyntaxNode): readonly Stretch[] {
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
