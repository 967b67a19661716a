import { isTable } from "../../../core/json.ts";
import type { Json } from "../../../core/types.ts";
import { type FieldShape, type MessageShape, reachable } from "../contract/message-shape.ts";
import { specialOf, Unfit, WELL_KNOWN, type WellKnown } from "../contract/well-known.ts";
import { compareMessage, type Difference, unlike } from "./message-difference.ts";

export type { Difference } from "./message-difference.ts";

/** The compiled codec of one message type. It is lenient: values that do not fit are dropped or become zero. */
export interface Serializer {
  serialize(message: object): Buffer;
  deserialize(bytes: Buffer): object;
}

export interface EncodedMessage {
  readonly bytes: Buffer;
  /** The message as the service will read it, in its JSON form. */
  readonly message: Json;
}

type Fields = Record<string, unknown>;

type Change = (value: unknown, message: MessageShape, path: string) => unknown;

/** A field whose JSON form, or that of a message below it, differs from what the serializer takes and returns. */
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
  if (field.label === "map" && isTable(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, apply(item, ".{entry}")]));
  }
  return field.label === "single" ? apply(value, "") : value;
}

/** The only message for which null is a value: for all others, null means that the field is not set. */
const ANY_JSON = "google.protobuf.Value";

/** Applies `change` to every message in `fields` that has another JSON form. The comparison finds values that do not fit. */
function changeFields(
  fields: Fields,
  shape: MessageShape,
  context: { readonly change: Change; readonly path: string },
): unknown {
  for (const { name, field, message } of differingIn(shape)) {
    const value = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (value === undefined || (value === null && message.fullName !== ANY_JSON)) continue;
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

function toWire(any: WellKnown | undefined): Change {
  const change: Change = (value, message, path) => {
    const special = specialOf(message, any);
    // Copies, because the caller's object must not be changed.
    if (special === undefined) return isTable(value) ? changeFields({ ...value }, message, { change, path }) : value;
    try {
      return special.toMessage(value);
    } catch (error) {
      throw new Misplaced(path, error instanceof Unfit ? error.message : "does not fit its type");
    }
  };
  return change;
}

/** Changes the decoder's object in place, since nothing else refers to it. */
function fromWire(any: WellKnown | undefined): Change {
  const change: Change = (value, message, path) => {
    if (!isTable(value)) return value;
    const special = specialOf(message, any);
    if (special !== undefined) return special.toJson(value);
    for (const oneof of message.impliedOneofs) delete (value as Fields)[oneof];
    return changeFields(value, message, { change, path });
  };
  return change;
}

/** Returns true when the decoder's object already is the JSON form, so that no copy is needed. */
function isVerbatim(shape: MessageShape): boolean {
  return [...reachable(shape)].every(
    (message) => !WELL_KNOWN.has(message.fullName) && message.impliedOneofs.size === 0,
  );
}

/**
 * Encodes JSON as the request's bytes and refuses everything that the wire would lose or change: unknown keys, wrong types,
 * unknown enum names, numbers out of range, two members of one oneof. The serializer alone would turn all of these into
 * zeros.
 */
export class RequestCodec {
  readonly #shape: MessageShape;
  readonly #serializer: Serializer;
  readonly #verbatim: boolean;
  readonly #toWire: Change;
  readonly #fromWire: Change;

  /**
   * The serializer must decode without defaults, so that unset fields stay unset.
   *
   * @param any converts a google.protobuf.Any; without it, none may be set
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
      if (!isTable(meant)) return unlike("must be an object");
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

  /** Returns the bytes of a message that `encode` has returned. */
  bytes(message: unknown): Buffer {
    return this.#serialize(this.#verbatim ? message : this.#toWire(message, this.#shape, ""));
  }

  /** Returns the JSON form of bytes that `bytes` has returned. */
  decode(bytes: Buffer): Json {
    const got = this.#serializer.deserialize(bytes);
    return (this.#verbatim ? got : this.#fromWire(got, this.#shape, "")) as Json;
  }

  #serialize(message: unknown): Buffer {
    if (!isTable(message)) throw new Unfit("must be an object");
    return this.#serializer.serialize(message);
  }

  /** Finds the field by encoding one at a time, since the encoder's own message may quote values. */
  #culprit(input: unknown): string {
    if (!isTable(input)) return "";
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
