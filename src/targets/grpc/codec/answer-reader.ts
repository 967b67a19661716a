import type protobuf from "protobufjs";
import { VOUCHED_LIMITS, vouchFor } from "../../../core/digest.ts";
import type { Json } from "../../../core/types.ts";
import type { FieldShape, MessageShape, ValueShape } from "../contract/message-shape.ts";
import { ANY, specialOf, type WellKnown } from "../contract/well-known.ts";
import { type ReadValue, WIRE, WIRE_SCALARS, WireCursor, type WireScalar } from "./wire-cursor.ts";

/** How the messages are read that a message holds. */
interface Mode {
  readonly plans: Map<MessageShape, Plan>;
  /** Whether messages with a JSON form of their own are turned into it. */
  readonly isJson: boolean;
}

/** Unset fields are filled in: a proto3 sender leaves zeros out. What is not JSON, such as NaN, becomes a text. */
const TO_ANSWER = { longs: String, enums: String, bytes: String, oneofs: true, defaults: true, json: true } as const;

/** Messages that hold each other, and whose form is made of them all at once. */
const STRUCTURES: ReadonlySet<string> = new Set(
  ["Struct", "Value", "ListValue"].map((name) => `google.protobuf.${name}`),
);

/** Two bytes make a message, and each of its fields is a value of the answer. */
const VOUCHED_BYTES_MAX = 8_192;
const VOUCHED_FIELDS_MAX = 100;
/** Messages within messages; each may stand in a list. */
const VOUCHED_MESSAGES_MAX = VOUCHED_LIMITS.depthMax / 2;

/** A length of zero: a message of which nothing is set; of an enum the zero. */
const NOTHING = Buffer.alloc(1);

/** Fields of an answer once the unset ones are filled in: two bytes on the wire can be a message of many. */
const ANSWER_FIELDS_MAX = 2_000_000;

/**
 * Reads a message's bytes into its JSON form, in one pass: fields that are not set come as their zeros, 64-bit integers,
 * bytes and enums as texts, well-known messages as their own forms. The keys of messages stand in their order, so that
 * nobody has to sort them again. Rejected: a decoder of the library's, whose messages are walked once more and thrown away.
 */
export class AnswerReader {
  readonly #typeOf: (shape: MessageShape) => protobuf.Type;
  readonly #any: WellKnown | undefined;
  readonly #json: Mode = { plans: new Map(), isJson: true };
  readonly #raw: Mode = { plans: new Map(), isJson: false };
  /** Of the answer that is being read, all that it is made of; undefined when none is. */
  #fieldsLeft: number | undefined;

  /** @param any how a google.protobuf.Any is read; without it only its type's name is */
  constructor(typeOf: (shape: MessageShape) => protobuf.Type, any: WellKnown | undefined) {
    this.#typeOf = typeOf;
    this.#any = any;
  }

  read(bytes: Buffer, shape: MessageShape): Json {
    // What an Any holds is read in the midst of the answer that it is in.
    const isInner = this.#fieldsLeft !== undefined;
    this.#fieldsLeft ??= ANSWER_FIELDS_MAX;
    try {
      const plan = this.#planOf(shape, this.#json);
      const answer = this.#message(new WireCursor(bytes), plan) as Json;
      if (plan.isFlat && bytes.length <= VOUCHED_BYTES_MAX) vouchFor(answer as object);
      return answer;
    } finally {
      if (!isInner) this.#fieldsLeft = undefined;
    }
  }

  /** The messages of one answer: their fields are counted together. */
  readAll(messages: readonly Buffer[], shape: MessageShape): readonly Json[] {
    this.#fieldsLeft = ANSWER_FIELDS_MAX;
    try {
      return messages.map((bytes) => this.read(bytes, shape));
    } finally {
      this.#fieldsLeft = undefined;
    }
  }

  /** Reads the message that ends where the cursor does. */
  #message(cursor: WireCursor, plan: Plan): unknown {
    const members = this.#start(plan);
    this.#add(cursor, plan, members);
    return this.#finish(plan, members);
  }

  /** Returns the members of a message before any field is read, and counts its fields. */
  #start(plan: Plan): unknown[] {
    const fieldsLeft = (this.#fieldsLeft ?? 0) - plan.names.length;
    this.#fieldsLeft = fieldsLeft;
    if (fieldsLeft < 0) throw new RangeError(`an answer of more than ${ANSWER_FIELDS_MAX} fields`);
    return plan.zeros.slice();
  }

  #add(cursor: WireCursor, plan: Plan, members: unknown[]): void {
    while (cursor.position < cursor.end) {
      const number = cursor.tag();
      const field = plan.fields.get(number);
      if (field === undefined || !take(cursor, field, members)) cursor.skip(number);
    }
  }

  #finish(plan: Plan, members: unknown[]): unknown {
    const fields = named(plan, members);
    return plan.special === undefined ? fields : plan.special.toJson(fields);
  }

  #planOf(shape: MessageShape, mode: Mode): Plan {
    const known = mode.plans.get(shape);
    if (known !== undefined) return known;
    const made = this.#makePlan(shape, mode);
    mode.plans.set(shape, made);
    return made;
  }

  #makePlan(shape: MessageShape, mode: Mode): Plan {
    const type = this.#typeOf(shape);
    const special = mode.isJson ? specialOf(shape, this.#any) : undefined;
    const inner = STRUCTURES.has(shape.fullName) ? this.#raw : mode;
    const zeros = type.toObject(type.create(), TO_ANSWER);
    const names = [...shape.fields.keys(), ...shape.oneofs].sort();
    const slots = new Map(names.map((name, slot) => [name, slot]));
    const slotOf = (name: string): number => slots.get(name) ?? -1;
    const fields = new Map(
      [...shape.fields].map(([name, field]): [number, Field] => {
        const oneof = shape.oneofOf.get(name);
        const choice =
          oneof !== undefined && shape.oneofs.has(oneof) ? { slot: slotOf(oneof), name, slots } : undefined;
        return [field.number, { ...this.#field(field, type.fields[name], inner), slot: slotOf(name), choice }];
      }),
    );
    const isRequired = ([name]: readonly [string, FieldShape]): boolean => type.fields[name]?.required === true;
    const required = [...shape.fields].filter(isRequired).map(([name]) => slotOf(name));
    const collections = [...fields.values()].filter(({ label }) => label !== "single");
    return {
      names,
      // What must be there has no zero, nor has what is made anew for each message.
      zeros: names.map((name, slot) =>
        required.includes(slot) || collections.some((field) => field.slot === slot) ? undefined : zeros[name],
      ),
      fields,
      collections,
      messages: [...fields.values()].filter(({ label, merge }) => label === "single" && merge !== undefined),
      required,
      special,
      isFlat: special === undefined && heightOf(shape, new Map()) <= VOUCHED_MESSAGES_MAX,
    };
  }

  #field(
    { label, key, value }: FieldShape,
    field: protobuf.Field | undefined,
    mode: Mode,
  ): Omit<Field, "slot" | "choice"> {
    const merge = value.kind === "message" ? this.#merge(value.message, mode) : undefined;
    const read =
      merge === undefined
        ? this.#valueReader(value, field)
        : (cursor: WireCursor) => merge.finish(merge.add(cursor, undefined));
    const valueWireType = wireTypeOf(value);
    return {
      label,
      wireType: label === "map" ? WIRE.bytes : valueWireType,
      read,
      merge,
      key: WIRE_SCALARS[key ?? "string"],
      valueWireType,
      missing: () => (value.kind === "scalar" ? WIRE_SCALARS[value.proto].zero : read(new WireCursor(NOTHING))),
    };
  }

  #merge(message: MessageShape, mode: Mode): Merge {
    // Looked up at the first value: a message may contain itself.
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

  #valueReader(value: ValueShape, field: protobuf.Field | undefined): ReadValue {
    if (value.kind === "scalar") return WIRE_SCALARS[value.proto].read;
    // Those of the request's codec: where several names have one number, it has chosen.
    const names = (field?.resolvedType as protobuf.Enum | null | undefined)?.valuesById ?? {};
    const isClosed = value.kind === "enum" && value.isClosed;
    return (cursor) => {
      const number = cursor.uint32() | 0;
      // An unknown number of an open enum stays a number.
      return names[number] ?? (isClosed ? undefined : number);
    };
  }
}

function wireTypeOf(value: ValueShape): number {
  if (value.kind === "scalar") return WIRE_SCALARS[value.proto].wireType;
  return value.kind === "message" ? WIRE.bytes : WIRE.varint;
}

/** How many messages stand inside one another; infinity with maps, whose keys are the service's, and with what holds anything. */
function heightOf(shape: MessageShape, heights: Map<MessageShape, number>): number {
  const known = heights.get(shape);
  if (known !== undefined) return known;
  // Until it is known: where it contains itself.
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

/** An entry's value before any was read. */
const NO_VALUE = Symbol("no value");

interface Field {
  readonly label: FieldShape["label"];
  /** Its place among the members. */
  readonly slot: number;
  /** Of each of its values; a map's are entries. */
  readonly wireType: number;
  /** Gives `undefined` for a number that a closed enum does not have: the field counts as not set. */
  readonly read: ReadValue;
  /** Of a field whose values are messages. */
  readonly merge: Merge | undefined;
  /** Of a map's entries. */
  readonly key: WireScalar;
  readonly valueWireType: number;
  /** The value of an entry that has none. */
  readonly missing: () => unknown;
  /** Of the oneof that it is in: where the name of the member that is set stands, this member's, and where each stands. */
  readonly choice: Choice | undefined;
}

/**
 * Reads one message in parts: a sender may write the field several times, and the reader merges what it wrote. The message
 * keeps its members in an array of its own until all parts are read.
 */
interface Merge {
  /** Adds the part at the cursor to the members of the parts before it; anything but an array counts as no part. */
  readonly add: (cursor: WireCursor, before: unknown) => unknown[];
  /** Turns the members into the JSON form of the message. */
  readonly finish: (members: unknown[]) => unknown;
}

interface Choice {
  readonly slot: number;
  readonly name: string;
  readonly slots: ReadonlyMap<string, number>;
}

/** How one message is read. */
interface Plan {
  /** Of the JSON's members, in the order of their UTF-16 units, which is the order of the canonical text. */
  readonly names: readonly string[];
  /** What a member is when the message does not say; `undefined`: it goes without. */
  readonly zeros: readonly unknown[];
  readonly fields: ReadonlyMap<number, Field>;
  readonly collections: readonly Field[];
  /** Fields of one message each, whose members wait for the end of this message. */
  readonly messages: readonly Field[];
  readonly required: readonly number[];
  readonly special: WellKnown | undefined;
  /** Whether all that it holds is small in number and in the order of its keys, whatever the service says. */
  readonly isFlat: boolean;
}

/** Puts the value at the cursor among the members; false when it is none of this field: it has another wire type. */
function take(cursor: WireCursor, field: Field, members: unknown[]): boolean {
  const { wireType } = cursor;
  const { label, slot, choice } = field;
  const isPacked = wireType === WIRE.bytes && wireType !== field.wireType && label === "repeated";
  if (wireType !== field.wireType && !isPacked) return false;
  if (label === "single") {
    if (field.merge === undefined) {
      const value = field.read(cursor);
      if (value === undefined) return true;
      if (choice !== undefined) choose(choice, members);
      members[slot] = value;
    } else {
      if (choice !== undefined) choose(choice, members);
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

/** The last member on the wire counts: the one before it goes. One look, however many there are to choose from. */
function choose({ slot, name, slots }: Choice, members: unknown[]): void {
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

/** An entry is a message of a key and a value, each of which may be left out or written several times. */
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
  // Of a closed enum: the whole entry counts as not sent.
  if (value === undefined) return;
  if (name === "__proto__") {
    Object.defineProperty(entries, name, { value, writable: true, enumerable: true, configurable: true });
  } else entries[name] = value;
}

/** The members by their names, with what is made anew for each message. */
function named({ names, collections, messages, required }: Plan, members: unknown[]): Fields {
  for (const { slot, merge } of messages) {
    const parts = members[slot];
    if (merge !== undefined && Array.isArray(parts)) members[slot] = merge.finish(parts);
  }
  for (const { slot, label } of collections) members[slot] ??= label === "map" ? {} : [];
  for (const slot of required) {
    if (members[slot] === undefined) throw new RangeError("a message without a field that it must have");
  }
  const fields: Fields = {};
  for (let slot = 0; slot < members.length; slot += 1) {
    const value = members[slot];
    if (value !== undefined) fields[names[slot] ?? ""] = value;
  }
  return fields;
}
