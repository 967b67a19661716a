import type {
  CedarValueJson,
  DetailedError,
  EntityJson,
  EntityUidJson,
  PolicyJson,
  TypeAndId,
} from "@cedar-policy/cedar-wasm/web";
import { isTable } from "../../core/json.ts";
import { hint } from "../../core/nearest.ts";
import { BOUNDED_TEXT_LIMITS, parseStrictJson, whyUnusable } from "../../core/strict-json.ts";
import type { Json, Tool } from "../../core/types.ts";
import { readNamed } from "../../egress/certificates.ts";
import type { OpenedPoint, PointAnswer, PointContext, PointQuestion } from "../kind.ts";
import { type Engine, loadEngine, PolicySets } from "./engine.ts";
import { cedarValue, type NumberShape, shapeOf } from "./values.ts";

interface CedarFiles {
  readonly policiesFile: string;
  readonly schemaFile?: string | undefined;
  readonly entitiesFile?: string | undefined;
}

interface Policy {
  /** The annotation `@id`, or `policy` with the policy's position in the file. */
  readonly id: string;
  readonly text: string;
  readonly json: PolicyJson;
}

type EntityKey = string;
type Entities = ReadonlyMap<EntityKey, EntityJson>;

const FILE_BYTES_MAX = 8_388_608;
const POLICIES_MAX = 10_000;
const PROBLEMS_MAX = 50;
const NAMED_MAX = 4;
const AMBIGUOUS =
  'several issuers have agents, and Client::"…" is a subject of any of them: add when { principal in Issuer::"…" }';
const ACTION: TypeAndId = { type: "Action", id: "call_tool" };

/** Reads, parses and validates the files. Adds all problems with their places; returns undefined after one. */
export async function openCedar(files: CedarFiles, context: PointContext): Promise<OpenedPoint | undefined> {
  const engine = await loadEngine();
  const loading = new Loading(engine, context);
  const texts = {
    policies: loading.text("policiesFile", files.policiesFile),
    schema: files.schemaFile === undefined ? undefined : loading.text("schemaFile", files.schemaFile),
    entities: files.entitiesFile === undefined ? undefined : loading.text("entitiesFile", files.entitiesFile),
  };
  if (loading.hasFailed) return undefined;
  const actions = texts.schema === undefined ? [] : loading.schema(texts.schema);
  const policies = texts.policies === undefined ? [] : loading.policies(texts.policies, texts.schema);
  const entities = texts.entities === undefined ? [] : loading.entities(texts.entities, texts.schema);
  if (loading.hasFailed) return undefined;
  const { notes } = loading;
  const named = policies.filter(({ json: { principal } }) => principal.op === "==");
  if (context.issuers.length > 1) notes.push(...named.map(({ id }) => `${context.field}: policy ${id}: ${AMBIGUOUS}`));
  return new CedarPoint(engine, { policies, entities: entityMap([...actions, ...entities]), notes, now: context.now });
}

type FileKey = keyof CedarFiles;

/** Reads one point's files. Problems name the field, the file and the place in it. */
class Loading {
  readonly notes: string[] = [];
  readonly #engine: Engine;
  readonly #context: PointContext;
  readonly #problemsBefore: number;
  readonly #paths = new Map<FileKey, string>();

  constructor(engine: Engine, context: PointContext) {
    this.#engine = engine;
    this.#context = context;
    this.#problemsBefore = context.problems.length;
  }

  get hasFailed(): boolean {
    return this.#context.problems.length > this.#problemsBefore;
  }

  text(key: FileKey, path: string): string | undefined {
    this.#paths.set(key, path);
    const bytes = readNamed(this.#context, path, `${this.#context.field}.${key}`);
    if (bytes === undefined) return undefined;
    if (bytes.length > FILE_BYTES_MAX) return this.#problem(key, `is larger than ${FILE_BYTES_MAX} bytes`);
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      return this.#problem(key, "is not UTF-8");
    }
  }

  /** Returns the schema's actions as entities, so that `action in Action::"group"` means the same at every call. */
  schema(text: string): readonly EntityJson[] {
    const parsed = this.#engine.schemaToJson(text);
    if (parsed.type === "failure") {
      this.#report("schemaFile", text, parsed.errors);
      return [];
    }
    return Object.entries(parsed.json).flatMap(([namespace, { actions }]) => {
      const type = namespace === "" ? "Action" : `${namespace}::Action`;
      return Object.entries(actions).map(([id, { memberOf = [] }]) => ({
        uid: { type, id },
        attrs: {},
        parents: memberOf.map((parent) => ({ type: parent.type ?? type, id: parent.id })),
      }));
    });
  }

  policies(text: string, schema: string | undefined): readonly Policy[] {
    const parts = this.#engine.policySetTextToParts(text);
    if (parts.type === "failure") {
      this.#report("policiesFile", text, parts.errors);
      return [];
    }
    if (parts.policy_templates.length > 0) this.#problem("policiesFile", "holds templates, which nothing links");
    if (parts.policies.length > POLICIES_MAX) this.#problem("policiesFile", `holds more than ${POLICIES_MAX} policies`);
    if (this.hasFailed) return [];
    // The parts are sorted by the ids `policy0`, `policy1` …, as texts.
    const positions = parts.policies.map((_, index) => `policy${index}`).sort();
    const policies = parts.policies.map((part, index) => this.#policy(part, positions[index] ?? ""));
    const found = policies.filter((policy) => policy !== undefined);
    const ids = found.map(({ id }) => id);
    for (const id of new Set(ids.filter((each, index) => ids.indexOf(each) < index)))
      this.#problem("policiesFile", `two policies have the id ${JSON.stringify(id)}`);
    if (schema !== undefined)
      this.#validate(text, schema, new Map(positions.map((at, index) => [at, ids[index] ?? at])));
    return found;
  }

  #policy(text: string, position: string): Policy | undefined {
    const parsed = this.#engine.policyToJson(text);
    if (parsed.type === "failure") {
      this.#report("policiesFile", text, parsed.errors);
      return undefined;
    }
    return { id: parsed.json.annotations?.["id"] ?? position, text, json: parsed.json };
  }

  #validate(text: string, schema: string, idAt: ReadonlyMap<string, string>): void {
    const answer = this.#engine.validate({ schema, policies: { staticPolicies: text } });
    if (answer.type === "failure") {
      this.#report("policiesFile", text, answer.errors);
      return;
    }
    const named = (errors: typeof answer.validationErrors) =>
      errors.map(({ policyId, error }) => ({
        ...error,
        message: error.message.replaceAll(`\`${policyId}\``, `\`${idAt.get(policyId) ?? policyId}\``),
      }));
    this.#report("policiesFile", text, named(answer.validationErrors));
    const warnings = named(answer.validationWarnings).slice(0, PROBLEMS_MAX);
    this.notes.push(...warnings.map((warning) => this.#worded("policiesFile", text, warning)));
  }

  entities(text: string, schema: string | undefined): readonly EntityJson[] {
    let entities: EntityJson[];
    try {
      entities = parseStrictJson(text, BOUNDED_TEXT_LIMITS) as unknown as EntityJson[];
    } catch (error) {
      this.#problem("entitiesFile", `is not JSON that can be used: ${whyUnusable(error)}`);
      return [];
    }
    const checked = this.#engine.checkParseEntities({ entities, ...(schema !== undefined && { schema }) });
    if (checked.type === "failure") this.#report("entitiesFile", text, checked.errors);
    // Calls are decided without the schema, which describes neither all arguments of all tools nor what the service adds.
    const plain = this.#engine.checkParseEntities({ entities });
    if (checked.type === "success" && plain.type === "failure") this.#report("entitiesFile", text, plain.errors);
    return checked.type === "success" ? entities : [];
  }

  #report(key: FileKey, text: string, errors: readonly DetailedError[]): void {
    for (const error of errors.slice(0, PROBLEMS_MAX)) this.#context.problems.push(this.#worded(key, text, error));
  }

  #problem(key: FileKey, message: string): undefined {
    this.#context.problems.push(`${this.#context.field}.${key}: ${this.#paths.get(key)} ${message}`);
  }

  #worded(key: FileKey, text: string, { message, help, sourceLocations = [] }: DetailedError): string {
    const [at] = sourceLocations;
    const place = at === undefined ? "" : `${placeOf(text, at.start)}: `;
    const advice = [at?.label, help].filter((each) => each).join("; ");
    const line = `${message}${advice === "" ? "" : ` (${advice})`}`.replaceAll(/\s+/g, " ");
    return `${this.#context.field}.${key}: ${this.#paths.get(key)}: ${place}${line}`;
  }
}

/** Returns the line and column of an offset in bytes. */
function placeOf(text: string, offset: number): string {
  const before = Buffer.from(text).subarray(0, offset).toString("utf8").split("\n");
  return `line ${before.length}, column ${(before.at(-1) ?? "").length + 1}`;
}

interface CedarParts {
  readonly policies: readonly Policy[];
  readonly entities: Entities;
  readonly notes: readonly string[];
  readonly now: () => number;
}

/** What is prepared for the calls of one tool. */
interface ToolPolicies {
  readonly setId: string;
  readonly shape: NumberShape;
  readonly entity: EntityJson;
}

class CedarPoint implements OpenedPoint {
  readonly notes: readonly string[];
  readonly #engine: Engine;
  readonly #parts: CedarParts;
  readonly #sets: PolicySets;
  readonly #tools = new WeakMap<Tool, ToolPolicies>();
  /** Entities that a policy names: it may read them whoever calls. */
  readonly #named: readonly EntityKey[];
  readonly readsMoment: boolean;
  /** Whether a policy reads the time: Cedar takes longer to read one than for ten policies. */
  readonly #readsTime: boolean;

  constructor(engine: Engine, parts: CedarParts) {
    this.notes = parts.notes;
    this.#engine = engine;
    this.#parts = parts;
    this.#sets = new PolicySets(engine);
    this.#readsTime = parts.policies.some(({ json }) => JSON.stringify(json.conditions).includes('"now"'));
    this.readsMoment = this.#readsTime || parts.policies.some(({ json }) => OWN_CLAIM.test(JSON.stringify(json)));
    this.#named = [...new Set(parts.policies.flatMap(({ json }) => [...entitiesIn(json)]))];
  }

  prepare(tools: readonly Tool[]): readonly string[] {
    for (const tool of tools) this.#toolPolicies(tool);
    const known = tools.map(({ name }) => name);
    return this.#parts.policies.flatMap(({ id, json: { resource } }) => {
      const entity = resource.op === "==" && "entity" in resource ? uidOf(resource.entity) : undefined;
      if (entity?.type !== "Tool" || known.includes(entity.id)) return [];
      return [`policy ${id}: no tool is called ${entity.id}${hint(entity.id, known)}`];
    });
  }

  state() {
    return { facts: { policies: this.#parts.policies.length, entities: this.#parts.entities.size } };
  }

  preview(question: PointQuestion): Json {
    const { setId: _, ...call } = this.#callOf(question);
    return call as unknown as Json;
  }

  /** A policy that cannot be evaluated denies, also one that Cedar would skip: it may be a `forbid`. */
  evaluate(question: PointQuestion): PointAnswer {
    const { setId: preparsedPolicySetId, ...call } = this.#callOf(question);
    const answer = this.#engine.statefulIsAuthorized({ ...call, preparsedPolicySetId });
    if (answer.type === "failure") throw new Error(answer.errors.map(({ message }) => message).join("; "));
    const { decision, diagnostics } = answer.response;
    const [failed] = diagnostics.errors;
    if (failed !== undefined) throw new Error(`policy ${failed.policyId}: ${failed.error.message}`);
    if (decision === "allow") return { allows: true, reasons: [] };
    const { reason } = diagnostics;
    if (reason.length === 0) return { allows: false, reasons: ["no policy permits the call"] };
    return {
      allows: false,
      reasons: [...reason]
        .sort()
        .slice(0, NAMED_MAX)
        .map((id) => `forbidden by policy ${id}`),
    };
  }

  close(): void {
    this.#sets.close();
  }

  #callOf({ tool, caller, args }: PointQuestion) {
    const { issuer, subject, tenant, actors, permissions, claims = {} } = caller;
    const { setId, shape, entity } = this.#toolPolicies(tool);
    const known: Record<string, CedarValueJson> = {
      ...prefixed("claim_", claims, ANY_SHAPE),
      claim_iss: issuer,
      claim_sub: subject,
      claim_act: [...actors],
      claim_permissions: [...permissions],
      ...(tenant !== undefined && { tenant }),
    };
    const principal: TypeAndId = { type: "Client", id: subject };
    const client = this.#merged({ uid: principal, attrs: known, parents: [{ type: "Issuer", id: issuer }] });
    const context = {
      ...known,
      ...(args !== undefined && prefixed("arg_", args, shape)),
      ...(this.#readsTime && { now: { __extn: { fn: "datetime", arg: new Date(this.#parts.now()).toISOString() } } }),
    };
    return {
      setId,
      principal,
      action: ACTION,
      resource: uidOf(entity.uid),
      context,
      entities: this.#entitiesOf(client, entity),
    };
  }

  #toolPolicies(tool: Tool): ToolPolicies {
    this.#sets.assertOpen();
    const found = this.#tools.get(tool);
    if (found !== undefined) return found;
    const { name, classification, category, permissions, target } = tool;
    const uid: TypeAndId = { type: "Tool", id: name };
    const attrs = { name, classification, category, system: target.system, permissions: [...permissions.required] };
    const made = {
      setId: this.#sets.add(this.#parts.policies.filter(({ json }) => mayConcern(json, uid))),
      shape: knownShape(tool),
      entity: this.#merged({ uid, attrs, parents: [{ type: "System", id: target.system }] }),
    };
    this.#tools.set(tool, made);
    return made;
  }

  /** Joins what the service knows of an entity with what the file says. The service's own attributes win. */
  #merged(own: EntityJson): EntityJson {
    const written = this.#parts.entities.get(keyOf(own.uid));
    if (written === undefined) return own;
    return { ...written, attrs: { ...written.attrs, ...own.attrs }, parents: [...written.parents, ...own.parents] };
  }

  /**
   * Returns the entities that the evaluation can reach: those of the request, those that policies name, and from these on their
   * parents and the entities in their attributes.
   */
  #entitiesOf(client: EntityJson, tool: EntityJson): EntityJson[] {
    const { entities } = this.#parts;
    const reached = new Map<EntityKey, EntityJson>([client, tool].map((entity) => [keyOf(entity.uid), entity]));
    const open = [keyOf(ACTION), ...this.#named, ...references(client), ...references(tool)];
    for (const key of open) {
      const entity = reached.has(key) ? undefined : entities.get(key);
      if (entity === undefined) continue;
      reached.set(key, entity);
      open.push(...references(entity));
    }
    return [...reached.values()];
  }
}

/** A claim other than those that every call has, also in the audit. */
const OWN_CLAIM = /"claim_(?!(?:iss|sub|act|permissions)")/;

const ANY_SHAPE: NumberShape = { members: new Map() };

/** The schema of some functions' arguments is no JSON Schema: then each number is mapped by its value. */
function knownShape(tool: Tool): NumberShape {
  try {
    return shapeOf(tool);
  } catch {
    return ANY_SHAPE;
  }
}

function prefixed(
  prefix: "arg_" | "claim_",
  values: Readonly<Record<string, Json>>,
  shape: NumberShape,
): Record<string, CedarValueJson> {
  const mapped = cedarValue(values, shape, prefix === "arg_" ? "arguments" : "claims");
  const members = isTable(mapped) ? Object.entries(mapped) : [];
  return Object.fromEntries(members.map(([name, value]) => [`${prefix}${name}`, value as CedarValueJson]));
}

/**
 * Returns whether a policy's scope may match calls of a tool. A policy that is left out would not be evaluated for such a call
 * either, so that it changes neither the decision nor the errors. Hierarchies are never judged here.
 */
function mayConcern({ action, resource }: PolicyJson, tool: TypeAndId): boolean {
  if (action.op === "==" && "entity" in action && !isSame(action.entity, ACTION)) return false;
  if (resource.op === "==" && "entity" in resource) return isSame(resource.entity, tool);
  return resource.op !== "is" || resource.entity_type === tool.type;
}

function isSame(one: EntityUidJson, other: EntityUidJson): boolean {
  return keyOf(one) === keyOf(other);
}

function uidOf(uid: EntityUidJson): TypeAndId {
  return "__entity" in uid ? uid.__entity : uid;
}

function keyOf(uid: EntityUidJson): EntityKey {
  const { type, id } = uidOf(uid);
  return JSON.stringify([type, id]);
}

/** An entity that is written twice counts once, with everything that is said of it. */
function entityMap(entities: readonly EntityJson[]): Entities {
  const map = new Map<EntityKey, EntityJson>();
  for (const entity of entities) {
    const key = keyOf(entity.uid);
    const known = map.get(key);
    const joined = known && {
      attrs: { ...known.attrs, ...entity.attrs },
      parents: [...known.parents, ...entity.parents],
    };
    map.set(key, { ...entity, ...joined });
  }
  return map;
}

function references(entity: EntityJson): readonly EntityKey[] {
  return [...entity.parents.map(keyOf), ...entitiesIn(entity.attrs), ...entitiesIn(entity.tags)];
}

/** Returns the keys of the entities that occur anywhere in JSON. A record with the members `type` and `id` counts as one, too. */
function* entitiesIn(json: unknown): Generator<EntityKey> {
  if (Array.isArray(json)) for (const item of json) yield* entitiesIn(item);
  if (!isTable(json)) return;
  if (typeof json["type"] === "string" && typeof json["id"] === "string")
    yield keyOf({ type: json["type"], id: json["id"] });
  for (const member of Object.values(json)) yield* entitiesIn(member);
}
