import { isTable } from "../../../core/json.ts";
import type { ProtoScalar } from "../contract/declarations.ts";
import { type FieldShape, type MessageShape, reachable, scalarOf } from "../contract/message-shape.ts";

type Fields = Readonly<Record<string, unknown>>;

const HASH_CHARS = 8;
const UNSIGNED: ReadonlySet<ProtoScalar> = new Set(["uint64", "fixed64"]);

/** Whether some map in the message has keys that protobufjs keeps in a form of its own. */
export function hasAwkwardKeys(shape: MessageShape): boolean {
  return [...reachable(shape)].some((message) => [...message.fields.values()].some(isAwkward));
}

function isAwkward({ key }: FieldShape): boolean {
  return key === "bool" || (key !== undefined && scalarOf(key) === "int64");
}

/** As the encoder wants them: it takes any key but the empty one for true. */
export function truthKeys(message: object, shape: MessageShape): object {
  return walk(message as Fields, shape, (key, type) => (type === "bool" && key === "false" ? "" : key));
}

/** As JSON has them. */
export function decimalKeys(message: object, shape: MessageShape): object {
  return walk(message as Fields, shape, (key, type) => mapKeyReader(type)(key));
}

/** The JSON form of a decoded map's keys: the decoder gives 64-bit keys as eight characters, one for each byte. */
export function mapKeyReader(type: ProtoScalar | undefined): (key: string) => string {
  if (type === undefined || scalarOf(type) !== "int64") return (key) => key;
  const isUnsigned = UNSIGNED.has(type);
  return (key) => {
    if (key.length !== HASH_CHARS) return key;
    const bytes = Buffer.from(key, "latin1");
    return String(isUnsigned ? bytes.readBigUInt64LE() : bytes.readBigInt64LE());
  };
}

type Rename = (key: string, type: ProtoScalar) => string;

function walk(message: Fields, shape: MessageShape, rename: Rename): Record<string, unknown> {
  const entries = Object.entries(message).map(([name, value]): [string, unknown] => {
    const field = shape.fields.get(name);
    return [name, field === undefined ? value : walkField(value, field, rename)];
  });
  return Object.fromEntries(entries);
}

function walkField(value: unknown, field: FieldShape, rename: Rename): unknown {
  const { value: inner, label, key: keyType } = field;
  const each = (item: unknown): unknown =>
    inner.kind === "message" && isTable(item) ? walk(item, inner.message, rename) : item;
  if (label === "repeated") return Array.isArray(value) ? value.map(each) : value;
  if (label === "single") return each(value);
  if (!isTable(value) || keyType === undefined) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [rename(key, keyType), each(item)]));
}
