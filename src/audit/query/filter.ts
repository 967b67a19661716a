import { REFUSALS } from "../../core/errors.ts";
import { escapeJson } from "../escape.ts";
import type { EntryView } from "./view.ts";

/** Maximum characters of a filter value. */
export const VALUE_CHARACTERS_MAX = 512;

/** Minimum length of a search anchor: shorter strings occur in nearly every line. */
const ANCHOR_CHARACTERS_MIN = 3;

interface FieldRow {
  /** The allowed values; any string when missing. */
  readonly values?: readonly string[];
  /** True when the value is accepted in either case and stored in lowercase. */
  readonly isHex?: true;
  is(entry: EntryView, value: string): boolean;
}

const refusals = Object.entries(REFUSALS);

/** Fields that a query can match exactly, most selective first: the bytes are searched in that order. */
export const FIELDS = {
  traceId: { isHex: true, is: (entry, value) => entry.traceId === value || entry.wireTraceId === value },
  approval: { isHex: true, is: ({ approvalId }, value) => approvalId === value },
  sub: { is: ({ sub }, value) => sub === value },
  code: { values: refusals.map(([code]) => code), is: ({ code }, value) => code === value },
  tool: { is: ({ tool }, value) => tool === value },
  system: { is: ({ system }, value) => system === value },
  stage: {
    values: [...new Set(refusals.map(([, { stage }]) => stage as string))],
    is: ({ stage }, value) => stage === value,
  },
  classification: {
    values: ["read", "write", "destructive", "unknown"],
    is: ({ classification }, value) => classification === value,
  },
  iss: { is: ({ iss }, value) => iss === value },
  decision: { values: ["ALLOWED", "DENIED", "ERROR", "PENDING"], is: ({ decision }, value) => decision === value },
} as const satisfies Record<string, FieldRow>;

export type Field = keyof typeof FIELDS;
const FIELD_ROWS: Readonly<Record<Field, FieldRow>> = FIELDS;
const FIELD_NAMES = Object.keys(FIELDS) as readonly Field[];

export interface Filter {
  /** Start of the time range, inclusive, in milliseconds since 1970. */
  readonly fromMs?: number | undefined;
  /** End of the time range, exclusive, in milliseconds since 1970. */
  readonly toMs?: number | undefined;
  readonly exact: Readonly<Partial<Record<Field, string>>>;
  /** Text anywhere in the line as written; ASCII letters match in either case. */
  readonly text?: string | undefined;
}

/** Returns the normalized value, or the problem with it. */
export function readField(field: Field, value: string): { readonly value: string } | { readonly fault: string } {
  const { values, isHex } = FIELD_ROWS[field];
  if (value === "" || value.length > VALUE_CHARACTERS_MAX) {
    return { fault: `${field} must have 1 to ${VALUE_CHARACTERS_MAX} characters` };
  }
  if (values !== undefined && !values.includes(value)) return { fault: `${field} must be one of ${values.join(", ")}` };
  return { value: isHex === true && /^[0-9A-Fa-f-]{1,64}$/.test(value) ? value.toLowerCase() : value };
}

/** Decides which lines match a filter, and provides the bytes by which to search for them. */
export class Matcher {
  readonly filter: Filter;
  /** Byte strings that every matching line contains. */
  readonly needles: readonly Buffer[];
  /** Searched in the lowercase copy of the bytes when there is no needle. */
  readonly folded: Buffer | undefined;
  readonly #exact: readonly (readonly [FieldRow, string])[];
  readonly #text: string | undefined;

  constructor(filter: Filter) {
    this.filter = filter;
    const asked = FIELD_NAMES.flatMap((field) => {
      const value = filter.exact[field];
      return value === undefined ? [] : [[FIELD_ROWS[field], value] as const];
    });
    this.#exact = asked;
    this.#text = filter.text === undefined ? undefined : foldAscii(filter.text);
    const needles = asked.map(([, value]) => needleOf(value));
    const anchor = filter.text === undefined ? undefined : anchorOf(filter.text);
    this.needles = anchor === undefined ? needles : [...needles, Buffer.from(anchor)];
    this.folded = filter.text === undefined ? undefined : Buffer.from(foldAscii(filter.text));
  }

  accepts(entry: EntryView, line: string): boolean {
    const { fromMs, toMs } = this.filter;
    if (fromMs !== undefined && entry.timeMs < fromMs) return false;
    if (toMs !== undefined && entry.timeMs >= toMs) return false;
    if (!this.#exact.every(([row, value]) => row.is(entry, value))) return false;
    return this.#text === undefined || foldAscii(line).includes(this.#text);
  }
}

/** Returns the value as the writer serializes it. */
function needleOf(value: string): Buffer {
  return Buffer.from(escapeJson(JSON.stringify(value)));
}

/** Returns the longest part of the text that is the same in either case. */
function anchorOf(text: string): string | undefined {
  const parts = text.split(/[A-Za-z]/).sort((one, other) => other.length - one.length);
  return parts.find((part) => part.length >= ANCHOR_CHARACTERS_MIN || part === text);
}

function foldAscii(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}
