import type { ProtoScalar } from "../contract/declarations.ts";
import { WIRE, type WireCursor } from "./wire-cursor.ts";

/** Gives the JSON form of the value at which the cursor stands. */
export type Read = (cursor: WireCursor) => unknown;

export interface WireScalar {
  readonly wireType: number;
  readonly read: Read;
  /** Its JSON form where the wire does not say. */
  readonly zero: unknown;
}

/** What JSON has no number for becomes a text; and it has no minus zero. */
function finite(value: number): unknown {
  if (value === 0) return 0;
  return Number.isFinite(value) ? value : String(value);
}

const { varint, fixed32, fixed64, bytes } = WIRE;

/** How each scalar type of the proto language stands on the wire, and what it is in JSON. */
export const WIRE_SCALARS: Readonly<Record<ProtoScalar, WireScalar>> = {
  string: { wireType: bytes, read: (cursor) => cursor.string(), zero: "" },
  bytes: { wireType: bytes, read: (cursor) => cursor.base64(), zero: "" },
  bool: { wireType: varint, read: (cursor) => cursor.bool(), zero: false },
  int32: { wireType: varint, read: (cursor) => cursor.uint32() | 0, zero: 0 },
  uint32: { wireType: varint, read: (cursor) => cursor.uint32(), zero: 0 },
  sint32: { wireType: varint, read: (cursor) => cursor.sint32(), zero: 0 },
  fixed32: { wireType: fixed32, read: (cursor) => cursor.fixed32(), zero: 0 },
  sfixed32: { wireType: fixed32, read: (cursor) => cursor.fixed32() | 0, zero: 0 },
  int64: { wireType: varint, read: (cursor) => cursor.int64(), zero: "0" },
  uint64: { wireType: varint, read: (cursor) => cursor.uint64(), zero: "0" },
  sint64: { wireType: varint, read: (cursor) => cursor.sint64(), zero: "0" },
  fixed64: { wireType: fixed64, read: (cursor) => cursor.fixed64(), zero: "0" },
  sfixed64: { wireType: fixed64, read: (cursor) => cursor.sfixed64(), zero: "0" },
  float: { wireType: fixed32, read: (cursor) => finite(cursor.float()), zero: 0 },
  double: { wireType: fixed64, read: (cursor) => finite(cursor.double()), zero: 0 },
};
