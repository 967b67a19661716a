import { wrap } from "./approvals/view.ts";
import { print, table } from "./output.ts";

/** How wide a line may be: a terminal's width, and any where the output goes elsewhere. */
export function columnsOf({ isTTY, columns }: Pick<NodeJS.WriteStream, "isTTY" | "columns">): number {
  return isTTY ? columns || 80 : Number.POSITIVE_INFINITY;
}

/** A table of what services tell. On a terminal a row that is too long goes on behind a gutter: its end cannot pose as a row. */
export function printListing(rows: readonly (readonly string[])[]): void {
  const columns = columnsOf(process.stdout);
  const lines = table(rows).split("\n");
  print.line(lines.flatMap((line) => wrap(line, columns)).join("\n"));
}
