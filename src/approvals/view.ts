import { canonicalJson, NotJsonError, sha256Hex } from "../core/digest.ts";
import type { ExecutionPlan, Json, Tool } from "../core/types.ts";
import { visible } from "../core/visible.ts";
import { shellCommandOf } from "./risk.ts";
import { type SecretsOf, shownLines, shownScript } from "./shell-text.ts";
import type { Requester, Risk } from "./types.ts";

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

export interface RenderedView {
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
