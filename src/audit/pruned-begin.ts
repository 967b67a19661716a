import fs from "node:fs";
import { join } from "node:path";
import { readLink, type StreamName } from "./chain.ts";
import { ChainWalk } from "./chain-walk.ts";
import { type DayFile, visitLines } from "./line-files.ts";

/** What retention deleted, a line each; written by the export room. */
const RECORD_FILE = "pruned.jsonl";
const RECORD_BYTES_MAX = 16_777_216;

/**
 * The walk over all that is left of a stream: from its first line, or from behind what retention deleted and recorded. In
 * that case there is no tree: checkpoints speak of lines that are gone.
 */
export function walkFromBegin(dir: string, stream: StreamName, files: readonly DayFile[]): ChainWalk {
  const seq = firstSeq(files);
  const prev = seq === undefined || seq === 0 ? undefined : lastPruned(dir, stream, seq - 1);
  return seq === undefined || prev === undefined ? ChainWalk.fromBegin(stream) : ChainWalk.fromWithin({ seq, prev });
}

function firstSeq(files: readonly DayFile[]): number | undefined {
  const first = files.find(({ size }) => size > 0);
  let seq: number | undefined;
  if (first === undefined) {
    return undefined;
  }
  visitLines(first.path, 0, (bytes, from, to) => {
    seq = readLink(bytes, from, to)?.seq;
    return false;
  });
  return seq;
}

/** `hash` of line `seq`, as the record of its deletion has it. */
function lastPruned(dir: string, stream: StreamName, seq: number): string | undefined {
  const path = join(dir, RECORD_FILE);
  const size = fs.statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  const text = size > 0 && size <= RECORD_BYTES_MAX ? fs.readFileSync(path, "utf8") : "";
  const records = text.split("\n").map(parse);
  const record = records.find((one) => one["stream"] === stream && one["lastSeq"] === seq);
  const hash = record?.["lastHash"];
  return typeof hash === "string" ? hash : undefined;
}

function parse(line: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
  } catch {
    return {};
  }
}
