import { wrap } from "./approvals/view.ts";
import { print, table } from "./output.ts";

/** Returns the maximum line width: the width of a terminal, unlimited for any other output. */
export function columnsOf({ isTTY, columns }: Pick<NodeJS.WriteStream, "isTTY" | "columns">): number {
  return isTTY ? columns || 80 : Number.POSITIVE_INFINITY;
}

/**
 * Prints a table of data from services. On a terminal, a long row continues after a gutter so that its end cannot pose as a row.
 */
export function printListing(rows: readonly (readonly string[])[]): void {
  const columns = columnsOf(process.stdout);
  const lines = table(rows).split("\n");
  print.line(lines.flatMap((line) => wrap(line, columns)).join("\n"));
}
