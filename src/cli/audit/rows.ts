import { escapeName } from "../../audit/escape.ts";
import { type EntryView, parseLine, viewOf } from "../../audit/query/view.ts";
import { print } from "../output.ts";
import { type AuditDirectory, colourOf } from "./directory.ts";

/** Column widths. A longer cell moves the rest of its line; nothing is cut off. */
const COLUMNS = ["TIME", "DECISION", "TOOL", "CALLER", "DURATION", "TRACE"] as const;
const WIDTHS = [24, 26, 24, 20, 12, 36] as const;
const DECISION = 1;

/** Prints one call as a table row. Everything is escaped, because it is unknown who wrote to the directory. */
export function printEntry(entry: EntryView, place: Pick<AuditDirectory, "isColoured">): void {
  const { count, decision = "" } = entry;
  printCells(
    [
      entry.timestamp,
      [decision, entry.code].filter((part) => part !== undefined).join(" "),
      count === 1 ? (entry.tool ?? "") : `${entry.tool ?? ""} x${count}`,
      entry.sub ?? "",
      entry.duration === undefined ? "" : `${entry.duration.toFixed(1)} ms`,
      entry.traceId ?? "",
    ],
    colourOf(entry.decision, place),
  );
}

export function printHeader(): void {
  printCells(COLUMNS, undefined);
}

/** Prints a line that may have any content. */
export function printLine(line: string, place: Pick<AuditDirectory, "isColoured">): void {
  const members = parseLine(line);
  const entry = members && viewOf(members);
  if (entry === undefined) print.line(`(not a line of the audit) ${escapeName(line)}`);
  else printEntry(entry, place);
}

function printCells(cells: readonly string[], colour: ReturnType<typeof colourOf>): void {
  const last = cells.length - 1;
  const padded = cells.map((cell, at) => escapeName(cell).padEnd(at === last ? 0 : (WIDTHS[at] ?? 0)));
  const pieces = padded.map((text, at) => ({
    text: at === last ? text : `${text}  `,
    colour: at === DECISION ? colour : undefined,
  }));
  print.pieces(pieces);
}
