import { duckdbView } from "../../audit/store/duckdb.ts";
import { print } from "../output.ts";

/** `stc audit duckdb`: prints the view that shows the lines of an archive in the columns of the audit stores. */
export function auditDuckdb(archive: string): void {
  print.line(duckdbView(archive).trimEnd());
}
