import { isTable } from "../../../core/json.ts";
import type { FieldShape, MessageShape, Scalar, ValueShape } from "../contract/message-shape.ts";

/** The first field that the wire would lose or change. Contains no value, since values may be personal data. */
export interface Difference {
  readonly field: string;
  readonly reason: string;
  /** Full name of the message, for an unknown field. The name is internal to the service and only for operators. */
  readonly message?: string;
}

type Fields = Record<string, unknown>;

function under(key: string | number, difference: Difference | undefined): Difference | undefined {
  if (difference === undefined) return undefined;
  const own = typeof key === "number" ? `[${key}]` : key;
  const separator = difference.field === "" || difference.field.startsWith("[") ? "" : ".";
  return { ...difference, field: `${own}${separator}${difference.field}` };
}

export const unlike = (reason: string): Difference => ({ field: "", reason });

/** Compares a JSON value with the value that came back from the wire, for each scalar type. */
const SAME_SCALAR: Readonly<Record<Scalar, (sent: unknown, got: unknown) => boolean>> = {
  string: (sent, got) => typeof sent === "string" && sent === got,
  bool: (sent, got) => typeof sent === "boolean" && sent === got,
  bytes: (sent, got) => typeof sent === "string" && sent === got,
  int32: (sent, got) => typeof sent === "number" && sent === got,
  int64: (sent, got) => (typeof sent === "string" ? sent === got : Number.isSafeInteger(sent) && `${sent}` === got),
  // A float has about seven digits by contract; only a value outside its range is lost.
  float: (sent, got) => typeof sent === "number" && Number.isFinite(got) && Math.fround(sent) === got,
  double: (sent, got) => typeof sent === "number" && Number.isFinite(sent) && sent === got,
};

const SCALAR_REASONS: Readonly<Record<Scalar, string>> = {
  string: "must be a string of well-formed Unicode",
  bool: "must be true or false",
  bytes: "must be standard base64 with padding",
  int32: "must be an integer in the range of its type",
  int64: "must be an integer in the range of its type, as a decimal string or a safe number",
  float: "must be a finite number in the range of a float",
  double: "must be a finite number",
};

function enumNumber(value: unknown, numbers: ReadonlyMap<string, number>): number | undefined {
  if (typeof value === "string") return numbers.get(value);
  return typeof value === "number" ? value : undefined;
}

function compareValue(sent: unknown, got: unknown, shape: ValueShape): Difference | undefined {
  if (shape.kind === "scalar") {
    return SAME_SCALAR[shape.scalar](sent, got) ? undefined : unlike(SCALAR_REASONS[shape.scalar]);
  }
  if (shape.kind === "message") return compareMessage(sent, got, shape.message);
  // A number that the enum does not have comes back as a number; it is treated like an unknown name.
  const number = typeof got === "string" ? enumNumber(got, shape.numbers) : undefined;
  const same = number !== undefined && enumNumber(sent, shape.numbers) === number;
  return same ? undefined : unlike("must be a value of its enum, by name or number");
}

function compareList(sent: unknown, got: unknown, shape: ValueShape): Difference | undefined {
  if (!Array.isArray(sent)) return unlike("must be a list");
  const back: readonly unknown[] = Array.isArray(got) ? got : [];
  if (sent.length !== back.length) return unlike("loses items on the wire");
  for (let index = 0; index < sent.length; index += 1) {
    const difference = compareValue(sent[index], back[index], shape);
    if (difference !== undefined) return under(index, difference);
  }
  return undefined;
}

function compareMap(sent: unknown, got: unknown, shape: ValueShape): Difference | undefined {
  if (!isTable(sent)) return unlike("must be an object");
  const back = isTable(got) ? got : {};
  const keys = Object.keys(sent);
  if (keys.length !== Object.keys(back).length) return unlike("loses entries on the wire");
  for (const key of keys) {
    const difference = Object.hasOwn(back, key) ? compareValue(sent[key], back[key], shape) : unlike("loses a key");
    // Map keys are the caller's values and are kept out of the message.
    if (difference !== undefined) return under("{entry}", difference);
  }
  return undefined;
}

function compareField(sent: unknown, got: unknown, field: FieldShape): Difference | undefined {
  if (field.label === "repeated") return compareList(sent, got, field.value);
  if (field.label === "map") return compareMap(sent, got, field.value);
  if (got === undefined) return unlike("is lost on the wire");
  return compareValue(sent, got, field.value);
}

function compareKnown(sent: Fields, got: Fields, shape: MessageShape): Difference | undefined {
  for (const key of Object.keys(sent)) {
    const value = sent[key];
    if (value === undefined) continue;
    const field = shape.fields.get(key);
    if (field !== undefined) {
      if (isUnset(value)) continue;
      const difference = compareField(value, Object.hasOwn(got, key) ? got[key] : undefined, field);
      if (difference !== undefined) return under(key, difference);
      continue;
    }
    // A oneof's name may state which member is set, if that is true.
    if (shape.oneofs.has(key) && Object.hasOwn(got, key) && got[key] === value) continue;
    return under(key, { ...unlike("is no field of its message"), message: shape.fullName });
  }
  return undefined;
}

/** Treats null as not set, as the protobuf JSON mapping does. */
function isUnset(value: unknown): boolean {
  return value === undefined || value === null;
}

/** Compares a message as it was meant with the same message after the wire. Fields that are unset on both sides are equal. */
export function compareMessage(sent: unknown, got: unknown, shape: MessageShape): Difference | undefined {
  if (!isTable(sent) || !isTable(got)) return unlike("must be an object");
  const difference = compareKnown(sent, got, shape);
  if (difference !== undefined) return difference;
  for (const key of Object.keys(got)) {
    if (isUnset(sent[key]) && shape.fields.has(key)) return under(key, unlike("is required by the contract"));
    // The wire keeps both members of a oneof, and the reader the last one: the error names that one.
    const oneof = shape.oneofOf.get(key);
    if (oneof !== undefined && got[oneof] !== key) return under(key, unlike(`is not the only member of ${oneof}`));
  }
  return undefined;
}
