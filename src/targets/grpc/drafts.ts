import { errorText } from "../../core/error-text.ts";
import { isVisible } from "../../core/json-schema/schema.ts";
import { changeWord } from "../../core/manifest/change-words.ts";
import type { ToolDraft } from "../../core/target-kind.ts";
import type { Json, ToolClassification } from "../../core/types.ts";
import { isSpecial } from "./codec/well-known.ts";
import { type ProtoSource, readDeclarations } from "./contract/contract.ts";
import {
  ANY,
  type Comments,
  type Declarations,
  type FieldShape,
  type MessageShape,
  type MethodDeclaration,
  type ProtoScalar,
  reachable,
  type ValueShape,
} from "./contract/declarations.ts";
import { filesOfSystem, type ReflectingSystem } from "./contract/reflection.ts";

/** Drafts of manifests from the contract of a service. Names and comments in it are data that others wrote. */

const METHODS_MAX = 5_000;

/**
 * Returns a draft for each method of a system, in the order of their names; a text when the system's contract cannot be read.
 *
 * @throws {StartupError} for a contract that is invalid
 */
export async function draftsOf(name: string, system: ReflectingSystem): Promise<readonly ToolDraft[] | string> {
  let source: ProtoSource = system;
  if (system.reflection === true) {
    try {
      source = { ...system, reflected: await filesOfSystem(name, system, "all") };
    } catch (error) {
      return `the service ${errorText(error)}`;
    }
  }
  const comments: Comments = new Map();
  const declarations = readDeclarations(name, source, comments);
  const contract = { messages: declarations.messages, comments, anyTypes: source.anyTypes ?? [] };
  const methods = [...declarations.services].flatMap(([service, declared]) =>
    [...declared.values()].map((method) => ({ service, method })),
  );
  if (methods.length > METHODS_MAX) return `its contract has more than ${METHODS_MAX} methods`;
  return methods
    .map(({ service, method }) => draftOf(service, method, contract))
    .sort((left, right) => (left.name < right.name ? -1 : 1));
}

interface ContractParts extends Pick<Declarations, "messages"> {
  readonly comments: Comments;
  /** Full names of the messages that a google.protobuf.Any may hold. */
  readonly anyTypes: readonly string[];
}

function draftOf(service: string, method: MethodDeclaration, contract: ContractParts): ToolDraft {
  const fullName = `${service}.${method.name}`;
  const classification = proposedClassification(method.name);
  const drafted = {
    name: fullName,
    description: commentOf(contract.comments.get(fullName)) || `${wordsOf(method.name)} (${fullName})`,
    classification,
    saysReadOnly: false,
    target: { grpc: { ...namesOf(service), method: method.name } },
  };
  const nothing = { input: {}, output: {}, hints: [], notes: [] };
  const request = contract.messages.get(method.request);
  const response = contract.messages.get(method.response);
  const problem = problemOf(method, request, response);
  if (problem !== undefined || request === undefined || response === undefined) {
    return { ...drafted, ...nothing, problem: problem ?? "has a message of unknown type" };
  }
  const input = schemaOf(request, { side: "input", ...contract });
  const output = schemaOf(response, { side: "output", ...contract });
  if (input === undefined || output === undefined) {
    return {
      ...drafted,
      ...nothing,
      problem: `has a message of more than ${PARTS_MAX} fields: write its manifest by hand`,
    };
  }
  const hasRequired = [...request.fields.values()].some(({ required }) => required);
  return {
    ...drafted,
    input: input.schema,
    output: output.schema,
    hints: [
      `Proposed by the method's name: classification ${classification}.`,
      ...(request.fields.size > 0 && !hasRequired
        ? ["The contract does not say which arguments a call needs: list them in input under required."]
        : []),
      ...limits("Arguments", input.limits),
      ...limits("Answers", output.limits),
    ],
    notes: [],
  };
}

function problemOf(
  { requestStream, responseStream, name }: MethodDeclaration,
  request: MessageShape | undefined,
  response: MessageShape | undefined,
): string | undefined {
  if (!PLAIN.test(name)) return "has a name that is not a plain identifier";
  if (requestStream) return "takes a stream of requests, which no tool can send";
  if (responseStream) return "answers with a stream: write its manifest by hand, with the limits target.grpc.stream";
  if (request === undefined || response === undefined) return undefined;
  const [unsupported] = [...reachable(request, response)].flatMap((message) => message.unsupported);
  return unsupported === undefined ? undefined : `no message can hold a field: ${unsupported}`;
}

const PLAIN = /^[A-Za-z_][A-Za-z0-9_]{0,255}$/;

function namesOf(service: string): { readonly package: string; readonly service: string } {
  const at = service.lastIndexOf(".");
  return { package: service.slice(0, Math.max(at, 0)), service: service.slice(at + 1) };
}

const READS: ReadonlySet<string> = new Set(
  "get list search find fetch lookup look read query count check describe show view exists has is batch".split(" "),
);
const DESTROYS: ReadonlySet<string> = new Set(
  "delete remove purge drop destroy erase wipe truncate terminate uninstall".split(" "),
);

/** Returns the classification that a method's name indicates. A name that also indicates a change is not a read. */
function proposedClassification(method: string): ToolClassification {
  const words = wordsOf(method).toLowerCase().split(" ");
  if (words.some((word) => DESTROYS.has(word))) return "destructive";
  const isRead = READS.has(words.find((word) => word !== "batch") ?? "");
  return isRead && changeWord({ name: words.join("_"), description: "" }) === undefined ? "read" : "write";
}

/** Returns a method's name as words: "Get customer". */
function wordsOf(method: string): string {
  const words = method
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1 $2")
    .replace(/_+/g, " ")
    .trim()
    .toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

const COMMENT_CHARACTERS_MAX = 300;

/** Returns a comment as one line, cut after a sentence where that is possible; empty for one that hides characters. */
function commentOf(comment: string | undefined): string {
  const line = (comment ?? "").slice(0, 4_000).replace(/\s+/g, " ").trim();
  if (!isVisible(line)) return "";
  if (line.length <= COMMENT_CHARACTERS_MAX) return line;
  const cut = line.slice(0, COMMENT_CHARACTERS_MAX);
  const end = cut.lastIndexOf(". ");
  return end > 0
    ? cut.slice(0, end + 1)
    : `${cut
        .slice(0, -1)
        .toWellFormed()
        .replace(/\ufffd$/, "")}…`;
}

type Schema = { readonly [keyword: string]: Json };
type Side = "input" | "output";

/** Schemas in one draft: what a reader of the manifest can judge. */
const PARTS_MAX = 600;
/** Levels of messages that are tried, until the schema is small enough. */
const DEPTHS = [10, 8, 6, 5, 4, 3, 2, 1] as const;
const ENUM_VALUES_MAX = 300;
const LIMITS_SHOWN_MAX = 10;

interface Drafting extends ContractParts {
  readonly side: Side;
}

/** What a schema leaves to the contract, by the path of the field. */
type Limits = ReadonlyMap<string, string>;

function limits(what: string, found: Limits): readonly string[] {
  const shown = [...found].slice(0, LIMITS_SHOWN_MAX).map(([path, text]) => `${what}: ${path} ${text}`);
  return found.size > shown.length ? [...shown, `${what}: ${found.size - shown.length} more like these.`] : shown;
}

/** Returns the schema of a whole message; undefined when even its own fields are too many. */
function schemaOf(
  message: MessageShape,
  drafting: Drafting,
): { readonly schema: Schema; readonly limits: Limits } | undefined {
  for (const depthMax of DEPTHS) {
    const writer = new SchemaWriter(drafting, depthMax);
    const schema = writer.message(message, { path: "", open: [] });
    if (writer.parts <= PARTS_MAX) return { schema, limits: writer.limits };
  }
  return undefined;
}

interface Position {
  readonly path: string;
  /** The messages that are being written out: finding one of them again means recursion. */
  readonly open: readonly MessageShape[];
}

const ANYTHING: Schema = { type: "object", additionalProperties: true };

class SchemaWriter {
  parts = 0;
  readonly limits = new Map<string, string>();
  readonly #drafting: Drafting;
  readonly #depthMax: number;

  constructor(drafting: Drafting, depthMax: number) {
    this.#drafting = drafting;
    this.#depthMax = depthMax;
  }

  message(message: MessageShape, { path, open }: Position): Schema {
    const isInput = this.#drafting.side === "input";
    if (open.includes(message))
      return this.#cut(path, `may hold ${message.fullName} again, at any depth: the contract checks it`);
    if (open.length > this.#depthMax)
      return this.#cut(path, "is not described, because of the size: the contract checks it");
    const properties: Record<string, Json> = {};
    for (const [name, field] of message.fields) {
      if (this.parts > PARTS_MAX) break;
      const at = { path: path === "" ? name : `${path}.${name}`, open: [...open, message] };
      const schema = this.#field(field, at);
      if (schema !== undefined) properties[name] = this.#described(schema, message, [name, field]);
    }
    const oneofs = [...message.oneofs].map((oneof) => [oneof, membersOf(message, oneof)] as const);
    for (const [oneof, members] of oneofs) {
      this.parts += 1;
      // An answer says in a field of the oneof's name which member is set.
      if (!isInput) properties[oneof] = { enum: members };
      else if (members.length > 1)
        this.limits.set(join(path, members.join(", ")), "exclude each other: the contract refuses two of them");
    }
    const required = [...message.fields].flatMap(([name, field]) =>
      field.required && properties[name] !== undefined ? [name] : [],
    );
    const isEmpty = Object.keys(properties).length === 0;
    return {
      type: "object",
      ...(isEmpty && open.length > 0 ? { additionalProperties: false } : { properties }),
      ...(required.length > 0 && { required }),
    };
  }

  #cut(path: string, why: string): Schema {
    this.parts += 1;
    this.limits.set(path, why);
    return this.#drafting.side === "input" ? ANYTHING : {};
  }

  #described(schema: Schema, message: MessageShape, [name, { oneof }]: readonly [string, FieldShape]): Schema {
    // Agents read descriptions of arguments only.
    if (this.#drafting.side === "output") return schema;
    const members = oneof === undefined ? [] : membersOf(message, oneof).filter((member) => member !== name);
    const text = [
      commentOf(this.#drafting.comments.get(`${message.fullName}.${name}`)),
      String(schema["description"] ?? ""),
      members.length === 0 ? "" : `Not together with ${members.join(", ")}.`,
    ]
      .filter((part) => part !== "")
      .map((part) => (/[.!?…]$/.test(part) ? part : `${part}.`))
      .join(" ");
    return text === "" ? schema : { ...schema, description: text.length > DESCRIPTION_MAX ? commentOf(text) : text };
  }

  /** Returns undefined for an argument that no call can send. */
  #field(field: FieldShape, at: Position): Schema | undefined {
    this.parts += 1;
    const value = this.#value(field.value, at);
    if (value === undefined || field.label === "single") return value;
    if (field.label === "repeated") return { type: "array", items: value };
    const names = keyNames(field.key ?? "string");
    return { type: "object", additionalProperties: value, ...(names !== undefined && { propertyNames: names }) };
  }

  #value(value: ValueShape, at: Position): Schema | undefined {
    const { side, anyTypes } = this.#drafting;
    if (value.kind === "scalar") return scalarOf(value.proto, side);
    if (value.kind === "enum") {
      // The name of the value zero means that nothing is set.
      const names = [...value.names.values()];
      const meant = side === "input" ? names.filter((name) => !name.endsWith("_UNSPECIFIED")) : names;
      if (meant.length <= ENUM_VALUES_MAX) return { enum: meant.length > 0 ? meant : names };
      this.limits.set(at.path, "is an enum of many values, which the schema does not list");
      return { type: "string", maxLength: 256 };
    }
    const { message } = value;
    if (message.fullName === ANY) {
      const types = anyTypes.map((name) => `type.googleapis.com/${name}`);
      if (side === "output") return { type: "object", properties: { "@type": { type: "string" } } };
      if (types.length > 0) return { ...ANYTHING, properties: { "@type": { enum: types } }, required: ["@type"] };
      this.limits.set(
        at.path,
        "is left out: it is a google.protobuf.Any, and the system's anyTypes names no message for it",
      );
      return undefined;
    }
    return isSpecial(message) ? wellKnownOf(message, side) : this.message(message, at);
  }
}

/** A description of an argument has more characters only where two texts meet. */
const DESCRIPTION_MAX = 600;

function join(path: string, name: string): string {
  return path === "" ? name : `${path}: ${name}`;
}

function membersOf(message: MessageShape, oneof: string): readonly string[] {
  return [...message.fields].flatMap(([name, field]) => (field.oneof === oneof ? [name] : []));
}

const INT_32 = { type: "integer", minimum: -(2 ** 31), maximum: 2 ** 31 - 1 } as const;
const UINT_32 = { type: "integer", minimum: 0, maximum: 2 ** 32 - 1 } as const;
const INT_64 = "^(?:0|-?[1-9]\\d{0,18})$";
const UINT_64 = "^(?:0|[1-9]\\d{0,19})$";

const SCALARS: Readonly<Record<ProtoScalar, Schema>> = {
  string: { type: "string" },
  bool: { type: "boolean" },
  bytes: { type: "string", contentEncoding: "base64", description: "Standard base64, with padding" },
  int32: INT_32,
  sint32: INT_32,
  sfixed32: INT_32,
  uint32: UINT_32,
  fixed32: UINT_32,
  int64: wide(INT_64),
  sint64: wide(INT_64),
  sfixed64: wide(INT_64),
  uint64: wide(UINT_64),
  fixed64: wide(UINT_64),
  float: { type: "number" },
  double: { type: "number" },
};

/** A number of JSON keeps 53 bits. Larger 64-bit integers are decimal texts, as in all answers. */
function wide(pattern: string): Schema {
  const bounds = { minimum: pattern === UINT_64 ? 0 : Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER };
  return {
    type: ["string", "integer"],
    pattern,
    ...bounds,
    description: "A 64-bit integer: decimal digits, or a number",
  };
}

function scalarOf(proto: ProtoScalar, side: Side): Schema {
  if (side === "input") return SCALARS[proto];
  const type = SCALARS[proto]["type"] ?? "string";
  return { type: Array.isArray(type) ? "string" : type };
}

/** Returns a schema of the names in a map; undefined for any text. */
function keyNames(key: ProtoScalar): Schema | undefined {
  if (key === "string") return undefined;
  if (key === "bool") return { enum: ["true", "false"] };
  return { pattern: SCALARS[key]["minimum"] === 0 || SCALARS[key]["pattern"] === UINT_64 ? UINT_64 : INT_64 };
}

const WRAPPED: Readonly<Record<string, ProtoScalar>> = {
  DoubleValue: "double",
  FloatValue: "float",
  Int32Value: "int32",
  UInt32Value: "uint32",
  Int64Value: "int64",
  UInt64Value: "uint64",
  BoolValue: "bool",
  StringValue: "string",
  BytesValue: "bytes",
};

const WELL_KNOWN: Readonly<Record<string, Schema>> = {
  Timestamp: { type: "string", format: "date-time" },
  Duration: { type: "string", pattern: "^-?\\d{1,12}(?:\\.\\d{1,9})?s$", description: "Seconds, such as 1.5s" },
  FieldMask: { type: "string", description: "Names of fields in lowerCamelCase, separated by commas" },
  Struct: ANYTHING,
  ListValue: { type: "array", items: {} },
  Value: {},
};

/** Returns the schema of a message with a JSON form of its own. */
function wellKnownOf({ fullName }: MessageShape, side: Side): Schema {
  const name = fullName.slice(fullName.lastIndexOf(".") + 1);
  const wrapped = WRAPPED[name];
  if (wrapped !== undefined) return scalarOf(wrapped, side);
  const { description, pattern, format, ...type } = WELL_KNOWN[name] ?? {};
  return side === "output" ? type : (WELL_KNOWN[name] ?? {});
}
