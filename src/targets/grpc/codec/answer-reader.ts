import { VOUCHED_LIMITS, vouchFor } from "../../../core/digest.ts";
import type { Json } from "../../../core/types.ts";
import { WIRE, WireCursor } from "../../../egress/grpc/wire-cursor.ts";
import { ANY, type EnumShape, type FieldShape, type MessageShape, type ScalarShape } from "../contract/declarations.ts";
import { type AnyTypes, wellKnown } from "./well-known.ts";
import { type ReadValue, WIRE_SCALARS, type WireScalar, wireTypeOf } from "./wire.ts";

interface Mode {
  readonly plans: Map<MessageShape, Plan>;
  readonly isJson: boolean;
}

/** Messages that contain each other, and are converted to JSON together. */
const STRUCTURES: ReadonlySet<string> = new Set(
  ["Struct", "Value", "ListValue"].map((name) => `google.protobuf.${name}`),
);

/** Limits of answers that are passed to `vouchFor`: even two bytes can be a message with many values. */
const VOUCHED_BYTES_MAX = 8_192;
const VOUCHED_FIELDS_MAX = 100;
/** Maximum nesting of messages. Each may be in a list, which is a further level. */
const VOUCHED_MESSAGES_MAX = VOUCHED_LIMITS.depthMax / 2;

/** A length of zero: a message without set fields, or the value zero of an enum. */
const EMPTY_CONTENT = Buffer.alloc(1);

/** Maximum number of fields in an answer, with filled-in ones: even two bytes can be a message with many fields. */
const ANSWER_FIELDS_MAX = 2_000_000;

export interface FieldBudget {
  readonly max: number;
  left: number;
}

export function fieldBudget(max = ANSWER_FIELDS_MAX): FieldBudget {
  return { max, left: max };
}

/**
 * Converts a message's bytes into its JSON form in one pass. Unset fields get their zero values; 64-bit integers, bytes
 * and enums become strings; well-known messages get their own forms; unknown fields are ignored, as proto3 requires.
 * Keys are sorted, so that nothing has to sort them again. Rejected: a library's decoder, whose messages would be
 * converted once more (@bufbuild/protobuf took two to three times as long).
 */
export class AnswerReader {
  readonly #any: AnyTypes;
  readonly #json: Mode = { plans: new Map(), isJson: true };
  readonly #raw: Mode = { plans: new Map(), isJson: false };
  #budget: FieldBudget | undefined;

  constructor(any: AnyTypes) {
    this.#any = any;
  }

  /**
   * Returns the JSON form. The content of an Any counts for the budget of its answer.
   *
   * @throws {Error} when the bytes are not a valid message of the type
   */
  read(bytes: Buffer, shape: MessageShape, budget = this.#budget ?? fieldBudget()): Json {
    const outer = this.#budget;
    this.#budget = budget;
    try {
      const plan = this.#planOf(shape, this.#json);
      const answer = this.#message(new WireCursor(bytes), plan) as Json;
      if (plan.isFlat && bytes.length <= VOUCHED_BYTES_MAX) vouchFor(answer as object);
      return answer;
    } finally {
      this.#budget = outer;
    }
  }

  #message(cursor: WireCursor, plan: Plan): unknown {
    const members = this.#start(plan);
    this.#add(cursor, plan, members);
    return this.#finish(plan, members);
  }

  /** Returns the initial members of a message, and counts its fields. */
  #start(plan: Plan): unknown[] {
    const budget = this.#budget ?? fieldBudget();
    budget.left -= plan.names.length;
    if (budget.left < 0) throw new RangeError(`an answer of more than ${budget.max} fields`);
    return plan.zeros.slice();
  }

  #add(cursor: WireCursor, plan: Plan, members: unknown[]): void {
    while (cursor.position < cursor.end) {
      const number = cursor.tag();
      const field = plan.fields.get(number);
      if (field === undefined || !readField(cursor, field, members)) cursor.skip(number);
    }
  }

  #finish(plan: Plan, members: unknown[]): unknown {
    const fields = namedMembers(plan, members);
    return plan.toJson === undefined ? fields : plan.toJson(fields);
  }

  #planOf(shape: MessageShape, mode: Mode): Plan {
    const known = mode.plans.get(shape);
    if (known !== undefined) return known;
    const made = this.#makePlan(shape, mode);
    mode.plans.set(shape, made);
    return made;
  }

  #makePlan(shape: MessageShape, mode: Mode): Plan {
    const toJson = mode.isJson ? this.#specialForm(shape) : undefined;
    const inner = STRUCTURES.has(shape.fullName) ? this.#raw : mode;
    const names = [...shape.fields.keys(), ...shape.oneofs].sort();
    const slots = new Map(names.map((name, slot) => [name, slot]));
    const slotOf = (name: string): number => slots.get(name) ?? -1;
    const zeros: unknown[] = names.map(() => undefined);
    const fields = [...shape.fields].map(([name, declared]): Field => {
      const { oneof } = declared;
      const field = this.#field(declared, inner);
      const slot = slotOf(name);
      zeros[slot] = zeroOf(declared, field);
      return { ...field, slot, choice: oneof === undefined ? undefined : { slot: slotOf(oneof), name, slots } };
    });
    return {
      names,
      zeros,
      fields: new Map(fields.map((field) => [field.number, field])),
      collections: fields.filter(({ label }) => label !== "single"),
      messages: fields.filter(({ label, merge }) => label === "single" && merge !== undefined),
      required: [...shape.fields].flatMap(([name, { required }]) => (required ? [slotOf(name)] : [])),
      toJson,
      isFlat: toJson === undefined && heightOf(shape, new Map()) <= VOUCHED_MESSAGES_MAX,
    };
  }

  #specialForm(shape: MessageShape): Plan["toJson"] {
    if (shape.fullName !== ANY) return wellKnown(shape)?.toJson;
    return (fields) => this.#any.unpack(fields, (bytes, content) => this.read(bytes, content));
  }

  #field({ label, number, key, value }: FieldShape, mode: Mode): Omit<Field, "slot" | "choice"> {
    const merge = value.kind === "message" ? this.#merge(value.message, mode) : undefined;
    const read: ReadValue =
      value.kind === "message" ? (cursor) => merge?.finish(merge.add(cursor, undefined)) : valueReader(value);
    const valueWireType = wireTypeOf(value);
    return {
      label,
      number,
      wireType: label === "map" ? WIRE.bytes : valueWireType,
      read,
      merge,
      key: WIRE_SCALARS[key ?? "string"],
      valueWireType,
      missing: () => (value.kind === "scalar" ? WIRE_SCALARS[value.proto].zero : read(new WireCursor(EMPTY_CONTENT))),
    };
  }

  #merge(message: MessageShape, mode: Mode): Merge {
    // Determined at the first value, because a message may contain itself.
    let plan: Plan | undefined;
    return {
      add: (cursor, before) => {
        plan ??= this.#planOf(message, mode);
        const members: unknown[] = Array.isArray(before) ? before : this.#start(plan);
        const end = cursor.enter();
        cursor.descend();
        this.#add(cursor, plan, members);
        cursor.ascend();
        cursor.leave(end);
        return members;
      },
      finish: (members) => this.#finish(plan ?? this.#planOf(message, mode), members),
    };
  }
}

function zeroOf({ label, oneof, presence, required, value }: FieldShape, field: Pick<Field, "missing">): unknown {
  // Collections are created for each message.
  if (label !== "single" || oneof !== undefined || presence || required) return undefined;
  return value.kind === "message" ? null : field.missing();
}

function valueReader(value: ScalarShape | EnumShape): ReadValue {
  if (value.kind === "scalar") return WIRE_SCALARS[value.proto].read;
  const { names, isClosed } = value;
  return (cursor) => {
    const number = cursor.uint32() | 0;
    // An unknown number of an open enum stays a number.
    return names.get(number) ?? (isClosed ? undefined : number);
  };
}

/** Returns how deeply messages nest; infinity for maps and for messages that can hold anything. */
function heightOf(shape: MessageShape, heights: Map<MessageShape, number>): number {
  const known = heights.get(shape);
  if (known !== undefined) return known;
  // Used for a message that contains itself, until its height is known.
  heights.set(shape, Number.POSITIVE_INFINITY);
  const { fullName, fields, oneofs } = shape;
  const isOpen = STRUCTURES.has(fullName) || fullName === ANY || fields.size + oneofs.size > VOUCHED_FIELDS_MAX;
  let height = isOpen ? Number.POSITIVE_INFINITY : 1;
  for (const { label, value } of fields.values()) {
    if (label === "map") height = Number.POSITIVE_INFINITY;
    else if (value.kind === "message") height = Math.max(height, 1 + heightOf(value.message, heights));
  }
  heights.set(shape, height);
  return height;
}

type Fields = Record<string, unknown>;

const NO_VALUE = Symbol("no value");

interface Field {
  readonly label: FieldShape["label"];
  readonly number: number;
  readonly slot: number;
  readonly wireType: number;
  /** Returns `undefined` for an unknown number of a closed enum: the field counts as unset. */
  readonly read: ReadValue;
  readonly merge: Merge | undefined;
  readonly key: WireScalar;
  readonly valueWireType: number;
  readonly missing: () => unknown;
  /** For a member of a oneof: the slot that has the name of the set member, this name, and all slots by name. */
  readonly choice: Choice | undefined;
}

/** Reads a message that may come in several parts. Its members are in an array until all parts are read. */
interface Merge {
  /** `before` has the members of the earlier parts; any other value means that there is none. */
  readonly add: (cursor: WireCursor, before: unknown) => unknown[];
  readonly finish: (members: unknown[]) => unknown;
}

interface Choice {
  readonly slot: number;
  readonly name: string;
  readonly slots: ReadonlyMap<string, number>;
}

interface Plan {
  /** Names of the JSON members, sorted by UTF-16 units like the canonical text. */
  readonly names: readonly string[];
  /** Values of members that the message does not set; `undefined` omits the member. */
  readonly zeros: readonly unknown[];
  readonly fields: ReadonlyMap<number, Field>;
  readonly collections: readonly Field[];
  /** Fields with a single message. Its members are kept as an array until the end of this message. */
  readonly messages: readonly Field[];
  readonly required: readonly number[];
  readonly toJson: ((fields: Fields) => Json) | undefined;
  /** True when the answer always has few members and sorted keys, whatever the service sends. */
  readonly isFlat: boolean;
}

/** Stores the value at the cursor in the members. Returns false when the wire type is not that of the field. */
function readField(cursor: WireCursor, field: Field, members: unknown[]): boolean {
  const { wireType } = cursor;
  const { label, slot, choice } = field;
  const isPacked = wireType === WIRE.bytes && wireType !== field.wireType && label === "repeated";
  if (wireType !== field.wireType && !isPacked) return false;
  if (label === "single") {
    if (field.merge === undefined) {
      const value = field.read(cursor);
      if (value === undefined) return true;
      if (choice !== undefined) setChoice(choice, members);
      members[slot] = value;
    } else {
      if (choice !== undefined) setChoice(choice, members);
      members[slot] = field.merge.add(cursor, members[slot]);
    }
  } else if (label === "map") {
    members[slot] ??= {};
    readEntry(cursor, field, members[slot] as Fields);
  } else {
    members[slot] ??= [];
    const items = members[slot] as unknown[];
    if (isPacked) readPacked(cursor, field, items);
    else append(items, field.read(cursor));
  }
  return true;
}

/** Records the last member of a oneof, and removes the earlier one. One lookup for any number of members. */
function setChoice({ slot, name, slots }: Choice, members: unknown[]): void {
  const before = members[slot];
  if (before === name) return;
  if (typeof before === "string") members[slots.get(before) ?? slot] = undefined;
  members[slot] = name;
}

function readPacked(cursor: WireCursor, { read }: Field, items: unknown[]): void {
  const before = cursor.enter();
  while (cursor.position < cursor.end) append(items, read(cursor));
  cursor.leave(before);
}

function append(items: unknown[], value: unknown): void {
  if (value !== undefined) items.push(value);
}

/** Reads a map entry: a message whose key and value may be missing or repeated. */
function readEntry(cursor: WireCursor, field: Field, entries: Fields): void {
  const { merge } = field;
  const before = cursor.enter();
  let key: unknown;
  let value: unknown = NO_VALUE;
  while (cursor.position < cursor.end) {
    const number = cursor.tag();
    if (number === 1 && cursor.wireType === field.key.wireType) key = field.key.read(cursor);
    else if (number === 2 && cursor.wireType === field.valueWireType) {
      value = merge === undefined ? field.read(cursor) : merge.add(cursor, value);
    } else cursor.skip(number);
  }
  cursor.leave(before);
  const name = String(key ?? field.key.zero);
  if (value === NO_VALUE) value = field.missing();
  else if (merge !== undefined && Array.isArray(value)) value = merge.finish(value);
  // With an unknown number of a closed enum, the whole entry counts as unset.
  if (value === undefined) return;
  if (name === "__proto__") {
    Object.defineProperty(entries, name, { value, writable: true, enumerable: true, configurable: true });
  } else entries[name] = value;
}

/**
 * Returns the members by name; finishes merged messages and creates empty collections.
 *
 * @throws {RangeError} when a required field is missing
 */
function namedMembers({ names, collections, messages, required }: Plan, members: unknown[]): Fields {
  for (const { slot, merge } of messages) {
    const parts = members[slot];
    if (merge !== undefined && Array.isArray(parts)) members[slot] = merge.finish(parts);
  }
  for (const { slot, label } of collections) members[slot] ??= label === "map" ? {} : [];
  for (const slot of required) {
    if (members[slot] === undefined) throw new RangeError("a message without a required field");
  }
  const fields: Fields = {};
  for (let slot = 0; slot < members.length; slot += 1) {
    const value = members[slot];
    if (value !== undefined) fields[names[slot] ?? ""] = value;
  }
  return fields;
}
