import { type Fault, ManifestError } from "../../../core/errors.ts";
import { isTable } from "../../../core/json.ts";
import { closestName, hint, listed } from "../../../core/nearest.ts";
import { joinPath } from "../../../core/output-policy/field-path.ts";
import { defOf, leavesOf, type PipeSide, type Schema } from "../../../core/schema/walk.ts";
import type { ContractState, KindReport, ToolNote } from "../../../core/target-kind.ts";
import type { HttpTarget, Json, Tool } from "../../../core/types.ts";
import { fieldsOf } from "../manifest.ts";
import { bodyFormOf, JSON_TYPE, OTHER_ARGUMENTS, soleArgument, templateOf, usedArguments } from "../request.ts";
import { ApiDocument, type ApiOperation, type ApiParameter, type Part, shown } from "./document.ts";

const FINDINGS_MAX = 50;
const DEPTH_MAX = 16;
const PARTS_MAX = 2_000;

interface Findings {
  readonly faults: readonly Fault[];
  /** Observations that are not errors. */
  readonly notes: readonly Fault[];
}

/** The documents of the systems that have one. */
export class ApiContracts {
  readonly #documents = new Map<string, { readonly document: ApiDocument; readonly headers: readonly string[] }>();
  readonly #states: ContractState[] = [];
  readonly #notes: string[] = [];
  readonly #toolNotes: ToolNote[] = [];

  /**
   * Reads the document of a system.
   *
   * @throws {Error} that says what is wrong with it
   */
  add(
    system: string,
    path: string,
    {
      readFile,
      baseUrl,
      headers = [],
    }: { readonly readFile: ReadFile; readonly baseUrl: URL; readonly headers?: readonly string[] },
  ): void {
    const document = ApiDocument.at(path, readFile);
    this.#documents.set(system, { document, headers });
    const own = baseUrl.pathname.replace(/\/$/, "");
    const paths = document.serverPaths;
    if (paths.length === 0 || paths.includes(own)) return;
    const named = listed(paths.map((path) => shown(path) || "/"));
    this.#notes.push(
      `systems.${system}.http.baseUrl: its path is ${own || "/"}, and that of the document's servers ${named}: requests go to baseUrl`,
    );
  }

  /** @throws {ManifestError} for a manifest that does not fit its document */
  check({ name, input, output, target }: Tool): void {
    const known = this.#documents.get(target.system);
    if (known === undefined || !("http" in target) || target.http.graphql !== undefined) return;
    const { faults, notes } = documentFindings(known.document, { input, output }, target.http, known.headers);
    if (faults.length > 0) throw new ManifestError(name, faults);
    this.#toolNotes.push(...notes.map((note) => ({ tool: name, ...note })));
  }

  /** Returns the report once all tools are checked, and frees the documents. */
  report(): Required<Pick<KindReport, "contracts" | "notes" | "toolNotes">> {
    for (const [system, { document }] of this.#documents) {
      this.#states.push({ system, origin: "openapi", sha256: document.sha256, isPinned: true });
    }
    this.#documents.clear();
    return { contracts: this.#states, notes: this.#notes, toolNotes: this.#toolNotes };
  }
}

type ReadFile = (path: string) => Buffer;

/** Compares a manifest with the document: its operation, parameters, body and the fields of its output. */
export function documentFindings(
  document: ApiDocument,
  tool: Pick<Tool, "input" | "output">,
  http: HttpTarget["http"],
  /** Headers that the system sets in every request. */
  systemHeaders: readonly string[] = [],
): Findings {
  const comparison = new Comparison(document, { ...tool, systemHeaders });
  try {
    comparison.run(http);
  } catch (error) {
    const message = `the document is not usable here: ${error instanceof Error ? error.message : String(error)}`;
    return { faults: [...comparison.faults, { field: "target.http", message }], notes: comparison.notes };
  }
  return comparison;
}

type Side = "input" | "output";
/** A type of JSON values; integers are numbers. */
type Kind = "string" | "number" | "boolean" | "list" | "object" | "null";

/** A description of one value, from all parts of the document that describe it. */
interface Shape {
  /** Undefined: any. */
  readonly kinds: readonly Kind[] | undefined;
  readonly properties: ReadonlyMap<string, readonly Part[]>;
  readonly required: ReadonlySet<string>;
  readonly items: readonly Part[];
  /** Schemas of members that are not listed. */
  readonly others: readonly Part[];
  /** Whether members that are not listed are described, or nothing about members is said. */
  readonly isOpen: boolean;
  readonly values: readonly unknown[] | undefined;
}

class Comparison implements Findings {
  readonly faults: Fault[] = [];
  readonly notes: Fault[] = [];
  readonly #document: ApiDocument;
  readonly #arguments: Readonly<Record<string, Schema>>;
  readonly #output: Schema;
  readonly #systemHeaders: readonly string[];

  constructor(
    document: ApiDocument,
    { input, output, systemHeaders }: Pick<Tool, "input" | "output"> & { readonly systemHeaders: readonly string[] },
  ) {
    this.#document = document;
    this.#systemHeaders = systemHeaders;
    this.#arguments = fieldsOf(input);
    this.#output = output;
  }

  run(http: HttpTarget["http"]): void {
    const operation = this.#operation(http);
    if (operation === undefined) return;
    const parameters = operation.parameters();
    this.#path(http.path, operation, parameters);
    this.#parameters("query", http.query, parameters);
    this.#parameters("header", http.headers, parameters);
    this.#body(http, operation);
    this.#answer(operation);
  }

  #fault(field: string, message: string): void {
    if (this.faults.length < FINDINGS_MAX) this.faults.push({ field, message });
  }

  #note(field: string, message: string): void {
    if (this.notes.length < FINDINGS_MAX) this.notes.push({ field, message });
  }

  #operation({ method, path }: HttpTarget["http"]): ApiOperation | undefined {
    const { operations } = this.#document;
    const wanted = segmentsOf(path);
    const fitting = operations.filter((operation) => fits(wanted, segmentsOf(operation.path)));
    // A path without parameters comes before one with parameters.
    const paths = [...new Set(fitting.map((operation) => operation.path))].sort(
      (one, other) => segmentsOf(one).filter(isParameter).length - segmentsOf(other).filter(isParameter).length,
    );
    const at = paths.map((one) => fitting.filter((operation) => operation.path === one));
    const found = at.map((same) => same.find((operation) => operation.method === method)).find(Boolean);
    if (found !== undefined) return found;
    if (paths.length > 0) {
      const methods = [...new Set(fitting.map((operation) => operation.method))];
      this.#fault(
        "target.http.method",
        `${method} is no method of this path in the document; it has ${listed(methods)}`,
      );
      return undefined;
    }
    const known = [...new Set(operations.map((operation) => operation.path))];
    const names = known.map((one) => one.replaceAll(/\{[^}]*\}/g, "{}"));
    const near = closestName(path.replaceAll(/\{[^}]*\}/g, "{}"), names);
    const similar = near === undefined ? undefined : known[names.indexOf(near)];
    const meant = similar === undefined ? "" : `; did you mean ${shown(similar)}?`;
    this.#fault("target.http.path", `is not a path of the document, which has ${known.length}${meant}`);
    return undefined;
  }

  #path(path: string, operation: ApiOperation, parameters: readonly ApiParameter[]): void {
    const own = segmentsOf(path);
    for (const [index, segment] of segmentsOf(operation.path).entries()) {
      const name = soleArgument(own[index] ?? "");
      const declared = /^\{([^{}]+)\}$/.exec(segment)?.[1];
      if (name === undefined || declared === undefined) continue;
      const parameter = parameters.find((each) => each.location === "path" && each.name === declared);
      if (parameter !== undefined) this.#argument(name, parameter);
    }
  }

  #parameters(
    location: "query" | "header",
    declared: Readonly<Record<string, string>> | undefined,
    parameters: readonly ApiParameter[],
  ): void {
    const field = `target.http.${location === "query" ? "query" : "headers"}`;
    const known = new Map(
      parameters.filter((each) => each.location === location).map((each) => [nameIn(location, each.name), each]),
    );
    const sent = Object.entries(declared ?? {});
    for (const [name, value] of sent) {
      const parameter = known.get(name) ?? this.#memberParameter(name, known);
      if (parameter === undefined) {
        const message = `the operation has no such parameter; it has ${listed([...known.keys()].map(shown))}${hint(name, known.keys())}`;
        // Many documents leave out headers that all operations take.
        if (location === "query") this.#fault(joinPath(field, name), message);
        else this.#note(joinPath(field, name), message);
        continue;
      }
      const argument = soleArgument(value);
      if (location === "query" && argument !== undefined && parameter.name === name)
        this.#argument(argument, parameter);
    }
    for (const [name, { isRequired }] of known) {
      const given = sent.find(([other]) => other === name || (location === "query" && other.startsWith(`${name}[`)));
      const isSet = OWN_HEADERS.has(name) || (location === "header" && this.#systemHeaders.includes(name));
      if (isRequired && given === undefined && !isSet) {
        this.#fault(field, `lacks ${shown(name)}, which the operation requires`);
      }
      if (isRequired && given !== undefined) this.#mustBeGiven(given[1]);
    }
  }

  /** Returns the parameter whose members are sent as `name[member]`, or without a name of its own. */
  #memberParameter(name: string, known: ReadonlyMap<string, ApiParameter>): ApiParameter | undefined {
    const outer = known.get(/^([^[\]]+)\[/.exec(name)?.[1] ?? "");
    if (outer !== undefined) return outer;
    return [...known.values()].find(({ schema, style, explode }) => {
      if (schema === undefined || style !== "form" || !explode) return false;
      const shape = this.#shape([schema], "input");
      return shape.properties.has(name) || (shape.kinds?.includes("object") === true && shape.isOpen);
    });
  }

  #mustBeGiven(template: string): void {
    const name = soleArgument(template);
    if (name === undefined || this.#arguments[name]?._zod.optout !== "optional") return;
    this.#fault(joinPath("input", name), "is optional here, and the operation requires it");
  }

  #argument(name: string, { schema, style, explode }: ApiParameter): void {
    const argument = this.#arguments[name];
    if (argument === undefined || schema === undefined || style === "content") return;
    const shape = this.#shape([schema], "input");
    // Lists that are not repeated are sent as one text.
    const isJoined = !explode && shape.kinds?.includes("list") === true;
    const kinds = isJoined ? [...(shape.kinds ?? []), "string" as const] : shape.kinds;
    this.#compare(argument, { ...shape, kinds }, { path: joinPath("input", name), side: "input", depth: 0 });
  }

  #body(http: HttpTarget["http"], operation: ApiOperation): void {
    const field = "target.http.body";
    const declared = operation.body();
    if (declared === undefined || declared.types.size === 0) {
      if (http.body !== undefined) this.#fault(field, "the operation takes no body");
      return;
    }
    if (http.body === undefined) {
      if (declared.isRequired) this.#fault(field, "is missing: the operation requires a body");
      return;
    }
    if (declared.isRequired && typeof http.body === "string") this.#mustBeGiven(http.body);
    const type = http.contentType ?? JSON_TYPE;
    const names = [...declared.types.keys()];
    const found = names.includes(type) ? type : names.find((name) => covers(name, type));
    if (found === undefined) {
      this.#fault(
        "target.http.contentType",
        `the operation does not take ${type}; it takes ${listed(names.map(shown))}`,
      );
      return;
    }
    const part = declared.types.get(found);
    if (part === undefined || bodyFormOf(type) === "text") return;
    this.#template(http.body, [part], { path: field, depth: 0, used: usedArguments(http) });
  }

  /** Compares a manifest's body, whose texts may hold arguments, with its description in the document. */
  #template(
    body: Json,
    parts: readonly Part[],
    at: { readonly path: string; readonly depth: number; readonly used: ReadonlySet<string> },
  ): void {
    const shape = this.#shape(parts, "input");
    if (at.depth > DEPTH_MAX) return;
    if (typeof body === "string") {
      const name = soleArgument(body);
      if (name === undefined) {
        this.#kinds(at.path, ["string"], shape.kinds);
      } else if (name === OTHER_ARGUMENTS) {
        const others = Object.entries(this.#arguments).filter(([other]) => !at.used.has(other));
        for (const [other, schema] of others) this.#member(other, schema, shape, { ...at, path: "input" });
        const optional = others.filter(([, schema]) => schema._zod.optout === "optional").map(([other]) => other);
        this.#required(
          shape,
          others.map(([other]) => other),
          { path: at.path, optional },
        );
      } else {
        const schema = this.#arguments[name];
        const position = { path: joinPath("input", name), side: "input", depth: at.depth } as const;
        if (schema !== undefined) this.#compare(schema, shape, position);
      }
      return;
    }
    if (Array.isArray(body)) {
      if (!this.#kinds(at.path, ["list"], shape.kinds) || shape.items.length === 0) return;
      for (const [index, item] of body.entries()) {
        this.#template(item as Json, shape.items, { ...at, path: `${at.path}[${index}]`, depth: at.depth + 1 });
      }
      return;
    }
    if (!isTable(body)) {
      this.#kinds(at.path, [body === null ? "null" : (typeof body as Kind)], shape.kinds);
      return;
    }
    if (!this.#kinds(at.path, ["object"], shape.kinds)) return;
    for (const [key, inner] of Object.entries(body)) {
      // In a form, `name[member]` is a member of `name`.
      const known = shape.properties.get(key) ?? (shape.others.length > 0 ? shape.others : undefined);
      const isMember = shape.properties.has(/^([^[\]]+)\[/.exec(key)?.[1] ?? "");
      if (known !== undefined) {
        this.#template(inner as Json, known, { ...at, path: joinPath(at.path, key), depth: at.depth + 1 });
      } else if (!isMember) this.#unknown(key, shape, joinPath(at.path, key));
    }
    const given = Object.keys(body).flatMap((key) => [key, /^([^[\]]+)\[/.exec(key)?.[1] ?? key]);
    const optional = Object.entries(body).flatMap(([key, inner]) => {
      const name = typeof inner === "string" ? soleArgument(inner) : undefined;
      const schema = name === undefined ? undefined : this.#arguments[name];
      return schema?._zod.optout === "optional" ? [key] : [];
    });
    this.#required(shape, given, { path: at.path, optional });
  }

  #unknown(key: string, { properties, isOpen }: Shape, path: string): void {
    if (isOpen) return;
    const names = [...properties.keys()];
    this.#fault(path, `the document has no such field; it has ${listed(names.map(shown))}${hint(key, names)}`);
  }

  #required(
    { required, properties }: Shape,
    given: readonly string[],
    { path, optional }: { readonly path: string; readonly optional: readonly string[] },
  ): void {
    for (const name of required) {
      if (!properties.has(name)) continue;
      if (!given.includes(name)) this.#fault(path, `lacks ${shown(name)}, which the operation requires`);
      else if (optional.includes(name)) {
        this.#fault(joinPath(path, name), "is optional here, and the operation requires it");
      }
    }
  }

  #answer(operation: ApiOperation): void {
    // Answers to HEAD have no body, whatever the document says about it.
    if (operation.method === "HEAD") return;
    const answers = operation.successes();
    const parts = answers.flatMap(({ types }) =>
      [...types].flatMap(([type, part]) => {
        const isJson = type === "*/*" || bodyFormOf(type) === "json";
        return isJson && part !== undefined ? [part] : [];
      }),
    );
    const isText = answers.some(({ types }) => [...types.keys()].some((type) => type.startsWith("text/")));
    const isDescribed = answers.every(({ types }) =>
      [...types].every(([type, part]) => part !== undefined && (type === "*/*" || bodyFormOf(type) === "json")),
    );
    if (parts.length === 0 || isText || !isDescribed) return;
    this.#compare(this.#output, this.#shape(parts, "output"), { path: "output", side: "output", depth: 0 });
  }

  #compare(declared: Schema, shape: Shape, { path, side, depth }: Position): void {
    const end: PipeSide = side === "input" ? "out" : "in";
    const leaves = leavesOf(declared, end).filter((leaf) => !EMPTY.has(defOf(leaf).type));
    const kinds = leaves.map((leaf) => kindsOfSchema(leaf, end));
    if (leaves.length === 0 || depth > DEPTH_MAX) return;
    if (
      !kinds.includes(undefined) &&
      !this.#kinds(
        path,
        kinds.flatMap((some) => some ?? []),
        shape.kinds,
      )
    )
      return;
    this.#values(path, side, { leaves, shape });
    // One fitting member of a union is enough.
    const containers = leaves.filter((leaf) => ["object", "array", "record"].includes(defOf(leaf).type));
    const [only, another] = containers;
    if (only === undefined || another !== undefined) return;
    const def = defOf(only);
    if (def.type === "array" && shape.items.length > 0) {
      const below = { path: joinPath(path, "[]"), side, depth: depth + 1 };
      this.#compare(def.element, this.#shape(shape.items, side), below);
    }
    if (def.type !== "object") return;
    const names = Object.keys(def.shape);
    for (const [name, schema] of Object.entries(def.shape)) {
      if (side === "input") this.#member(name, schema, shape, { path, depth });
      else this.#outputMember(name, schema, { shape, path, depth, names });
    }
    if (side === "output") return;
    const optional = Object.entries(def.shape).filter(([, schema]) => schema._zod.optout === "optional");
    this.#required(shape, names, { path, optional: optional.map(([name]) => name) });
  }

  #member(
    name: string,
    schema: Schema,
    shape: Shape,
    { path, depth }: { readonly path: string; readonly depth: number },
  ): void {
    const parts = shape.properties.get(name) ?? (shape.others.length > 0 ? shape.others : undefined);
    const at = joinPath(path, name);
    if (parts === undefined) this.#unknown(name, shape, at);
    else this.#compare(schema, this.#shape(parts, "input"), { path: at, side: "input", depth: depth + 1 });
  }

  #outputMember(
    name: string,
    schema: Schema,
    at: { readonly shape: Shape; readonly path: string; readonly depth: number; readonly names: readonly string[] },
  ): void {
    const { shape } = at;
    const path = joinPath(at.path, name);
    const parts = shape.properties.get(name) ?? (shape.others.length > 0 ? shape.others : undefined);
    if (parts !== undefined) {
      this.#compare(schema, this.#shape(parts, "output"), { path, side: "output", depth: at.depth + 1 });
      return;
    }
    if (shape.isOpen || leavesOf(schema, "in").every((leaf) => EMPTY.has(defOf(leaf).type))) return;
    const names = [...shape.properties.keys()];
    const similar = closestName(name, names);
    const meant = similar === undefined ? "" : `; did you mean ${shown(similar)}?`;
    const message = `no answer has this field; they have ${listed(names.map(shown))}${meant}`;
    // An optional field may be one that the service will add later, unless its name resembles an existing field.
    const isTypo = similar !== undefined && !at.names.includes(similar);
    if (schema._zod.optin === "optional" && !isTypo) this.#note(path, message);
    else this.#fault(path, message);
  }

  /** Returns whether a value of the manifest can be one of the document. Otherwise adds a fault. */
  #kinds(path: string, own: readonly Kind[], known: readonly Kind[] | undefined): boolean {
    if (known === undefined || own.length === 0 || own.some((kind) => known.includes(kind))) return true;
    const [is, should] = [own, known].map((kinds) => [...new Set(kinds)].sort().join(" or "));
    this.#fault(path, `is ${is} here, and ${should} in the document`);
    return false;
  }

  #values(
    path: string,
    side: Side,
    { leaves, shape }: { readonly leaves: readonly Schema[]; readonly shape: Shape },
  ): void {
    const closed = leaves.map(closedValues);
    if (shape.values === undefined || closed.includes(undefined)) return;
    const own = closed.flatMap((values) => values ?? []).filter((value) => value !== null);
    const known = shape.values;
    const names = known.map((value) => shown(String(value)));
    const unknown = own.filter((value) => !known.includes(value));
    if (side === "input" && unknown.length > 0) {
      const like = hint(String(unknown[0]), names);
      this.#fault(path, `the document has no value ${listed(unknown.map(String))}; it has ${listed(names)}${like}`);
    }
    if (side === "input" || own.length === 0) return;
    const missing = known
      .filter((value) => value !== null && !own.includes(value))
      .map((value) => shown(String(value)));
    if (unknown.length === own.length)
      this.#fault(path, `accepts no value of the document, which has ${listed(names)}`);
    else if (missing.length > 0) {
      this.#note(path, `an answer with ${listed(missing)} would be withheld: the output schema does not accept it`);
    }
  }

  /** Returns what the parts say together about one value; several parts are alternatives. */
  #shape(parts: readonly Part[], side: Side): Shape {
    const seen = { parts: 0, values: new Set<unknown>() };
    return merged(
      parts.map((part) => this.#read(part, side, seen)),
      "any",
    );
  }

  #read(part: Part, side: Side, seen: { parts: number; readonly values: Set<unknown> }): Shape {
    const { value, file } = this.#document.follow(part);
    seen.parts += 1;
    if (!isTable(value) || seen.values.has(value) || seen.parts > PARTS_MAX) return ANYTHING;
    seen.values.add(value);
    const hidden = side === "input" ? "readOnly" : "writeOnly";
    const declared = isTable(value["properties"]) ? Object.entries(value["properties"]) : [];
    const properties = declared.filter(([, inner]) => !(isTable(inner) && inner[hidden] === true));
    const more = value["additionalProperties"];
    const names = Array.isArray(value["required"]) ? value["required"].filter((name) => typeof name === "string") : [];
    const isObject = declared.length > 0 || isTable(more);
    const own: Shape = {
      kinds: kindsOfTypes(value, isObject),
      properties: new Map(properties.map(([name, inner]) => [name, [{ value: inner, file }]])),
      required: new Set(names),
      items: value["items"] === undefined ? [] : [{ value: value["items"], file }],
      others: isTable(more) && Object.keys(more).length > 0 ? [{ value: more, file }] : [],
      isOpen:
        declared.length === 0 ? more !== false : more === true || isTable(more) || isTable(value["patternProperties"]),
      values: Array.isArray(value["enum"]) ? value["enum"] : valuesOf(value["const"]),
    };
    const partsOf = (keyword: string): readonly Shape[] => {
      const list = value[keyword];
      return Array.isArray(list) ? list.map((inner) => this.#read({ value: inner, file }, side, seen)) : [];
    };
    const choices = [...partsOf("anyOf"), ...partsOf("oneOf")];
    const every = partsOf("allOf");
    seen.values.delete(value);
    const isSilent = declared.length === 0 && more === undefined;
    const all = [own, ...every, ...(choices.length > 0 ? [merged(choices, "any")] : [])];
    const [only, another] = isSilent && all.length > 1 && own.kinds === undefined ? all.slice(1) : all;
    return another === undefined && only !== undefined ? only : merged(all, "all");
  }
}

interface Position {
  readonly path: string;
  readonly side: Side;
  readonly depth: number;
}

const ANYTHING: Shape = {
  kinds: undefined,
  properties: new Map(),
  required: new Set<string>(),
  items: [],
  others: [],
  isOpen: true,
  values: undefined,
};

/** Returns what several shapes say about a value of which all apply, or any. */
function merged(shapes: readonly Shape[], how: "all" | "any"): Shape {
  const [only, another] = shapes;
  if (only === undefined) return ANYTHING;
  if (another === undefined) return only;
  const properties = new Map<string, readonly Part[]>();
  for (const shape of shapes) {
    for (const [name, parts] of shape.properties) properties.set(name, [...(properties.get(name) ?? []), ...parts]);
  }
  const kinds = shapes.flatMap((shape) => (shape.kinds === undefined ? [] : [shape.kinds]));
  const isAll = how === "all";
  const objects = shapes.filter((shape) => shape.properties.size > 0);
  const isUnknown = isAll ? kinds.length === 0 : kinds.length < shapes.length;
  const values = shapes.map((shape) => shape.values);
  return {
    kinds: isUnknown ? undefined : [...new Set(isAll ? (kinds[0] ?? []) : kinds.flat())],
    properties,
    // A manifest may state the requirements of a choice in another form.
    required: new Set(isAll ? shapes.flatMap(({ required }) => [...required]) : []),
    items: shapes.flatMap((shape) => shape.items),
    others: shapes.flatMap((shape) => shape.others),
    // A part without members says nothing about them when another part has some.
    isOpen: (objects.length > 0 && isAll ? objects : shapes).some(
      (shape) => shape.isOpen && (isAll || shape.kinds === undefined || shape.kinds.includes("object")),
    ),
    values: isAll ? values.find((some) => some !== undefined) : allValues(values),
  };
}

function allValues(lists: readonly (readonly unknown[] | undefined)[]): readonly unknown[] | undefined {
  return lists.includes(undefined) ? undefined : lists.flatMap((values) => values ?? []);
}

const KINDS: Readonly<Record<string, Kind>> = {
  string: "string",
  integer: "number",
  number: "number",
  boolean: "boolean",
  array: "list",
  object: "object",
  null: "null",
};

function kindsOfTypes(
  { type, nullable }: Readonly<Record<string, unknown>>,
  isObject: boolean,
): readonly Kind[] | undefined {
  const implied = isObject ? "object" : [];
  const kinds = [type ?? implied].flat().flatMap((name) => KINDS[String(name)] ?? []);
  if (kinds.length === 0) return undefined;
  return nullable === true ? [...kinds, "null"] : kinds;
}

function valuesOf(value: unknown): readonly unknown[] | undefined {
  return value === undefined ? undefined : [value];
}

/** Types without values. In a union, only the other members count. */
const EMPTY: ReadonlySet<string> = new Set(["null", "undefined", "void", "never"]);

const SCHEMA_KINDS: Readonly<Record<string, Kind>> = {
  string: "string",
  template_literal: "string",
  number: "number",
  int: "number",
  boolean: "boolean",
  array: "list",
  tuple: "list",
  set: "list",
  object: "object",
  record: "object",
};

/** Returns the types that a schema accepts or produces; undefined when they are not known. */
function kindsOfSchema(schema: Schema, end: PipeSide): readonly Kind[] | undefined {
  const def = defOf(schema);
  // A coercing schema accepts nearly anything.
  if (end === "in" && "coerce" in def && def.coerce === true) return undefined;
  const values = closedValues(schema);
  if (values !== undefined)
    return [...new Set(values.flatMap((value) => KINDS[value === null ? "null" : typeof value] ?? []))];
  // Dates are sent as text.
  if (def.type === "date" && end === "out") return ["string"];
  const kind = SCHEMA_KINDS[def.type];
  return kind && [kind];
}

function closedValues(schema: Schema): readonly unknown[] | undefined {
  const def = defOf(schema);
  if (def.type === "enum") return Object.values(def.entries);
  return def.type === "literal" ? def.values : undefined;
}

function segmentsOf(path: string): readonly string[] {
  return path.split("/").slice(1);
}

function isParameter(segment: string): boolean {
  return segment.includes("{");
}

/** Returns whether a manifest's path is one of a document's path: literal segments are the same, and parameters may be fixed. */
function fits(own: readonly string[], declared: readonly string[]): boolean {
  if (own.length !== declared.length) return false;
  return declared.every((segment, index) => {
    const other = own[index] ?? "";
    if (!isParameter(segment)) return segment === other;
    const literals = (text: string): string => text.replaceAll(/\{[^{}]*\}/g, "{}");
    if (literals(segment) === literals(other)) return true;
    return segment === `{${segment.slice(1, -1)}}` && templateOf(other) !== undefined && other !== "";
  });
}

function nameIn(location: "query" | "header", name: string): string {
  return location === "header" ? name.toLowerCase() : name;
}

/** Headers that OpenAPI describes elsewhere, or that the proxy sends itself. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  ...["accept", "content-type", "authorization", "idempotency-key", "traceparent", "host", "cookie"],
]);

/** Returns whether a media range such as `application/*` covers a type. */
function covers(range: string, type: string): boolean {
  return range === "*/*" || (range.endsWith("/*") && type.startsWith(range.slice(0, -1)));
}
