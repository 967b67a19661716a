import { STREAMS } from "../../audit/chain/chain.ts";
import { escapeName } from "../../audit/escape.ts";
import { readTrail } from "../../audit/query/call-history.ts";
import type { FoundLine } from "../../audit/query/filter.ts";
import { type LineMembers, membersOf, parseLine, textOf } from "../../audit/query/view.ts";
import { print, table } from "../output.ts";
import { auditPlace, EXIT, ProgressLine, refuse, warnOfDays, withIndex } from "./directory.ts";

const ID = /^[\x21-\x7e]{1,128}$/;

/**
 * `stc audit show`: prints a call with its intent and its approvals in chronological order. Exit code: 0 found; 1 unknown; 64
 * wrong usage; 66 no directory.
 */
export async function auditShow(
  id: string,
  options: { readonly dir?: string; readonly json?: boolean },
): Promise<void> {
  const place = auditPlace(options.dir);
  if (place === undefined) return;
  if (!ID.test(id)) return refuse(["the id must be 1 to 128 printable characters"]);
  warnOfDays(place.dir, STREAMS);
  const progress = new ProgressLine();
  const trail = await withIndex(place.dir, async (places) => {
    const read = await readTrail({ dir: place.dir, id, places, mayGoOn: progress.heed });
    progress.end();
    return read;
  });
  const lines = [...trail.journal, ...trail.calls].sort((one, other) => one.entry.timeMs - other.entry.timeMs);
  if (lines.length === 0) {
    print.error(`nothing in ${place.dir} carries the id ${id}`);
    process.exitCode = EXIT.nothing;
    return;
  }
  if (options.json === true) {
    for (const { line } of lines) print.line(line);
    return;
  }
  print.line(table([["TIME", "WHAT", "TOOL", "WHO", "TRACE OR APPROVAL"], ...lines.map(rowOf)]));
  for (const { line } of trail.calls) print.line(`\n${indented(line)}`);
}

/** Deeper lines were not written by this service. Indenting them would grow with the square of the depth. */
const DEPTH_MAX = 300;

function indented(line: string): string {
  const members = parseLine(line);
  return isDeeper(members, DEPTH_MAX) ? line : JSON.stringify(members, null, 2);
}

function isDeeper(value: unknown, depthMax: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return depthMax === 0 || Object.values(value).some((member) => isDeeper(member, depthMax - 1));
}

/** Returns a table row. A journal line is described by its type, a call by its decision. */
function rowOf({ line, entry }: FoundLine): readonly string[] {
  const members = parseLine(line) ?? {};
  const type = textOf(members["type"]);
  const what = type ?? ["call", entry.decision, entry.code].filter((part) => part !== undefined).join(" ");
  const tool = entry.tool ?? textOf(members["tool"]);
  const who = entry.sub ?? whoOf(members);
  const id = type === undefined ? entry.traceId : (textOf(members["id"]) ?? entry.traceId);
  return [entry.timestamp, what, tool, who, id].map((cell) => escapeName(cell ?? "-"));
}

/**
 * Returns who acted: the approver if there is one, otherwise the requester, who is named in every line of an approval request.
 */
function whoOf(members: LineMembers): string | undefined {
  return textOf(members["sub"]) ?? textOf(membersOf(members["decider"])?.["subject"]) ?? textOf(members["subject"]);
}
