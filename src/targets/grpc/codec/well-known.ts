import { isTable } from "../../../core/json.ts";
import { listed, nearest } from "../../../core/nearest.ts";
import type { Json } from "../../../core/types.ts";
import { ANY, type Declarations, type MessageShape, reachable } from "../contract/declarations.ts";

/** Thrown when a value does not fit. Contains no values, which may be personal data. */
export class MismatchError extends Error {
  override readonly name = "Unfit";
  readonly messageName: string | undefined;

  constructor(reason: string, messageName?: string) {
    super(reason);
    this.messageName = messageName;
  }
}

type Fields = Readonly<Record<string, unknown>>;

interface WellKnown {
  toMessage(json: unknown): unknown;
  toJson(message: Fields): Json;
}

const NANOS_PER_SECOND_DIGITS = 9;
const TIMESTAMP_CHARS_MAX = 40;
const NANOS_MAX = 999_999_999;
const DURATION_SECONDS_MAX = 315_576_000_000;

/** The years 1 to 9999. */
const TIME = { min: -62_135_596_800, max: 253_402_300_799, what: "the time" } as const;
const TIME_NANOS = { min: 0, max: NANOS_MAX, what: "the fraction" } as const;
const DURATION_SECONDS = { min: -DURATION_SECONDS_MAX, max: DURATION_SECONDS_MAX, what: "the duration" } as const;
const DURATION_NANOS = { min: -NANOS_MAX, max: NANOS_MAX, what: "the fraction" } as const;

const TIMESTAMP = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:Z|([+-])(\d{2}):(\d{2}))$/;
const DURATION = /^(-?)(\d{1,12})(?:\.(\d{1,9}))?s$/;

function nanosOf(fraction: string | undefined): number {
  return Number((fraction ?? "").padEnd(NANOS_PER_SECOND_DIGITS, "0"));
}

/** Formats nanoseconds with 0, 3, 6 or 9 digits, as the protobuf JSON mapping does. */
function fractionOf(nanos: number): string {
  if (nanos === 0) return "";
  const digits = String(nanos).padStart(NANOS_PER_SECOND_DIGITS, "0");
  if (digits.endsWith("000000")) return `.${digits.slice(0, 3)}`;
  return `.${digits.endsWith("000") ? digits.slice(0, 6) : digits}`;
}

interface Bounds {
  readonly min: number;
  readonly max: number;
  readonly what: string;
}

function integerIn(value: unknown, { min, max, what }: Bounds): number {
  const number = Number(value ?? 0);
  if (!Number.isInteger(number) || number < min || number > max) throw new MismatchError(`${what} is out of range`);
  return number;
}

function timestampToMessage(json: unknown): unknown {
  const match = typeof json === "string" && json.length <= TIMESTAMP_CHARS_MAX ? TIMESTAMP.exec(json) : null;
  if (match === null) throw new MismatchError("is not an RFC 3339 date and time");
  const [, year = "", month = "", day = "", hour = "", minute = "", second = "", fraction, sign, offsetH, offsetM] =
    match;
  const date = new Date(0);
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  date.setUTCHours(Number(hour), Number(minute), Number(second));
  // `Date` converts impossible dates and hours to possible ones, so such values do not come back unchanged.
  if (date.toISOString().slice(0, 19) !== `${year}-${month}-${day}T${hour}:${minute}:${second}`) {
    throw new MismatchError("is not a date and time that exists");
  }
  const hours = Number(offsetH ?? 0);
  const minutes = Number(offsetM ?? 0);
  if (hours > 23 || minutes > 59) throw new MismatchError("has an impossible offset");
  const offset = (sign === "-" ? -1 : 1) * (hours * 3600 + minutes * 60);
  const seconds = integerIn(date.getTime() / 1000 - offset, TIME);
  return { seconds: String(seconds), nanos: nanosOf(fraction) };
}

function timestampToJson(message: Fields): Json {
  const seconds = integerIn(message["seconds"], TIME);
  const nanos = integerIn(message["nanos"], TIME_NANOS);
  return `${new Date(seconds * 1000).toISOString().slice(0, 19)}${fractionOf(nanos)}Z`;
}

function durationToMessage(json: unknown): unknown {
  const match = typeof json === "string" ? DURATION.exec(json) : null;
  if (match === null) throw new MismatchError('is not a duration such as "1.5s"');
  const [, sign, whole, fraction] = match;
  const factor = sign === "-" ? -1 : 1;
  const seconds = integerIn(whole, DURATION_SECONDS);
  // `|| 0` turns minus zero into zero, which is what the service returns.
  return { seconds: String(seconds * factor || 0), nanos: nanosOf(fraction) * factor || 0 };
}

function durationToJson(message: Fields): Json {
  const seconds = integerIn(message["seconds"], DURATION_SECONDS);
  const nanos = integerIn(message["nanos"], DURATION_NANOS);
  if (seconds * nanos < 0) throw new MismatchError("has seconds and nanos of different signs");
  return `${seconds < 0 || nanos < 0 ? "-" : ""}${Math.abs(seconds)}${fractionOf(Math.abs(nanos))}s`;
}

function snakeCase(path: string): string {
  return path.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function camelCase(path: string): string {
  return path.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

function fieldMaskToMessage(json: unknown): unknown {
  if (typeof json !== "string") throw new MismatchError("is not a field mask");
  const paths = json === "" ? [] : json.split(",");
  const snake = paths.map(snakeCase);
  if (snake.some((path, index) => camelCase(path) !== paths[index]))
    throw new MismatchError("has a path not in lowerCamelCase");
  return { paths: snake };
}

function fieldMaskToJson(message: Fields): Json {
  const paths = message["paths"];
  if (!Array.isArray(paths)) return "";
  const camel = paths.map((path) => camelCase(String(path)));
  if (camel.some((path, index) => snakeCase(path) !== paths[index]))
    throw new MismatchError("has a path that JSON cannot represent");
  return camel.join(",");
}

function mapValues<To>(record: Fields, change: (value: unknown) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]));
}

function structToMessage(json: unknown): unknown {
  if (!isTable(json)) throw new MismatchError("is not an object");
  return { fields: mapValues(json, valueToMessage) };
}

function listToMessage(json: unknown): unknown {
  if (!Array.isArray(json)) throw new MismatchError("is not a list");
  return { values: json.map(valueToMessage) };
}

function valueToMessage(json: unknown): unknown {
  if (json === null) return { nullValue: "NULL_VALUE" };
  if (typeof json === "string") return { stringValue: json };
  if (typeof json === "number") return { numberValue: json };
  if (typeof json === "boolean") return { boolValue: json };
  if (Array.isArray(json)) return { listValue: listToMessage(json) };
  return { structValue: structToMessage(json) };
}

function structToJson(message: Fields): Json {
  const fields = message["fields"];
  return isTable(fields) ? mapValues(fields, (value) => (isTable(value) ? valueToJson(value) : null)) : {};
}

function listToJson(message: Fields): Json {
  const values = message["values"];
  return Array.isArray(values) ? values.map((value) => (isTable(value) ? valueToJson(value) : null)) : [];
}

function valueToJson(message: Fields): Json {
  const { stringValue, numberValue, boolValue, structValue, listValue } = message;
  if (typeof stringValue === "string") return stringValue;
  if (typeof numberValue === "number") return numberValue;
  // The decoder returns NaN and infinities as strings.
  if (typeof numberValue === "string") throw new MismatchError("holds a number that JSON does not have");
  if (typeof boolValue === "boolean") return boolValue;
  if (isTable(structValue)) return structToJson(structValue);
  return isTable(listValue) ? listToJson(listValue) : null;
}

const WRAPPER: WellKnown = {
  // Null is the JSON form of a wrapper that is not set.
  toMessage: (json) => (json === null ? undefined : { value: json }),
  // The decoder has checked the value against the wrapper's own scalar type.
  toJson: (message) => (message["value"] ?? null) as Json,
};

/** Messages with a JSON form of their own, by full name. */
const WELL_KNOWN: ReadonlyMap<string, WellKnown> = new Map<string, WellKnown>([
  ["google.protobuf.Timestamp", { toMessage: timestampToMessage, toJson: timestampToJson }],
  ["google.protobuf.Duration", { toMessage: durationToMessage, toJson: durationToJson }],
  ["google.protobuf.FieldMask", { toMessage: fieldMaskToMessage, toJson: fieldMaskToJson }],
  ["google.protobuf.Struct", { toMessage: structToMessage, toJson: structToJson }],
  ["google.protobuf.ListValue", { toMessage: listToMessage, toJson: listToJson }],
  ["google.protobuf.Value", { toMessage: valueToMessage, toJson: valueToJson }],
  ...["Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes"].map(
    (name) => [`google.protobuf.${name}Value`, WRAPPER] as const,
  ),
]);

const TYPE_PREFIX = "type.googleapis.com/";
/** Maximum nesting of Any in Any. Each level is copied once more. */
const ANY_NESTED_MAX = 4;

/** The messages that a google.protobuf.Any may hold. Others are neither packed nor unpacked. */
export class AnyTypes {
  /** Messages that the contract does not declare, and fields that are not supported. */
  readonly problems: readonly string[];
  readonly shapes: readonly MessageShape[];
  readonly #names: readonly string[];
  #depth = 0;

  constructor(names: readonly string[], messages: Declarations["messages"]) {
    this.#names = names;
    this.shapes = names.flatMap((name) => messages.get(name) ?? []);
    this.problems = names.flatMap((name) => {
      const shape = messages.get(name);
      if (shape === undefined) return [`the contract has no message ${name}`];
      return [...reachable(shape)].flatMap(({ unsupported }) => unsupported);
    });
  }

  /**
   * Encodes the content of an Any of a request.
   *
   * @param encode throws `MismatchError` when the content does not fit its type
   */
  pack(
    json: unknown,
    encode: (content: unknown, shape: MessageShape) => { readonly bytes: Buffer; readonly message: Json },
  ): { readonly fields: { readonly typeUrl: string; readonly value: string }; readonly json: Json } {
    if (this.#names.length === 0) throw new MismatchError("is a google.protobuf.Any, and anyTypes declares none");
    if (!isTable(json)) throw new MismatchError("is not an object");
    const { "@type": url, ...fields } = json;
    const typeUrl = typeof url === "string" ? url : "";
    const name = typeUrl.startsWith(TYPE_PREFIX) ? typeUrl.slice(TYPE_PREFIX.length) : "";
    const shape = this.#shapeOf(name);
    if (shape === undefined) {
      const known = listed(nearest(name, this.#names).map((one) => `${TYPE_PREFIX}${one}`));
      throw new MismatchError(`has an @type that is not declared; declared: ${known}`);
    }
    const { bytes, message } = this.#nested(() => encode(contentOf(fields, shape), shape));
    return { fields: { typeUrl, value: bytes.toString("base64") }, json: anyJson(typeUrl, message, shape) };
  }

  /** Decodes the content of an Any in an answer. For an undeclared message, returns only the name of its type. */
  unpack({ typeUrl, value }: Fields, decode: (bytes: Buffer, shape: MessageShape) => Json): Json {
    if (typeof typeUrl !== "string" || typeUrl === "") return {};
    const shape = this.#shapeOf(typeUrl.slice(typeUrl.lastIndexOf("/") + 1));
    if (shape === undefined) return { "@type": typeUrl };
    const bytes = Buffer.from(typeof value === "string" ? value : "", "base64");
    const content = this.#nested(() => decode(bytes, shape));
    return anyJson(typeUrl, content, shape);
  }

  #shapeOf(name: string): MessageShape | undefined {
    return this.shapes.find(({ fullName }) => fullName === name);
  }

  #nested<Result>(act: () => Result): Result {
    if (this.#depth >= ANY_NESTED_MAX) throw new MismatchError("is nested too deeply");
    this.#depth += 1;
    try {
      return act();
    } finally {
      this.#depth -= 1;
    }
  }
}

/** Returns the conversions of a message with a JSON form of its own, except Any. */
export function wellKnown({ fullName }: MessageShape): WellKnown | undefined {
  return WELL_KNOWN.get(fullName);
}

export function isSpecial({ fullName }: MessageShape): boolean {
  return fullName === ANY || WELL_KNOWN.has(fullName);
}

/** Returns the JSON form of an Any. Content with a JSON form of its own is under `value`. */
function anyJson(typeUrl: string, content: Json, shape: MessageShape): Json {
  return isSpecial(shape) || !isTable(content)
    ? { "@type": typeUrl, value: content }
    : { "@type": typeUrl, ...(content as object) };
}

function contentOf(fields: Fields, shape: MessageShape): unknown {
  if (!isSpecial(shape)) return fields;
  if (Object.keys(fields).some((key) => key !== "value"))
    throw new MismatchError("must have its content under value, and no other field");
  return fields["value"];
}
