import { StatementRefused } from "../engine.ts";
import { decimalText, type ParameterType } from "../values.ts";
import { readStatement } from "./statement.ts";

const INTEGER = /^-?\d{1,20}$/;
const DECIMAL = /^-?(\d{1,65})(?:\.(\d{1,38}))?$/;
const FLOAT = /^-?\d{1,309}(?:\.\d{1,400})?(?:[eE][+-]?\d{1,3})?$/;
const DATE = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])$/;
const TIME = /^-?\d{2,3}:\d{2}(?::\d{2}(?:\.(\d{1,6}))?)?$/;
const DATETIME = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])[T ]\d{2}:\d{2}(?::\d{2}(?:\.(\d{1,6}))?)?$/;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

interface Form {
  /** Whether a text is one of the type's values, with the sizes that the statement gives the type. */
  readonly fits: (text: string, sizes: readonly number[]) => boolean;
  readonly says: string;
}

/**
 * The types that a statement may give a parameter, and how their values are written. The server accepts more, and changes it: it cuts
 * digits, and reads `9223372036854775808` as a negative number.
 */
const FORMS: Readonly<Record<string, Form>> = {
  text: { fits: () => true, says: "text" },
  signed: { fits: (text) => isWhole(text, -(2n ** 63n), 2n ** 63n - 1n), says: "a whole number" },
  unsigned: { fits: (text) => isWhole(text, 0n, 2n ** 64n - 1n), says: "a whole number that is not negative" },
  decimal: { fits: (text, [digits = 10, scale = 0]) => isDecimal(text, digits, scale), says: "a decimal number" },
  double: { fits: (text) => FLOAT.test(text) && Number.isFinite(Number(text)), says: "a number" },
  date: { fits: (text) => DATE.test(text), says: "a date, such as 2026-11-28" },
  time: { fits: (text, [scale = 0]) => isTime(TIME, text, scale), says: "a time, such as 14:02" },
  datetime: {
    fits: (text, [scale = 0]) => isTime(DATETIME, text, scale),
    says: "a time without a zone, such as 2026-11-28T14:02",
  },
  uuid: { fits: (text) => UUID.test(text), says: "a UUID" },
};

const TYPE = /^(\w+)(?:\(([\d,]*)\))?$/;

/** Returns the type of a parameter by its name and sizes, as `decimal(10,2)`. @throws {StatementRefused} */
export function parameterType(name: string): ParameterType {
  const [, base = "", sizes = ""] = TYPE.exec(name) ?? [];
  const form = Object.hasOwn(FORMS, base) ? FORMS[base] : undefined;
  if (form === undefined) throw new StatementRefused([`has a parameter of the type ${name}: use CAST(? AS CHAR)`]);
  const sizesGiven = sizes === "" ? [] : sizes.split(",").map(Number);
  return {
    name,
    isList: false,
    isEnum: false,
    form: {
      fits: (text) => form.fits(text, sizesGiven),
      says: form.says,
      textOf: (value) => (base === "decimal" && typeof value === "number" ? decimalText(value) : textOf(value)),
    },
  };
}

/** Returns the types that a statement gives its parameters, without the server. */
export function writtenTypes(statement: string): readonly ParameterType[] {
  return readStatement(statement, false).parameters.map((name) => {
    try {
      return parameterType(name);
    } catch {
      // The check with the server refuses the type.
      return parameterType("text");
    }
  });
}

/** MariaDB has neither truth values nor lists: those are 1 and 0, and JSON. */
function textOf(value: unknown): string {
  if (typeof value === "boolean") return value ? "1" : "0";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function isWhole(text: string, least: bigint, most: bigint): boolean {
  if (!INTEGER.test(text)) return false;
  const number = BigInt(text);
  return number >= least && number <= most;
}

function isDecimal(text: string, digits: number, scale: number): boolean {
  const [, whole, fraction = ""] = DECIMAL.exec(text) ?? [];
  return whole !== undefined && whole.replace(/^0+/, "").length <= digits - scale && fraction.length <= scale;
}

function isTime(pattern: RegExp, text: string, scale: number): boolean {
  const found = pattern.exec(text);
  return found !== null && (found[1]?.length ?? 0) <= scale;
}
