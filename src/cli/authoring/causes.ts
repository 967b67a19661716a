import { EMBEDDED } from "../../core/embedded-code.ts";
import { isTable } from "../../core/json.ts";
import { ownCode } from "../../runtime/own-code.ts";

/** One error of a chain of causes, for the author of a tool. */
export interface Cause {
  readonly name: string;
  readonly message: string;
  /** Positions in the author's own files, innermost first: `tools/report.ts:12:9`. */
  readonly at: readonly string[];
  /** What an error of the service says beside its message. */
  readonly details?: unknown;
}

const CAUSES_MAX = 10;
const POSITIONS_MAX = 10;
const FRAME = /^\s*at (?:(?:async )?(.*?) \()?((?:file:\/\/)?\/[^()]*?):(\d+):(\d+)\)?$/;

/** Returns the chain of causes of a thrown value, outermost first. */
export function causesOf(thrown: unknown): readonly Cause[] {
  const causes: Cause[] = [];
  for (let at = thrown; at !== undefined && causes.length < CAUSES_MAX; ) {
    causes.push(causeOf(at));
    at = at instanceof Error ? at.cause : undefined;
  }
  return causes;
}

function causeOf(thrown: unknown): Cause {
  if (thrown instanceof Error) {
    return { name: thrown.name, message: thrown.message, at: positionsIn(thrown.stack ?? "") };
  }
  if (isTable(thrown)) return { name: "cause", message: "", at: [], details: thrown };
  return { name: "cause", message: String(thrown), at: [] };
}

/** Returns the positions of a stack that are in files of the author: neither in the service nor in packages. */
function positionsIn(stack: string): readonly string[] {
  const own = ownCode();
  const found = stack.split("\n").flatMap((line) => {
    const [, name, file = "", row, column] = FRAME.exec(line) ?? [];
    const path = file.replace(/^file:\/\//, "").replace(/\?v=[^:]*$/, "");
    const isOurs = path.startsWith(`${own}/`) || path.startsWith(EMBEDDED) || path.includes("/node_modules/");
    if (path === "" || isOurs) return [];
    return [`${path}:${row}:${column}${name === undefined || name === "" ? "" : ` (${name})`}`];
  });
  return found.slice(0, POSITIONS_MAX);
}
