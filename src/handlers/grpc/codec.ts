import type { Json } from "../../core/types.ts";
import { type FieldShape, type MessageShape, reachable, type Scalar, type ValueShape } from "./message-shape.ts";
import { ANY, Unfit, WELL_KNOWN, type WellKnown } from "./well-known.ts";

/** The compiled codec of one message type. It is lenient: what does not fit is dropped or becomes a zero. */
export interface Serializer {
  serialize(message: object): Buffer;
  deserialize(bytes: Buffer): object;
}

/** The first field that the wire would lose or change. Holds no value: values may be personal data. */
export interface Difference {
  readonly field: string;
  readonly reason: string;
}

export interface EncodedMessage {
  readonly bytes: Buffer;
  /** The message as the service will read it, in its JSON form. */
  readonly message: Json;
}

type Fields = Record<string, unknown>;

function isRecord(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function under(key: string | number, difference: Difference | undefined): Difference | undefined {
  if (difference === undefined) return undefined;
  const own = typeof key === "number" ? `[${key}]` : key;
  const separator = difference.field === "" || difference.field.startsWith("[") ? "" : ".";
  return { field: `${own}${separator}${difference.field}`, reason: difference.reason };
}

const unlike = (reason: string): Difference => ({ field: "", reason });

/** Whether a JSON value and what came back from the wire are the same value of this scalar type. */
const SAME_SCALAR: Readonly<Record<Scalar, (sent: unknown, got: unknown) => boolean>> = {
  string: (sent, got) => typeof sent === "string" && sent === got,
  bool: (sent, got) => typeof sent === "boolean" && sent === got,
  bytes: (sent, got) => typeof sent === "string" && sent === got,
  int32: (sent, got) => typeof sent === "number" && sent === got,
  int64: (sent, got) => (typeof sent === "string" ? sent === got : Number.isSafeInteger(sent) && `${sent}` === got),
  // A float holds about seven digits by contract; only a value that leaves its range is lost.
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
  // A number that the enum does not have comes back as a number; it is as unknown as an unknown name.
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
  if (!isRecord(sent)) return unlike("must be an object");
  const back = isRecord(got) ? got : {};
  const keys = Object.keys(sent);
  if (keys.length !== Object.keys(back).length) return unlike("loses entries on the wire");
  for (const key of keys) {
    const difference = Object.hasOwn(back, key) ? compareValue(sent[key], back[key], shape) : unlike("loses a key");
    // Map keys are the caller's values and stay out of the text.
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
      const difference = compareField(value, Object.hasOwn(got, key) ? got[key] : undefined, field);
      if (difference !== undefined) return under(key, difference);
      continue;
    }
    // A oneof's name may tell which member is set, if it tells the truth.
    if (shape.oneofs.has(key) && Object.hasOwn(got, key) && got[key] === value) continue;
    return under(key, unlike(`is no field of ${shape.fullName}`));
  }
  return undefined;
}

/** Compares a message as it was meant with the same message after the wire; fields left out on both sides are fine. */
function compareMessage(sent: unknown, got: unknown, shape: MessageShape): Difference | undefined {
  if (!isRecord(sent) || !isRecord(got)) return unlike("must be an object");
  const difference = compareKnown(sent, got, shape);
  if (difference !== undefined) return difference;
  for (const key of Object.keys(got)) {
    if (sent[key] === undefined && shape.fields.has(key)) return under(key, unlike("is required by the contract"));
    // The wire keeps both members of a oneof, and the reader keeps the last: its name is the one told.
    const oneof = shape.oneofOf.get(key);
    if (oneof !== undefined && got[oneof] !== key) return under(key, unlike(`is not the only member of ${oneof}`));
  }
  return undefined;
}

type Change = (value: unknown, message: MessageShape, path: string) => unknown;

/** A field whose JSON form, or that of something below it, differs from what the serializer takes and gives. */
interface DifferingField {
  readonly name: string;
  readonly field: FieldShape;
  readonly message: MessageShape;
}

const differing = new WeakMap<MessageShape, readonly DifferingField[]>();

function differingIn(shape: MessageShape): readonly DifferingField[] {
  const known = differing.get(shape);
  if (known !== undefined) return known;
  const fields = [...shape.fields].flatMap(([name, field]) =>
    field.value.kind === "message" && !isVerbatim(field.value.message)
      ? [{ name, field, message: field.value.message }]
      : [],
  );
  differing.set(shape, fields);
  return fields;
}

function changeField(value: unknown, field: FieldShape, apply: (value: unknown, step: string) => unknown): unknown {
  if (field.label === "repeated" && Array.isArray(value)) return value.map((item, index) => apply(item, `[${index}]`));
  if (field.label === "map" && isRecord(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, apply(item, ".{entry}")]));
  }
  return field.label === "single" ? apply(value, "") : value;
}

/** Applies `change` to every message in `fields` that has another JSON form. What does not fit is left for the comparison. */
function changeFields(
  fields: Record<string, unknown>,
  shape: MessageShape,
  context: { readonly change: Change; readonly path: string },
): unknown {
  for (const { name, field, message } of differingIn(shape)) {
    const value = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (value === undefined) continue;
    const path = context.path === "" ? name : `${context.path}.${name}`;
    fields[name] = changeField(value, field, (item, step) => context.change(item, message, `${path}${step}`));
  }
  return fields;
}

class Misplaced extends Error {
  override readonly name = "Misplaced";
  readonly difference: Difference;

  constructor(field: string, reason: string) {
    super(reason);
    this.difference = { field, reason };
  }
}

function specialOf({ fullName }: MessageShape, any: WellKnown | undefined): WellKnown | undefined {
  return fullName === ANY && any !== undefined ? any : WELL_KNOWN.get(fullName);
}

function toWire(any: WellKnown | undefined): Change {
  const change: Change = (value, message, path) => {
    const special = specialOf(message, any);
    // A copy: the caller's object is not ours to change.
    if (special === undefined) return isRecord(value) ? changeFields({ ...value }, message, { change, path }) : value;
    try {
      return special.toMessage(value);
    } catch (error) {
      throw new Misplaced(path, error instanceof Unfit ? error.message : "does not fit its type");
    }
  };
  return change;
}

/** Changes the decoder's own object, which nobody else holds. */
function fromWire(any: WellKnown | undefined): Change {
  const change: Change = (value, message, path) => {
    if (!isRecord(value)) return value;
    const special = specialOf(message, any);
    if (special !== undefined) return special.toJson(value);
    for (const oneof of message.impliedOneofs) delete value[oneof];
    return changeFields(value, message, { change, path });
  };
  return change;
}

/** Whether the decoder's object is already the JSON form, so that no copy is needed. */
function isVerbatim(shape: MessageShape): boolean {
  return [...reachable(shape)].every(
    (message) => !WELL_KNOWN.has(message.fullName) && message.impliedOneofs.size === 0,
  );
}

/**
 * Turns JSON into the request's bytes and refuses whatever the wire would lose or change: unknown keys, wrong types,
 * unknown enum names, numbers out of range, two members of one oneof. The serializer alone lets all of these pass as zeros.
 */
export class RequestCodec {
  readonly #shape: MessageShape;
  readonly #serializer: Serializer;
  readonly #verbatim: boolean;
  readonly #toWire: Change;
  readonly #fromWire: Change;

  /**
   * The serializer must decode without defaults, so that what was not set stays unset.
   *
   * @param any how a google.protobuf.Any is written; without it none may be set
   */
  constructor(shape: MessageShape, serializer: Serializer, any?: WellKnown) {
    this.#shape = shape;
    this.#serializer = serializer;
    this.#verbatim = isVerbatim(shape);
    this.#toWire = toWire(any);
    this.#fromWire = fromWire(any);
  }

  encode(input: unknown): EncodedMessage | Difference {
    try {
      const meant = this.#verbatim ? input : this.#toWire(input, this.#shape, "");
      if (!isRecord(meant)) return unlike("must be an object");
      const bytes = this.#serialize(meant);
      const got = this.#serializer.deserialize(bytes);
      const difference = compareMessage(meant, got, this.#shape);
      if (difference !== undefined) return difference;
      return { bytes, message: (this.#verbatim ? got : this.#fromWire(got, this.#shape, "")) as Json };
    } catch (error) {
      if (error instanceof Misplaced) return error.difference;
      return { field: this.#culprit(input), reason: "cannot be encoded as its type" };
    }
  }

  /** The bytes of a message that `encode` once gave out. */
  bytes(message: unknown): Buffer {
    return this.#serialize(this.#verbatim ? message : this.#toWire(message, this.#shape, ""));
  }

  /** The JSON form of bytes that `bytes` made. */
  decode(bytes: Buffer): Json {
    const got = this.#serializer.deserialize(bytes);
    return (this.#verbatim ? got : this.#fromWire(got, this.#shape, "")) as Json;
  }

  #serialize(message: unknown): Buffer {
    if (!isRecord(message)) throw new Unfit("must be an object");
    return this.#serializer.serialize(message);
  }

  /** The encoder's own text may quote values, so the field is found by encoding one at a time. */
  #culprit(input: unknown): string {
    if (!isRecord(input)) return "";
    const culprit = Object.keys(input).find((key) => {
      try {
        this.bytes({ [key]: input[key] });
        return false;
      } catch {
        return true;
      }
    });
    return culprit ?? "";
  }
}

/** Turns an answer's bytes into JSON. Unknown fields are ignored, as proto3 evolution wants. */
export class ResponseCodec {
  readonly #shape: MessageShape;
  readonly #deserialize: Serializer["deserialize"];
  readonly #verbatim: boolean;
  readonly #fromWire: Change;

  /** @param any how a google.protobuf.Any is read; without it only its type's name is */
  constructor(shape: MessageShape, deserialize: Serializer["deserialize"], any?: WellKnown) {
    this.#shape = shape;
    this.#deserialize = deserialize;
    this.#verbatim = isVerbatim(shape);
    this.#fromWire = fromWire(any);
  }

  /** Throws when the bytes are no such message. */
  decode(bytes: Buffer): Json {
    const got = this.#deserialize(bytes);
    return (this.#verbatim ? got : this.#fromWire(got, this.#shape, "")) as Json;
  }
}
