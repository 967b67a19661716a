import type { FieldPacket } from "mysql2";

/** The driver's value for a column of a row. */
export type SentValue = string | number | Buffer | null;

/** Numbers of column types: https://mariadb.com/kb/en/result-set-packets/#field-types */
const TYPE = { float: 4, bit: 16, geometry: 255 } as const;
const BINARY = 63;

const TYPE_NAMES: ReadonlyMap<number, string> = new Map([
  [0, "decimal"],
  [246, "decimal"],
  [1, "tinyint"],
  [2, "smallint"],
  [9, "mediumint"],
  [3, "int"],
  [8, "bigint"],
  [TYPE.float, "float"],
  [5, "double"],
  [6, "null"],
  [7, "timestamp"],
  [10, "date"],
  [11, "time"],
  [12, "datetime"],
  [13, "year"],
  [14, "date"],
  [TYPE.bit, "bit"],
  [245, "json"],
  [247, "enum"],
  [248, "set"],
  [TYPE.geometry, "geometry"],
]);

/** Returns the name of a column's type, as MariaDB has it; `text` and `binary` for those of any length. */
export function typeName(field: FieldPacket): string {
  const { extendedFormat } = field as { readonly extendedFormat?: string };
  if (extendedFormat === "json") return "json";
  return TYPE_NAMES.get(field.columnType ?? -1) ?? (charsetOf(field) === BINARY ? "binary" : "text");
}

/** Returns the character set of a column's texts. */
export function charsetOf(field: FieldPacket): number | undefined {
  return (field as { readonly characterSet?: number }).characterSet;
}

/** Returns the exact text of a value: bits as a whole number, bytes as `\x` and hexadecimal digits. */
export function cellText(value: SentValue, field: FieldPacket): string | null {
  if (value === null || typeof value === "string") return value;
  if (typeof value === "number") return field.columnType === TYPE.float ? floatText(value) : numberText(value);
  if (!Buffer.isBuffer(value)) throw new Error("the driver returned a decoded value, not bytes");
  const digits = value.toString("hex");
  return field.columnType === TYPE.bit ? String(BigInt(`0x${digits || "0"}`)) : `\\x${digits}`;
}

function numberText(value: number): string {
  return Object.is(value, -0) ? "-0" : String(value);
}

/** Returns the shortest text of a number of 32 bits: it arrives as one of 64, with digits that nobody has stored. */
function floatText(value: number): string {
  for (let digits = 1; digits < 9; digits += 1) {
    const text = numberText(Number(value.toPrecision(digits)));
    if (Math.fround(Number(text)) === value) return text;
  }
  return numberText(value);
}
