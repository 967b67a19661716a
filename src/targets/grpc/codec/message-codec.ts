import { isTable } from "../../../core/json.ts";
import type { Json } from "../../../core/types.ts";
import { NESTED_MAX, WIRE } from "../../../egress/grpc/wire-cursor.ts";
import {
  ANY,
  type Declarations,
  type EnumShape,
  type FieldShape,
  type MessageShape,
  type Scalar,
  type ScalarShape,
  type ValueShape,
} from "../contract/declarations.ts";
import { AnswerReader, type FieldBudget } from "./answer-reader.ts";
import { AnyTypes, isSpecial, MismatchError, wellKnown } from "./well-known.ts";
import { WIRE_SCALARS, WireWriter, wireTypeOf, writeInt32 } from "./wire.ts";

export interface EncodedMessage {
  readonly bytes: Buffer;
  /** The message in JSON form, as the service will read it. */
  readonly message: Json;
}

/** The first field that does not fit the contract. Contains no values, which may be personal data. */
export interface Difference {
  readonly field: string;
  readonly reason: string;
  /** Name of the message type, for an unknown field. Only for operators. */
  readonly message?: string;
}

type Fields = Record<string, unknown>;

interface Encoding {
  readonly writer: WireWriter;
  readonly path: (string | number)[];
  depth: number;
}

/** Writes a value and returns its JSON form. Throws `MismatchError` when it does not fit its type. */
type WriteField = (encoding: Encoding, value: unknown) => unknown;

interface Field extends FieldShape {
  readonly name: string;
  readonly wireType: number;
  readonly write: WriteField;
  /** True when null is a value of the field. For other fields, null means unset. */
  readonly takesNull: boolean;
}

interface Plan {
  readonly shape: MessageShape;
  readonly fields: readonly Field[];
  /** True when the message is given as its own fields instead of its special JSON form. */
  readonly isRaw: boolean;
}

/** Thrown for more nested messages than readers accept. */
class TooDeep extends Error {
  override readonly name = "TooDeep";
}

export class MessageCodec {
  readonly anyTypes: AnyTypes;
  readonly #reader: AnswerReader;
  readonly #plans = new Map<MessageShape, Plan>();
  readonly #rawPlans = new Map<MessageShape, Plan>();
  readonly #messages: Declarations["messages"];

  /** @param anyTypes full names of the messages that a google.protobuf.Any may hold */
  constructor({ messages }: Declarations, anyTypes: readonly string[] = []) {
    this.#messages = messages;
    const any = messages.get(ANY);
    if (any !== undefined) any.anyTypes = anyTypes;
    this.anyTypes = new AnyTypes(anyTypes, messages);
    this.#reader = new AnswerReader(this.anyTypes);
  }

  /**
   * Decodes an answer into its JSON form.
   *
   * @throws {Error} when the bytes are not a valid message of the type, or have more fields than the budget
   */
  decode(bytes: Uint8Array, shape: MessageShape, budget?: FieldBudget): Json {
    const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    return this.#reader.read(buffer, shape, budget);
  }

  shape(fullName: string): MessageShape {
    const shape = this.#messages.get(fullName);
    if (shape === undefined) throw new Error(`${fullName} is not declared`);
    return shape;
  }

  bytes(message: unknown, shape: MessageShape): Buffer {
    const encoded = this.encode(message, shape);
    if ("reason" in encoded) throw new Error(`${shape.fullName}: ${encoded.field} ${encoded.reason}`);
    return encoded.bytes;
  }

  /**
   * Encodes a request in one pass, or returns the first value that would be lost or changed: unknown keys, wrong types,
   * unknown enum values, numbers out of range, two members of one oneof. Rejected: libraries. Some drop such values
   * silently, others quote them in their errors, and none says where in the message they are.
   */
  encode(input: unknown, shape: MessageShape): EncodedMessage | Difference {
    const encoding: Encoding = { writer: new WireWriter(), path: [], depth: 0 };
    try {
      const message = this.#message(encoding, input, this.#planOf(shape, false)) as Json;
      return { bytes: encoding.writer.finish(), message };
    } catch (error) {
      if (error instanceof TooDeep) {
        return { field: pathText(encoding.path.slice(0, 1)), reason: "cannot be encoded as its type" };
      }
      if (!(error instanceof MismatchError)) throw error;
      const { message: reason, messageName: message } = error;
      return { field: pathText(encoding.path), reason, ...(message !== undefined && { message }) };
    }
  }

  #planOf(shape: MessageShape, isRaw: boolean): Plan {
    const plans = isRaw ? this.#rawPlans : this.#plans;
    const known = plans.get(shape);
    if (known !== undefined) return known;
    const isRawInside = isRaw || isSpecial(shape);
    const fields = [...shape.fields].map(([name, field]): Field => {
      const { label, value } = field;
      const isAnyJson = value.kind === "message" && value.message.fullName === "google.protobuf.Value";
      return {
        ...field,
        name,
        wireType: wireTypeOf(value),
        write: this.#valueWriter(value, isRawInside),
        takesNull: isAnyJson && label === "single" && !isRawInside,
      };
    });
    const plan = { shape, fields: fields.sort((left, right) => left.number - right.number), isRaw };
    plans.set(shape, plan);
    return plan;
  }

  #valueWriter(value: ValueShape, isRaw: boolean): WriteField {
    if (value.kind === "scalar") return scalarWriter(value);
    if (value.kind === "enum") return enumWriter(value);
    // Determined at the first value, because a message may contain itself.
    let plan: Plan | undefined;
    return (encoding, message) => {
      plan ??= this.#planOf(value.message, isRaw);
      encoding.depth += 1;
      if (encoding.depth > NESTED_MAX) throw new TooDeep();
      const start = encoding.writer.open();
      const written = this.#message(encoding, message, plan);
      encoding.writer.close(start);
      encoding.depth -= 1;
      return written;
    };
  }

  #message(encoding: Encoding, value: unknown, plan: Plan): unknown {
    const { shape, isRaw } = plan;
    if (isRaw) return writeFields(encoding, value, plan);
    if (shape.fullName === ANY) {
      const { fields, json } = converted(() =>
        this.anyTypes.pack(value, (content, held) => this.#packed(content, held)),
      );
      writeFields(encoding, fields, plan);
      return json;
    }
    const known = wellKnown(shape);
    if (known === undefined) return writeFields(encoding, value, plan);
    const fields = converted(() => known.toMessage(value));
    return known.toJson(writeFields(encoding, fields, plan));
  }

  #packed(content: unknown, shape: MessageShape): EncodedMessage {
    const encoded = this.encode(content, shape);
    if ("reason" in encoded) throw new MismatchError(`${encoded.field} ${encoded.reason}`.trim());
    return encoded;
  }
}

/** Converts a value from the JSON form of its type. Any error means that the value does not fit. */
function converted<Message>(convert: () => Message): Message {
  try {
    return convert();
  } catch (error) {
    throw error instanceof MismatchError ? error : new MismatchError("does not fit its type");
  }
}

function pathText(path: readonly (string | number)[]): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === "number") return `${text}[${step}]`;
    return text === "" ? step : `${text}.${step}`;
  }, "");
}

function writeFields(encoding: Encoding, value: unknown, { shape, fields }: Plan): Fields {
  if (!isTable(value)) throw new MismatchError("must be an object");
  const { fullName, fields: declared, oneofs } = shape;
  for (const key of Object.keys(value)) {
    if (value[key] !== undefined && !declared.has(key) && !oneofs.has(key)) fail(encoding, key, fullName);
  }
  const message: Fields = {};
  for (const field of fields) writeField(encoding, field, { given: value, message });
  // A request may name the set member under the oneof's name, if that is correct.
  for (const oneof of oneofs) {
    if (value[oneof] !== undefined && value[oneof] !== message[oneof]) fail(encoding, oneof, fullName);
  }
  return message;
}

function fail(encoding: Encoding, key: string, message: string): never {
  encoding.path.push(key);
  throw new MismatchError("is not a field of its message", message);
}

function writeField(
  encoding: Encoding,
  field: Field,
  { given, message }: { readonly given: Readonly<Fields>; readonly message: Fields },
): void {
  const { name, label, oneof } = field;
  const value = given[name];
  const isUnset = value === undefined || (value === null && !field.takesNull);
  if (isUnset && !field.required) return;
  encoding.path.push(name);
  if (isUnset) throw new MismatchError("is required by the contract");
  if (label === "repeated") writeList(encoding, field, { value, message });
  else if (label === "map") writeMap(encoding, field, { value, message });
  else {
    encoding.writer.tag(field.number, field.wireType);
    message[name] = field.write(encoding, value);
  }
  if (oneof !== undefined) {
    const other = message[oneof];
    if (typeof other === "string") {
      encoding.path.splice(-1, 1, other);
      throw new MismatchError(`is not the only field set of ${oneof}`);
    }
    message[oneof] = name;
  }
  encoding.path.pop();
}

/** A given collection, and the message that gets its JSON form unless it is empty. */
interface Collection {
  readonly value: unknown;
  readonly message: Fields;
}

function writeList(
  encoding: Encoding,
  { name, number, wireType, packed, write }: Field,
  { value, message }: Collection,
): void {
  if (!Array.isArray(value)) throw new MismatchError("must be a list");
  if (value.length === 0) return;
  const { writer, path } = encoding;
  const isPacked = packed && wireType !== WIRE.bytes;
  if (isPacked) writer.tag(number, WIRE.bytes);
  const start = isPacked ? writer.open() : 0;
  const items: unknown[] = [];
  for (let index = 0; index < value.length; index += 1) {
    path.push(index);
    if (!isPacked) writer.tag(number, wireType);
    items.push(write(encoding, value[index]));
    path.pop();
  }
  if (isPacked) writer.close(start);
  message[name] = items;
}

function writeMap(encoding: Encoding, field: Field, { value, message }: Collection): void {
  if (!isTable(value)) throw new MismatchError("must be an object");
  const keys = Object.keys(value);
  if (keys.length === 0) return;
  const { writer, path } = encoding;
  // Map keys are the caller's values and are kept out of errors.
  path.push("{entry}");
  const entries = keys.map((key): [string, unknown] => {
    writer.tag(field.number, WIRE.bytes);
    const start = writer.open();
    writeKey(writer, field.key, key);
    writer.tag(2, field.wireType);
    const written = field.write(encoding, value[key]);
    writer.close(start);
    return [key, written];
  });
  path.pop();
  message[field.name] = Object.fromEntries(entries);
}

function writeKey(writer: WireWriter, proto: FieldShape["key"] = "string", key: string): void {
  const { wireType, write, zero } = WIRE_SCALARS[proto];
  writer.tag(1, wireType);
  let value: unknown = key;
  if (typeof zero === "number") value = Number(key);
  else if (typeof zero === "boolean") value = key === "true" || (key === "false" ? false : undefined);
  const written = write(writer, value);
  // Otherwise, the service would read another key.
  if (written === undefined || String(written) !== key) throw new MismatchError("loses a key");
}

const SCALAR_REASONS: Readonly<Record<Scalar, string>> = {
  string: "must be a string of well-formed Unicode",
  bool: "must be true or false",
  bytes: "must be standard base64 with padding",
  int32: "must be an integer in the range of its type",
  int64: "must be an integer in the range of its type, as a decimal string or a safe number",
  float: "must be a finite number in the range of a float",
  double: "must be a finite number",
};

function scalarWriter({ proto, scalar }: ScalarShape): WriteField {
  const { write } = WIRE_SCALARS[proto];
  const reason = SCALAR_REASONS[scalar];
  return ({ writer }, value) => {
    const written = write(writer, value);
    if (written === undefined) throw new MismatchError(reason);
    return written;
  };
}

/** Accepts names and known numbers of the enum. Services treat other numbers like unknown names. */
function enumWriter({ numbers, names }: EnumShape): WriteField {
  return ({ writer }, value) => {
    const number = typeof value === "string" ? numbers.get(value) : value;
    const name = typeof number === "number" ? names.get(number) : undefined;
    if (name === undefined) throw new MismatchError("must be a value of its enum, by name or number");
    writeInt32(writer, number as number);
    return name;
  };
}
