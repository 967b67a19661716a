import { canonicalJson } from "../../core/digest.ts";
import { type Fault, ManifestError, Refusal } from "../../core/errors.ts";
import { ARGUMENT_LIMITS, isTable } from "../../core/json.ts";
import { closestName, hint } from "../../core/nearest.ts";
import { defOf, innerSchemas, type Schema } from "../../core/schema/walk.ts";
import type { Quarantine, ToolNote } from "../../core/target-kind.ts";
import type {
  Binding,
  CallerContext,
  ExecutionPlan,
  Json,
  McpTarget,
  PlanContext,
  PlanDescription,
  RunContext,
  Tool,
} from "../../core/types.ts";
import { isSafe, readResult, refusalOf } from "./answers.ts";
import { UpstreamError } from "./channel.ts";
import { bounded } from "./definitions.ts";
import { mcpHeadline } from "./headline.ts";
import type { Upstream } from "./upstream.ts";

/** The complete call. An approval is bound to it, and to the definition that its tool had. */
type McpPlan = ExecutionPlan & {
  readonly kind: "mcp";
  readonly system: string;
  readonly tool: string;
  readonly definitionSha256: string;
  readonly arguments: Json;
};

/**
 * Binds a tool to its server.
 *
 * @throws {ManifestError} when no such server is configured
 */
export function bindTool(tool: Tool, upstreams: ReadonlyMap<string, Upstream>): Binding {
  const target = mcpTarget(tool);
  const upstream = upstreams.get(target.system);
  if (upstream === undefined) {
    const known = [...upstreams.keys()].join(", ") || "none";
    const message = `no MCP server ${target.system} is configured; configured: ${known}`;
    throw new ManifestError(tool.name, [{ field: "target.system", message }]);
  }
  const { tool: name, definitionSha256, definition } = target.mcp;
  const clash = upstream.pin(name, definitionSha256, definition);
  if (clash !== undefined)
    throw new ManifestError(tool.name, [{ field: "target.mcp.definitionSha256", message: clash }]);
  return new McpBinding(tool, target, upstream);
}

class McpBinding implements Binding {
  readonly #tool: Tool;
  readonly #target: McpTarget;
  readonly #upstream: Upstream;

  constructor(tool: Tool, target: McpTarget, upstream: Upstream) {
    this.#tool = tool;
    this.#target = target;
    this.#upstream = upstream;
  }

  plan(input: unknown, { signal }: PlanContext): McpPlan | Promise<McpPlan> {
    const { system, mcp } = this.#target;
    const planFor = (definitionSha256: string): McpPlan => {
      return { kind: "mcp", system, tool: mcp.tool, definitionSha256, arguments: input as Json };
    };
    const planned = this.#upstream.planned(mcp.tool, signal);
    if (typeof planned === "string") return planFor(planned);
    // Planning only reads.
    const call = { tool: { ...this.#tool, classification: "read" as const }, target: this.#target };
    return planned.then(planFor).catch((error: unknown) => {
      throw refusalOf(error, call, signal);
    });
  }

  fixedParts({ arguments: _, ...fixed }: ExecutionPlan): Json {
    return fixed;
  }

  readonly headline = mcpHeadline;

  /** Adds the names of the secrets that are sent, and of the members of `_meta`, which depend on the call. */
  preview(plan: ExecutionPlan): ExecutionPlan {
    return { ...plan, ...this.#upstream.additions, addedMeta: ["traceparent?", "tracestate?"] };
  }

  describe(): PlanDescription {
    const { additions, confinement } = this.#upstream;
    const { addedHeaders = [], secretEnv = [] } = additions;
    const notes = [
      ...(addedHeaders.length === 0 ? [] : [`the service adds these headers: ${addedHeaders.join(", ")}`]),
      ...(secretEnv.length === 0 ? [] : [`the program has secrets in these variables: ${secretEnv.join(", ")}`]),
    ];
    return { notes, ...(confinement !== undefined && { confinement }) };
  }

  classificationDoubt(): string | undefined {
    const definition = this.#upstream.pinOf(this.#target.mcp.tool)?.definition;
    const annotations = isTable(definition) ? definition["annotations"] : undefined;
    if (!isTable(annotations)) return undefined;
    const { readOnlyHint, destructiveHint } = annotations;
    const { classification } = this.#tool;
    // By the specification, the second hint means nothing for a tool that only reads.
    if (destructiveHint === true && readOnlyHint !== true && classification !== "destructive")
      return `is ${classification}, but the server says that the tool is destructive`;
    const isDoubtful = classification === "read" && readOnlyHint === false;
    return isDoubtful ? "is read, but the server says that the tool changes something" : undefined;
  }

  readonly callsBegin = true;

  get answersText(): boolean {
    const { result, definition } = this.#target.mcp;
    return result === "text" || (result === undefined && !(isTable(definition) && "outputSchema" in definition));
  }

  async run(sealed: ExecutionPlan, context: RunContext): Promise<unknown> {
    const { signal, caller, callerToken, traceId, traceparent, tracestate } = context;
    const plan = sealed as McpPlan;
    const target = this.#target;
    const tool = this.#tool;
    if (plan.kind !== "mcp" || plan.system !== target.system || plan.tool !== target.mcp.tool) {
      throw new Refusal("INTERNAL", "The call could not be made.", { cause: "the plan belongs to another target" });
    }
    const owner = { caller, callerToken };
    const [key, isRepeatable] = [callerKey(caller), isSafe(tool)];
    const call = { tool: plan.tool, key, owner, sha256: plan.definitionSha256, isRepeatable, signal };
    const asserted = { tool: tool.name, caller, traceId, begin: context.begin };
    const trace = Object.entries({ traceparent, tracestate }).filter(
      (each): each is [string, string] => each[1] !== undefined,
    );
    const meta = trace.length === 0 ? undefined : Object.fromEntries(trace);
    try {
      return await this.#upstream.use(call, async (session, definition) => {
        const answer = await session.call(plan.tool, plan.arguments, { signal, meta, call: asserted });
        context.observe?.("MCP result", { result: answer });
        return readResult(answer, { tool, target, definition });
      });
    } catch (error) {
      if (error instanceof UpstreamError) context.observe?.("MCP error", { error, text: error.text });
      throw refusalOf(error, { tool, target }, signal);
    }
  }
}

function mcpTarget(tool: Tool): McpTarget {
  if ("mcp" in tool.target) return tool.target;
  throw new ManifestError(tool.name, [{ field: "target", message: "is not a tool of an MCP server" }]);
}

/** Keys of callers, by the object that a verified token has given. */
const callerKeys = new WeakMap<CallerContext, string>();

/** Returns the key of a caller's own session. */
function callerKey(caller: CallerContext): string {
  const known = callerKeys.get(caller);
  if (known !== undefined) return known;
  const { issuer, subject, actors } = caller;
  const key = canonicalJson([issuer, subject, actors], ARGUMENT_LIMITS);
  callerKeys.set(caller, key);
  return key;
}

/** Returns why the tool is not called: its server changed it. */
export function quarantineOf(tool: Tool, upstreams: ReadonlyMap<string, Upstream>): Quarantine | undefined {
  const { system, mcp } = mcpTarget(tool);
  const quarantine = upstreams.get(system)?.pinOf(mcp.tool)?.quarantine;
  return quarantine && { reason: quarantine.reason, changes: quarantine.changes };
}

/** Returns what operators should know about the tools, for `stc check`. */
export function toolNotes(tools: readonly Tool[], upstreams: ReadonlyMap<string, Upstream>): readonly ToolNote[] {
  return tools.flatMap((tool): readonly ToolNote[] => {
    const { system, mcp } = mcpTarget(tool);
    const upstream = upstreams.get(system);
    const pin = upstream?.pinOf(mcp.tool);
    if (upstream === undefined || pin === undefined) return [];
    const note = (message: string): ToolNote => ({ tool: tool.name, field: "target.mcp", message });
    const { quarantine, sha256, isDeclared } = pin;
    if (quarantine !== undefined) {
      const changes = quarantine.changes.map(folded).join("");
      return [{ ...note(`is quarantined: ${bounded(mcp.tool)}: ${quarantine.reason}${changes}`), isQuarantine: true }];
    }
    const inputSchema = upstream.listed?.definitions.get(mcp.tool)?.pinned["inputSchema"];
    const mismatches = inputFaults(tool.input, inputSchema).map((fault) => ({ tool: tool.name, ...fault }));
    if (isDeclared) return mismatches;
    if (sha256 !== undefined) return [note(`is not pinned: set definitionSha256: "${sha256}"`), ...mismatches];
    const isListed = upstream.listed !== undefined;
    return isListed ? [note(`the server does not offer ${bounded(mcp.tool)}${offered(upstream)}`)] : [];
  });
}

const FOLD_CHARACTERS = 160;

/** Returns a line of any length as indented lines for a terminal. */
function folded(line: string): string {
  const [first = "", ...rest] = line.match(FOLDS) ?? [];
  return [`\n    ${first}`, ...rest.map((part) => `\n      ${part}`)].join("");
}

const FOLDS = new RegExp(`.{1,${FOLD_CHARACTERS}}`, "gu");

/** Keywords of JSON Schema with which `properties` and `required` do not say everything. */
const COMPOSING = ["$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas"] as const;

/**
 * Returns what the arguments lack for the server's schema, and which of them it does not know. Only plain objects are compared:
 * the server itself checks everything else.
 */
function inputFaults(input: Schema, expected: unknown, path = "input"): readonly Fault[] {
  const schema = plainSchema(input);
  const def = schema === undefined ? undefined : defOf(schema);
  if (!isTable(expected) || def === undefined || COMPOSING.some((key) => key in expected)) return [];
  if (def.type === "array") return inputFaults(def.element, expected["items"], `${path}[]`);
  if (def.type !== "object") return [];
  const isOpen = def.catchall !== undefined && defOf(def.catchall).type !== "never";
  const shape: Readonly<Record<string, Schema>> = def.shape;
  const names = Object.keys(shape);
  const { properties = {}, required, additionalProperties = false } = expected;
  const known = isTable(properties) ? properties : {};
  const needed = Array.isArray(required) ? required.filter((name) => typeof name === "string") : [];
  const others = names.filter((name) => !Object.hasOwn(known, name));
  const unknown = additionalProperties === false ? others : [];
  return [
    ...unknown.map((name) => ({ field: `${path}.${name}`, message: `is unknown to the server${meant(name, known)}` })),
    ...needed.flatMap((name) => {
      const own = Object.hasOwn(shape, name) ? shape[name] : undefined;
      const field = `${path}.${bounded(name)}`;
      if (own === undefined)
        return isOpen ? [] : [{ field, message: `is missing: the server requires it${instead(name, unknown)}` }];
      return own._zod.optout === "optional" ? [{ field, message: "must not be optional: the server requires it" }] : [];
    }),
    ...names.flatMap((name) => {
      const own = shape[name];
      return own === undefined || !Object.hasOwn(known, name) ? [] : inputFaults(own, known[name], `${path}.${name}`);
    }),
  ];
}

/** Returns the schema inside wrappers; undefined when there are several, or when it may contain itself. */
function plainSchema(schema: Schema): Schema | undefined {
  const inner = innerSchemas(schema, "out");
  if (inner === undefined) return schema;
  const [only, another] = inner;
  const isPlain = another === undefined && defOf(schema).type !== "lazy";
  return only !== undefined && isPlain ? plainSchema(only) : undefined;
}

function instead(name: string, unknown: readonly string[]): string {
  const like = closestName(name, unknown);
  return like === undefined ? "" : `; did you call it ${like}?`;
}

function meant(name: string, known: Readonly<Record<string, unknown>>): string {
  return bounded(hint(name, Object.keys(known)));
}

const OFFERED_MAX = 20;

function offered({ listed }: Upstream): string {
  const names = [...(listed?.definitions.keys() ?? [])].slice(0, OFFERED_MAX).map((name) => bounded(name));
  return names.length === 0 ? "" : `; it offers ${names.join(", ")}`;
}
