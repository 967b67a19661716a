import { canonicalJson, sha256Hex } from "../core/digest.ts";
import type { ExecutionPlan, Json, Tool } from "../core/types.ts";
import { visible } from "../core/visible.ts";
import type { Requester, Risk } from "./types.ts";

const REASON_CHARACTERS_MAX = 500;
/** A longer text is shown in part, and says so, with its length and hash. */
const TEXT_CHARACTERS_MAX = 16_384;
const SHOWN_OF_LONG_TEXT = 4_096;
const DEPTH_MAX = 64;
const VIEW_LIMITS = { depthMax: DEPTH_MAX + 4, nodesMax: 200_000, bytesMax: 16_777_216 } as const;

export interface ViewFacts {
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
  /** Takes secrets out of text. */
  readonly filterSecrets: (text: string) => string;
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
 * and of characters that a person cannot see.
 */
export function renderView(facts: ViewFacts): RenderedView {
  const { tool, plan, requester, reason, planDigest } = facts;
  const show = (value: unknown): Json => shown(value, facts.filterSecrets, 0);
  const { argv, command, ...rest } = plan;
  const own = Object.entries(rest).filter(([key]) => key !== "kind" && Object.hasOwn(NAMED, key));
  const target = Object.entries(rest).filter(([key]) => key !== "kind" && !Object.hasOwn(NAMED, key));
  const view: Json = {
    tool: tool.name,
    description: show(tool.description),
    ...(tool.approval.message !== undefined && { toolMessage: show(tool.approval.message) }),
    classification: tool.classification,
    category: tool.category,
    risk: facts.risk,
    rules: show(facts.rules),
    notes: show(facts.notes),
    target: { system: tool.target.system, kind: plan.kind, ...(show(Object.fromEntries(target)) as object) },
    ...(Array.isArray(argv) && { command: show([command, ...argv]) }),
    ...Object.fromEntries(own.map(([key, value]) => [NAMED[key as keyof typeof NAMED], show(value)])),
    arguments: show(facts.input),
    requester: {
      issuer: show(requester.issuer),
      subject: show(requester.subject),
      actors: show(requester.actors),
      ...(requester.session !== undefined && { session: show(requester.session) }),
    },
    ...(reason !== undefined && { reason: { untrusted: true, text: show(reason.slice(0, REASON_CHARACTERS_MAX)) } }),
    confinement: tool.category === "command" ? "none" : "not applicable",
  };
  const viewDigest = sha256Hex(canonicalJson({ t: "stc/view/v1", planDigest, view }, VIEW_LIMITS));
  return {
    view,
    viewDigest,
    summary: `${tool.name} on ${tool.target.system} (${tool.classification}, ${facts.risk} risk)`,
  };
}

/** Plans and arguments are JSON by now; whatever is not would have been refused before. */
function shown(value: unknown, filterSecrets: ViewFacts["filterSecrets"], depth: number): Json {
  if (typeof value === "string") return shownText(value, filterSecrets);
  if (value === null || typeof value === "boolean" || typeof value === "number") return value;
  if (typeof value !== "object" || depth > DEPTH_MAX) return "(not shown)";
  if (Array.isArray(value)) return value.map((item) => shown(item, filterSecrets, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [visible(filterSecrets(key)), shown(inner, filterSecrets, depth + 1)]),
  );
}

/** Nothing is left out in silence. */
function shownText(text: string, filterSecrets: ViewFacts["filterSecrets"]): Json {
  const filtered = filterSecrets(text);
  if (filtered.length <= TEXT_CHARACTERS_MAX) return visible(filtered);
  return {
    shortened: true,
    characters: text.length,
    sha256: sha256Hex(text),
    begins: visible(filtered.slice(0, SHOWN_OF_LONG_TEXT)),
    ends: visible(filtered.slice(-SHOWN_OF_LONG_TEXT)),
  };
}
