import { escapeJson } from "../escape.ts";
import type { Found } from "../query/scan.ts";
import { CSV_HEADER, toCsv } from "./csv.ts";
import { toOcsf } from "./ocsf.ts";

/** What `stc audit export` writes: a header, if any, and each call as one line, without line ends. */
export interface Format {
  readonly header?: string;
  line(found: Found): string;
}

export const FORMATS = {
  /** The lines as they are. */
  jsonl: { line: ({ line }) => line },
  /** For spreadsheets: commas, every text in quotes. */
  csv: { header: CSV_HEADER, line: toCsv },
  /** OCSF 1.8.0, class API Activity (6003). */
  ocsf: { line: (found) => escapeJson(JSON.stringify(toOcsf(found))) },
} as const satisfies Record<string, Format>;

export type FormatName = keyof typeof FORMATS;
