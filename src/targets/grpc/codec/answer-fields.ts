import type { FieldShape } from "../contract/message-shape.ts";
import type { WellKnown } from "../contract/well-known.ts";
import { WIRE, type WireCursor } from "./wire-cursor.ts";
import type { Read, WireScalar } from "./wire-scalars.ts";

type Fields = Record<string, unknown>;

/** An entry's value before any was read. */
const NO_VALUE = Symbol("no value");

export interface Field {
  readonly label: FieldShape["label"];
  /** Its place among the members. */
  readonly slot: number;
  /** Of each of its values; a map's are entries. */
  readonly wireType: number;
  /** Gives `undefined` for a number that a closed enum does not have: the field counts as not set. */
  readonly read: Read;
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
export interface Merge {
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
export interface Plan {
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
export function take(cursor: WireCursor, field: Field, members: unknown[]): boolean {
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
export function named({ names, collections, messages, required }: Plan, members: unknown[]): Fields {
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
