import { basename } from "node:path";
import { errorText } from "../../core/error-text.ts";
import { isTable } from "../../core/json.ts";

const FAULTS_MAX = 5;

/** Why a module did not load. The runtime says of code that is none where that is, and tells several faults in one error. */
export function loadFaults(error: unknown): readonly string[] {
  const faults: readonly unknown[] = error instanceof AggregateError ? error.errors.slice(0, FAULTS_MAX) : [];
  return (faults.length === 0 ? [error] : faults).map((fault) => placeOf(fault) + errorText(fault));
}

/** `file.ts:3:14: `, or nothing where none is told. */
function placeOf(fault: unknown): string {
  const position = isTable(fault) ? fault["position"] : undefined;
  if (!isTable(position)) return "";
  const { file, line, column } = position;
  return typeof file === "string" && typeof line === "number" ? `${basename(file)}:${line}:${String(column)}: ` : "";
}
