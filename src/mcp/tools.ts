import { z } from "zod";
import type { RegisteredTool } from "../core/evidence.ts";
import { isList, isTable } from "../core/json.ts";
import { edgeOf } from "../core/output-policy/output-policy.ts";
import { annotationsOf } from "../core/tool-export.ts";
import { inputJsonSchema } from "../core/tool-formats.ts";
import type { ApprovalScope, CallerContext, Json, Tool } from "../core/types.ts";
import { couldUse } from "../pipeline/built-in-points.ts";
import { invalid, type RequestId, type Table } from "./protocol.ts";

/** Largest number of tools in one answer of `tools/list`. */
const PAGE_TOOLS = 100;
const CURSOR_CHARACTERS_MAX = 256;

/** `true` in `_meta` of a call: only say what would happen to it. In the result: the verdict. */
export const DRY_RUN_META = "safe-tool-call/dryRun";
export const APPROVAL_META = "safe-tool-call/approval";
/** The member of a result that says that an approver is asked; a tool's own field of this name hides it. */
export const PENDING_MEMBER = "pendingApproval";

const PENDING_SCHEMA = {
  type: "object",
  description: "Present instead of a result while a person is asked whether the call may run.",
  properties: { id: { type: "string" }, decideBy: { type: "string" }, message: { type: "string" } },
} as const;

interface Listing {
  readonly tools: readonly RegisteredTool[];
  readonly hasApprovals: boolean;
}

/** Returns the tools that this caller can call, by name. */
export function toolsOf(registered: readonly RegisteredTool[], caller: CallerContext): readonly RegisteredTool[] {
  return registered
    .filter(({ tool }) => isListed(tool, caller))
    .toSorted((one, other) => (one.tool.name < other.tool.name ? -1 : 1));
}

export function isListed({ permissions: { required } }: Tool, { permissions }: CallerContext): boolean {
  return couldUse(permissions, required);
}

/** Returns one page of the list. The cursor is the name after which it begins. */
export function pageOf(
  { tools, hasApprovals }: Listing,
  { id, params }: { readonly id: RequestId; readonly params: Table },
): { readonly tools: readonly Json[]; readonly nextCursor?: string } {
  const after = readCursor(params["cursor"], tools, id);
  const rest = after === undefined ? tools : tools.filter(({ tool }) => tool.name > after);
  const page = rest.slice(0, PAGE_TOOLS);
  const last = page.at(-1);
  const more = rest.length > page.length && last !== undefined && { nextCursor: encodeCursor(last.tool.name) };
  return { tools: page.map((each) => described(each, hasApprovals)), ...more };
}

function encodeCursor(name: string): string {
  return Buffer.from(name, "utf8").toString("base64url");
}

/** @throws {RpcError} for a cursor that names no tool of this caller, also when the tool has gone since */
function readCursor(cursor: unknown, tools: Listing["tools"], id: RequestId): string | undefined {
  if (cursor === undefined) return undefined;
  if (typeof cursor === "string" && cursor.length <= CURSOR_CHARACTERS_MAX) {
    const name = Buffer.from(cursor, "base64url").toString("utf8");
    if (encodeCursor(name) === cursor && tools.some(({ tool }) => tool.name === name)) return name;
  }
  throw invalid(id, "cursor is not one that this server returned; list from the start");
}

/** Descriptions never change while their tool is registered. */
const descriptions = new WeakMap<RegisteredTool, Json>();

export function described(registered: RegisteredTool, hasApprovals: boolean): Json {
  const known = descriptions.get(registered);
  if (known !== undefined) return known;
  const description = describe(registered, hasApprovals);
  descriptions.set(registered, description);
  return description;
}

function describe(registered: RegisteredTool, hasApprovals: boolean): Json {
  const { tool } = registered;
  const outputSchema = releasedSchema(registered, { mayBePending: isPendingDeclared(tool, hasApprovals) });
  return {
    name: tool.name,
    title: tool.title,
    description: tool.description,
    inputSchema: inputJsonSchema(tool.input, "draft-2020-12"),
    ...(outputSchema !== undefined && { outputSchema }),
    annotations: annotationsOf(tool),
    _meta: { [APPROVAL_META]: approvalMeta(tool), [LOCATION_META]: "server", ...sizeMeta(tool) },
  };
}

/** Says that the tool runs here, not in the client. */
const LOCATION_META = "safe-tool-call/location";

/** Returns what a client can show before it calls the tool. Each request has options of its own, which may be fewer. */
function approvalMeta(tool: Tool): JsonObject {
  const { category, title, approval } = tool;
  const asks = asksOf(tool);
  if (asks === "never") return { category, asks };
  const message = approval.message ?? `${title}: a person decides whether the call may run.`;
  return { category, asks, message, options: ["cancel", ...scopesOf(tool)] };
}

/** Returns the scopes that approvers may be offered. */
function scopesOf(tool: Tool): readonly ApprovalScope[] {
  const { scopes = ["once", "session"], grants } = tool.approval;
  if (isGrave(tool)) return ["once"];
  return grants === undefined ? scopes : [...scopes, "bounded"];
}

/** Returns whether a person approves each call of the tool, in every mode. */
function isGrave({ classification, category, approval: { risk } }: Tool): boolean {
  return classification === "destructive" || category === "ask" || risk === "high" || risk === "critical";
}

/** Member with which Claude Code shows long results to its model instead of saving them to a file, and its largest value. */
const SIZE_META = "anthropic/maxResultSizeChars";
const SIZE_META_MAX = 500_000;
/** Room for the sentence that a result was cut. */
const CUT_NOTE_CHARACTERS = 128;

/** Announces the size that a manifest sets for its own results. The general limit fits every client already. */
function sizeMeta({ limits: { resultBytesMax } }: Tool): JsonObject {
  if (resultBytesMax === undefined) return {};
  return { [SIZE_META]: Math.min(resultBytesMax + CUT_NOTE_CHARACTERS, SIZE_META_MAX) };
}

/** Returns whether the tool's output schema declares the result of a call that waits for an approver. */
export function isPendingDeclared(tool: Tool, hasApprovals: boolean): boolean {
  return hasApprovals && asksOf(tool) !== "never";
}

/**
 * Returns whether calls of the tool need approval: in every mode, depending on the call and the mode, or never by the tool's own
 * rules.
 */
function asksOf(tool: Tool): "always" | "sometimes" | "never" {
  const { approval, category } = tool;
  if (approval.required === true || isGrave(tool)) return "always";
  return category === "read" && approval.risk === undefined ? "never" : "sometimes";
}

type PolicyNode = RegisteredTool["outputPolicy"]["root"];
type JsonObject = { readonly [key: string]: Json };

/**
 * Returns the JSON Schema of the tool's released results: the output schema without the fields that the policy strips, and
 * without the constraints that masks, redaction and cuts may break. Undefined when the result is not an object, which older versions of the
 * protocol require.
 */
function releasedSchema(
  { tool, outputPolicy, scan }: RegisteredTool,
  { mayBePending }: { readonly mayBePending: boolean },
): JsonObject | undefined {
  const { $schema: _, ...whole } = exported(tool.output);
  const released = whole["type"] === "object" ? releasedPart(whole, { node: outputPolicy.root, scan }) : undefined;
  if (!isTable(released)) return undefined;
  // The result of a change may be withheld, and then nothing of it is left.
  const isOpen = mayBePending || tool.classification !== "read";
  const { required, properties, ...rest } = released as JsonObject;
  return {
    ...rest,
    properties: { ...(mayBePending && { [PENDING_MEMBER]: PENDING_SCHEMA }), ...(isTable(properties) && properties) },
    ...(!isOpen && required !== undefined && { required }),
  };
}

function exported(schema: z.ZodType): JsonObject {
  try {
    const options = { io: "output", target: "draft-2020-12", unrepresentable: "any", reused: "inline" } as const;
    return JSON.parse(JSON.stringify(z.toJSONSchema(schema, options))) as JsonObject;
  } catch {
    return {};
  }
}

/** Keywords that stay true after masking, redaction or truncation. */
const KEPT = ["title", "description", "deprecated"] as const;

/** A position in the output, and the redaction level of its text. */
interface OutputPosition {
  readonly node: PolicyNode;
  readonly scan: RegisteredTool["scan"];
}

/** Returns the schema of the released part of a value; undefined when nothing is released. */
function releasedPart(schema: Json | undefined, position: OutputPosition): JsonObject | undefined {
  const { node } = position;
  if (node.releasesNothing) return undefined;
  if (!isTable(schema) || "$ref" in schema || "allOf" in schema || "not" in schema) return {};
  const words = Object.fromEntries(KEPT.flatMap((key) => (key in schema ? [[key, schema[key]]] : []))) as JsonObject;
  const choices = schema["anyOf"] ?? schema["oneOf"];
  if (isList(choices)) {
    const released = choices.flatMap((choice) => releasedPart(choice as Json, position) ?? []);
    return released.length === 0 ? undefined : { ...words, anyOf: released };
  }
  if (schema["type"] === "object") return { ...words, ...releasedObject(schema as JsonObject, position) };
  if (schema["type"] === "array") {
    const items = isTable(schema["items"])
      ? releasedPart(schema["items"] as Json, { ...position, node: node.element.node })
      : {};
    return { ...words, type: "array", ...(items !== undefined && { items }) };
  }
  if (node.action === "allow") return { ...words, ...scalar(schema as JsonObject, position) };
  return node.action === "mask" ? { ...words, type: ["string", "null"] } : undefined;
}

function releasedObject(schema: JsonObject, position: OutputPosition): JsonObject {
  const { properties, additionalProperties: more, required } = schema;
  const kept = Object.entries(isTable(properties) ? properties : {}).flatMap(([name, part]) => {
    const { node } = edgeOf(position.node, name);
    const released = releasedPart(part as Json, { ...position, node });
    return released === undefined ? [] : [{ name, released, stays: staysIn(part as Json, node) }];
  });
  const names = isList(required) ? kept.filter(({ name, stays }) => stays && required.includes(name)) : [];
  const rest = restOf(more, position);
  return {
    type: "object",
    properties: Object.fromEntries(kept.map(({ name, released }) => [name, released])),
    ...(names.length > 0 && { required: names.map(({ name }) => name) }),
    ...(rest !== undefined && { additionalProperties: rest }),
  };
}

/** Returns the schema of the released part of members that the schema does not name. */
function restOf(more: Json | undefined, position: OutputPosition): Json | undefined {
  if (more === false) return false;
  return isTable(more) ? releasedPart(more as Json, { ...position, node: position.node.other.node }) : {};
}

/** Returns whether a field is always present: a container without released content may be removed. */
function staysIn(schema: Json, { keepsEmpty, action }: PolicyNode): boolean {
  const isScalar =
    isTable(schema) && ["string", "number", "integer", "boolean", "null"].includes(String(schema["type"]));
  return isScalar ? action === "allow" || action === "mask" : keepsEmpty;
}

/**
 * Returns the schema of a released scalar. Enums stay unchanged. Text loses its format, because it may be cut or redacted. A
 * number may become text, because personal data is also redacted in numbers.
 */
function scalar(schema: JsonObject, { scan }: OutputPosition): JsonObject {
  const { type } = schema;
  if ("enum" in schema || "const" in schema) return schema;
  const isNumber = type === "integer" || type === "number";
  if (isNumber && scan !== "secrets" && scan !== "off") return { type: [type, "string"] };
  return type === undefined ? {} : { type };
}
