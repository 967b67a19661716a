import { z } from "zod";
import { element, otherKey, type Step } from "../output-policy/field-path.ts";

export type Schema = z.core.$ZodType;

/** The definition of any Zod schema, discriminated by `type`. */
type SchemaDef = z.core.$ZodTypes["_zod"]["def"];

export function defOf(schema: Schema): SchemaDef {
  return schema._zod.def as SchemaDef;
}

/** Returns the schema inside a `z.lazy`: always the same one, although its getter may build a new one each time. */
export function lazySchema(schema: Schema): Schema {
  return (schema as z.core.$ZodLazy)._zod.innerType;
}

/** The possible containers at one path. Each node is created once, so `===` compares them. */
export interface SchemaNode {
  readonly id: number;
  /** Keys that the schema lists here. */
  readonly keys: readonly string[];
  /** True when the keys are data: those of a record without a closed list of keys. */
  readonly keysAreData: boolean;
}

/** A map of a schema's output. A step to a position without a value returns `undefined`. Scalars have no steps. */
export interface SchemaMap {
  readonly root: SchemaNode;
  /** The node of a scalar, and of every position outside the schema. */
  readonly nothing: SchemaNode;
  key(node: SchemaNode, name: string): SchemaNode | undefined;
  /** Returns the node below a key that the schema does not list. */
  otherKey(node: SchemaNode): SchemaNode | undefined;
  element(node: SchemaNode): SchemaNode | undefined;
}

/** Schema of the values of a loose record whose keys its key schema rejects. */
const ANYTHING: Schema = z.unknown();

const PARTS_MAX = 5_000;

interface Container {
  readonly keys: ReadonlyMap<string, Schema>;
  readonly otherKey: Schema | undefined;
  readonly elements: readonly Schema[];
  readonly keysAreData: boolean;
}

interface KnownNode extends SchemaNode {
  readonly containers: readonly Container[];
}

/**
 * Maps the values a schema can return.
 *
 * @throws {RangeError} when the schema never ends (a `z.lazy` that builds new schemas each time)
 */
export function schemaMapOf(output: Schema): SchemaMap {
  const containers = new Map<Schema, { readonly id: number; readonly container: Container }>();
  const known = new Map<string, KnownNode>();
  const steps = new Map<string, KnownNode | undefined>();

  const containerOf = (schema: Schema) => {
    const found = containers.get(schema) ?? { id: containers.size, container: readContainer(schema) };
    if (containers.size >= PARTS_MAX) throw new RangeError(`the schema has more than ${PARTS_MAX} parts`);
    containers.set(schema, found);
    return found;
  };
  const nodeOf = (schemas: readonly Schema[]): KnownNode => {
    const members = [...containersIn(schemas)].map(containerOf).sort((a, b) => a.id - b.id);
    const name = members.map((member) => member.id).join();
    const node =
      known.get(name) ??
      newNode(
        known.size,
        members.map((member) => member.container),
      );
    known.set(name, node);
    return node;
  };
  const step = (node: SchemaNode, name: string, targets: (container: Container) => readonly Schema[]) => {
    const memo = `${node.id} ${name}`;
    if (steps.has(memo)) return steps.get(memo);
    const schemas = (node as KnownNode).containers.flatMap(targets).filter((schema) => defOf(schema).type !== "never");
    const next = schemas.length === 0 ? undefined : nodeOf(schemas);
    steps.set(memo, next);
    return next;
  };

  return {
    nothing: nodeOf([]),
    root: nodeOf([output]),
    key: (node, name) => step(node, `.${name}`, (container) => one(container.keys.get(name) ?? container.otherKey)),
    otherKey: (node) => step(node, "*", (container) => one(container.otherKey)),
    element: (node) => step(node, "[]", (container) => container.elements),
  };
}

function one(schema: Schema | undefined): readonly Schema[] {
  return schema === undefined ? [] : [schema];
}

function newNode(id: number, containers: readonly Container[]): KnownNode {
  const keys = [...new Set(containers.flatMap((container) => [...container.keys.keys()]))];
  return { id, containers, keys, keysAreData: containers.some((container) => container.keysAreData) };
}

/** Returns the schemas of the possible containers, without wrappers and unions. Scalars are left out. */
function containersIn(schemas: readonly Schema[]): ReadonlySet<Schema> {
  const seen = new Set<Schema>();
  const found = new Set<Schema>();
  const todo = [...schemas];
  for (let schema = todo.pop(); schema !== undefined; schema = todo.pop()) {
    if (seen.has(schema)) continue;
    if (seen.size >= PARTS_MAX) throw new RangeError(`the schema has more than ${PARTS_MAX} parts`);
    seen.add(schema);
    const inner = innerSchemas(schema, "out");
    if (inner !== undefined) todo.push(...inner);
    else if (isContainer(schema)) found.add(schema);
  }
  return found;
}

/** A side of a pipe: its input value or its output value. */
export type PipeSide = "in" | "out";

/** Returns the schemas inside a wrapper or a union; `undefined` for any other schema. */
export function innerSchemas(schema: Schema, side: PipeSide): readonly Schema[] | undefined {
  const def = defOf(schema);
  switch (def.type) {
    case "optional":
    case "nullable":
    case "nonoptional":
    case "default":
    case "prefault":
    case "catch":
    case "readonly":
    case "promise":
      return [def.innerType];
    case "lazy":
      return [lazySchema(schema)];
    case "pipe":
      return [def[side]];
    case "union":
      return def.options;
    case "intersection":
      return [def.left, def.right];
    default:
      return undefined;
  }
}

/** Returns the schemas inside wrappers and unions, each once: a schema may contain itself. */
export function leavesOf(schema: Schema, side: PipeSide): readonly Schema[] {
  const leaves = new Set<Schema>();
  const seen = new Set([schema]);
  // The loop visits the schemas that it adds.
  for (const each of seen) {
    const inner = innerSchemas(each, side);
    if (inner === undefined) leaves.add(each);
    for (const next of inner ?? []) seen.add(next);
  }
  return [...leaves];
}

/** Returns the schemas directly inside a schema, each with its step; the schema inside a wrapper has no step. */
export function schemaParts(schema: Schema): readonly (readonly [Step | undefined, Schema])[] {
  const def = defOf(schema);
  switch (def.type) {
    case "object":
      return [...Object.entries(def.shape), ...(def.catchall === undefined ? [] : [[otherKey, def.catchall] as const])];
    case "record": {
      const names = def.keyType._zod.values;
      const keys: readonly Step[] = names === undefined ? [otherKey] : [...names].map(String);
      const described = keys.map((key) => [key, def.valueType] as const);
      return def.mode === "loose" ? [...described, [otherKey, ANYTHING]] : described;
    }
    case "array":
      return [[element, def.element]];
    case "tuple":
      return [...def.items, ...(def.rest === null ? [] : [def.rest])].map((item) => [element, item]);
    default:
      return (innerSchemas(schema, "out") ?? []).map((inner) => [undefined, inner]);
  }
}

/**
 * How a schema reads the value at a path. `nothing`: it drops or refuses it. `changed`: code of the manifest receives the value,
 * and what becomes of it is not known.
 */
export type DeclaredForm = "nothing" | "text" | "changed" | "other";

/** Returns how a schema reads the value at a path. */
export function declaredAt(top: Schema, path: readonly Step[]): DeclaredForm {
  let { schemas, isChanged } = parsedBy([top]);
  for (const step of path) {
    const below = parsedBy(schemas.flatMap((schema) => partsAt(schema, step)));
    schemas = below.schemas;
    isChanged ||= below.isChanged;
  }
  if (schemas.length === 0) return "nothing";
  if (schemas.some((schema) => defOf(schema).type === "string")) return "text";
  return isChanged || schemas.some((schema) => CODE.has(defOf(schema).type)) ? "changed" : "other";
}

const CODE: ReadonlySet<string> = new Set(["transform", "custom"]);

/** Returns the schemas that parse a value first, without wrappers and unions, and whether another one receives their result. */
function parsedBy(all: readonly Schema[]): { readonly schemas: readonly Schema[]; readonly isChanged: boolean } {
  const seen = new Set(all);
  const schemas: Schema[] = [];
  let isChanged = false;
  for (const schema of seen) {
    const inner = innerSchemas(schema, "in");
    if (defOf(schema).type === "pipe") isChanged = true;
    for (const each of inner ?? []) seen.add(each);
    if (inner === undefined && defOf(schema).type !== "never") schemas.push(schema);
  }
  return { schemas, isChanged };
}

function partsAt(schema: Schema, step: Step): readonly Schema[] {
  if (OPAQUE.has(defOf(schema).type)) return [schema];
  const parts = schemaParts(schema);
  const named = parts.filter(([key]) => key === step);
  const found = named.length > 0 || step === element ? named : parts.filter(([key]) => key === otherKey);
  return found.map(([, part]) => part);
}

const OPAQUE: ReadonlySet<string> = new Set(["any", "unknown", "custom", "transform"]);
const STRUCTURED: ReadonlySet<string> = new Set(["object", "record", "array", "tuple"]);

function isContainer(schema: Schema): boolean {
  const { type } = defOf(schema);
  return OPAQUE.has(type) || STRUCTURED.has(type);
}

const NO_STEPS: Container = { keys: new Map(), otherKey: undefined, elements: [], keysAreData: false };

/** Reads a schema's container. Call once per schema: getters in a shape build new schemas at every read. */
function readContainer(schema: Schema): Container {
  const def = defOf(schema);
  switch (def.type) {
    case "object":
      return { ...NO_STEPS, keys: new Map(Object.entries(def.shape)), otherKey: def.catchall };
    case "record":
      return readRecord(def);
    case "array":
      return { ...NO_STEPS, elements: [def.element] };
    case "tuple":
      return { ...NO_STEPS, elements: def.rest === null ? def.items : [...def.items, def.rest] };
    default:
      return { ...NO_STEPS, otherKey: schema, elements: [schema] };
  }
}

function readRecord({ keyType, valueType, mode }: z.core.$ZodRecordDef): Container {
  const names = keyType._zod.values;
  if (names === undefined) {
    const otherKey = mode === "loose" ? z.union([valueType, ANYTHING]) : valueType;
    return { ...NO_STEPS, otherKey, keysAreData: true };
  }
  const keys = new Map([...names].map((name) => [String(name), valueType]));
  return mode === "loose" ? { ...NO_STEPS, keys, otherKey: ANYTHING, keysAreData: true } : { ...NO_STEPS, keys };
}

/**
 * Returns the name of the output schema's only field if it is a string: the field for a target's text.
 * Checks the schema's shape, not its class: a manifest may have its own copy of zod.
 */
export function onlyStringField(output: z.ZodType): string | undefined {
  const { def } = output._zod;
  if (def.type !== "object") return undefined;
  const fields = Object.entries((def as z.core.$ZodObjectDef).shape);
  const [field] = fields;
  if (field === undefined || fields.length !== 1) return undefined;
  return field[1]._zod.def.type === "string" ? field[0] : undefined;
}
