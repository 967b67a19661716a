import { z } from "zod";

export type Schema = z.core.$ZodType;

/** The definition of any Zod schema, told apart by `type`. */
type SchemaDef = z.core.$ZodTypes["_zod"]["def"];

export function defOf(schema: Schema): SchemaDef {
  return schema._zod.def as SchemaDef;
}

/** What a `z.lazy` stands for, always the same: its getter may build a new schema at every call. */
export function lazySchema(schema: Schema): Schema {
  return (schema as z.core.$ZodLazy)._zod.innerType;
}

/** A place in a schema: every container that can stand at one path. Places are made once, so `===` compares them. */
export interface SchemaNode {
  readonly id: number;
  /** Keys that the schema spells out here. */
  readonly keys: readonly string[];
  /** Whether keys here are data: a record whose keys are not a closed list. */
  readonly keysAreData: boolean;
}

/** A map of a schema's output. A step to where no value can be gives `undefined`; a scalar is a place without steps. */
export interface SchemaMap {
  readonly root: SchemaNode;
  /** The place of a scalar, and of everything outside the schema. */
  readonly nothing: SchemaNode;
  key(place: SchemaNode, name: string): SchemaNode | undefined;
  /** The place below a key that the schema does not spell out. */
  otherKey(place: SchemaNode): SchemaNode | undefined;
  element(place: SchemaNode): SchemaNode | undefined;
}

/** What stands at the keys of a loose record that its key schema refuses. */
export const ANYTHING: Schema = z.unknown();

const PLACES_MAX = 5_000;

interface Container {
  readonly keys: ReadonlyMap<string, Schema>;
  readonly otherKey: Schema | undefined;
  readonly elements: readonly Schema[];
  readonly keysAreData: boolean;
}

interface KnownPlace extends SchemaNode {
  readonly containers: readonly Container[];
}

/** Maps what a schema can give. Throws a RangeError when it never ends (a `z.lazy` that builds new schemas each time). */
export function placesOf(output: Schema): SchemaMap {
  const containers = new Map<Schema, { readonly id: number; readonly container: Container }>();
  const known = new Map<string, KnownPlace>();
  const steps = new Map<string, KnownPlace | undefined>();

  const containerOf = (schema: Schema) => {
    const found = containers.get(schema) ?? { id: containers.size, container: readContainer(schema) };
    if (containers.size >= PLACES_MAX) throw new RangeError(`the schema has more than ${PLACES_MAX} parts`);
    containers.set(schema, found);
    return found;
  };
  const placeOf = (schemas: readonly Schema[]): KnownPlace => {
    const members = [...containersIn(schemas)].map(containerOf).sort((a, b) => a.id - b.id);
    const name = members.map((member) => member.id).join();
    const place =
      known.get(name) ??
      newPlace(
        known.size,
        members.map((member) => member.container),
      );
    known.set(name, place);
    return place;
  };
  const step = (place: SchemaNode, name: string, targets: (container: Container) => readonly Schema[]) => {
    const memo = `${place.id} ${name}`;
    if (steps.has(memo)) return steps.get(memo);
    const schemas = (place as KnownPlace).containers
      .flatMap(targets)
      .filter((schema) => defOf(schema).type !== "never");
    const next = schemas.length === 0 ? undefined : placeOf(schemas);
    steps.set(memo, next);
    return next;
  };

  return {
    nothing: placeOf([]),
    root: placeOf([output]),
    key: (place, name) => step(place, `.${name}`, (container) => one(container.keys.get(name) ?? container.otherKey)),
    otherKey: (place) => step(place, "*", (container) => one(container.otherKey)),
    element: (place) => step(place, "[]", (container) => container.elements),
  };
}

function one(schema: Schema | undefined): readonly Schema[] {
  return schema === undefined ? [] : [schema];
}

function newPlace(id: number, containers: readonly Container[]): KnownPlace {
  const keys = [...new Set(containers.flatMap((container) => [...container.keys.keys()]))];
  return { id, containers, keys, keysAreData: containers.some((container) => container.keysAreData) };
}

/** The schemas of containers that a value may have here, wrappers and choices taken off. Scalars have NO_STEPS. */
function containersIn(schemas: readonly Schema[]): ReadonlySet<Schema> {
  const seen = new Set<Schema>();
  const found = new Set<Schema>();
  const todo = [...schemas];
  for (let schema = todo.pop(); schema !== undefined; schema = todo.pop()) {
    if (seen.has(schema)) continue;
    if (seen.size >= PLACES_MAX) throw new RangeError(`the schema has more than ${PLACES_MAX} parts`);
    seen.add(schema);
    const inner = innerSchemas(schema, "out");
    if (inner !== undefined) todo.push(...inner);
    else if (isContainer(schema)) found.add(schema);
  }
  return found;
}

/** Which end of a pipe counts: what a schema is given, or what it makes of that. */
export type End = "in" | "out";

/** What a wrapper or a choice stands for; `undefined` when the schema is neither. */
export function innerSchemas(schema: Schema, end: End): readonly Schema[] | undefined {
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
      return [def[end]];
    case "union":
      return def.options;
    case "intersection":
      return [def.left, def.right];
    default:
      return undefined;
  }
}

const OPAQUE: ReadonlySet<string> = new Set(["any", "unknown", "custom", "transform"]);
const STRUCTURED: ReadonlySet<string> = new Set(["object", "record", "array", "tuple"]);

function isContainer(schema: Schema): boolean {
  const { type } = defOf(schema);
  return OPAQUE.has(type) || STRUCTURED.has(type);
}

const NO_STEPS: Container = { keys: new Map(), otherKey: undefined, elements: [], keysAreData: false };

/** Read once per schema: getters in a shape build new schemas every time they are read. */
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
