import fs from "node:fs";
import { join } from "node:path";
import { readLastNotes } from "../checkpoint-files.ts";
import { daysIn, type Stream, streamDir } from "../query-days.ts";
import { parseLine, textOf } from "../query-view.ts";
import { dayOf } from "../time-range.ts";
import { readLastLine } from "../torn-tail.ts";
import { type ExportPlace, readExportPlaces } from "./place-files.ts";

/** What was deleted, a line each: the chain of what is left begins behind it. */
const RECORD_FILE = "pruned.jsonl";
const STREAMS = ["calls", "journal"] as const;

export interface PruneOptions {
  readonly dir: string;
  /** Milliseconds since 1970. */
  readonly nowMs: number;
  /** Files of days that ended so long ago, in milliseconds, may go. */
  readonly keepMs: number;
  /** Exporters that must have passed a file even if they never ran; those that ever ran must in any case. */
  readonly exporters?: readonly string[];
}

/** One file that is older than it must be, and why it stays if it does. */
export interface Aged {
  readonly stream: Stream;
  readonly day: string;
  readonly path: string;
  readonly bytes: number;
  readonly keptBecause: string | undefined;
}

/** What may go, oldest first. A stream is cut from its begin only: behind a file that stays every other stays too. */
export function agedFiles(options: PruneOptions): readonly Aged[] {
  const before = dayOf(options.nowMs - options.keepMs);
  const today = dayOf(options.nowMs);
  return STREAMS.flatMap((stream) => {
    const dir = streamDir(options.dir, stream);
    const days = daysIn(dir);
    const rules = rulesOf(options, stream);
    const aged: Aged[] = [];
    for (const day of days.filter((one) => one < before && one < today)) {
      const path = join(dir, `${day}.jsonl`);
      const facts = fs.lstatSync(path);
      const bytes = facts.size;
      const isNewest = day === days.at(-1);
      const blocked = aged.at(-1)?.keptBecause === undefined ? undefined : "an older file stays";
      const keptBecause = blocked ?? reasonToKeep(facts.isFile(), isNewest) ?? rules(day, path, bytes);
      aged.push({ stream, day, path, bytes, keptBecause });
    }
    return aged;
  });
}

/** Deletes what may go; each file is on the record, durably, before. */
export function pruneFiles(aged: readonly Aged[], { dir, nowMs }: PruneOptions): readonly Aged[] {
  const going = aged.filter(({ keptBecause }) => keptBecause === undefined);
  for (const { stream, day, path, bytes } of going) {
    const last = parseLine(readLastLine(path) ?? "") ?? {};
    const record = {
      timestamp: new Date(nowMs).toISOString(),
      ...{ type: "audit.pruned", stream, day, bytes },
      ...{ lastSeq: seqOf(last["seq"]), lastHash: textOf(last["hash"]) },
    };
    appendDurably(join(dir, RECORD_FILE), `${JSON.stringify(record)}\n`);
    fs.unlinkSync(path);
  }
  return going;
}

function reasonToKeep(isFile: boolean, isNewest: boolean): string | undefined {
  if (!isFile) return "it is not a regular file";
  return isNewest ? "the log goes on from its newest file" : undefined;
}

type Rule = (day: string, path: string, bytes: number) => string | undefined;

function rulesOf({ dir, exporters = [] }: PruneOptions, stream: Stream): Rule {
  const places = readExportPlaces(dir).filter((place) => place.stream === stream);
  const missing = exporters
    .filter((exporter) => !places.some((place) => place.exporter === exporter))
    .map((exporter) => ({ exporter, stream, position: undefined }));
  const covered = coveredLines(dir, stream);
  return (day, path, bytes) => {
    const behind = [...places, ...missing].find((place) => !hasPassed(place, day, bytes));
    if (behind !== undefined) return `the exporter ${behind.exporter} has not passed it`;
    if (covered === undefined) return undefined;
    const seq = lastSeqOf(path);
    return seq !== undefined && seq >= covered ? "no checkpoint covers it" : undefined;
  };
}

function hasPassed({ position }: ExportPlace, day: string, bytes: number): boolean {
  if (position === undefined) return false;
  return position.day > day || (position.day === day && position.offset >= bytes);
}

/** How many lines of the stream are under a checkpoint; `undefined` when this log has none. */
function coveredLines(dir: string, stream: Stream): number | undefined {
  const notes = readLastNotes(dir);
  if (notes.length === 0) return undefined;
  return Math.max(0, ...notes.flatMap(({ checkpoint }) => (checkpoint?.stream === stream ? [checkpoint.size] : [])));
}

function lastSeqOf(path: string): number | undefined {
  return seqOf(parseLine(readLastLine(path) ?? "")?.["seq"]);
}

function seqOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) ? (value as number) : undefined;
}

function appendDurably(path: string, text: string): void {
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_WRONLY } = fs.constants;
  const fd = fs.openSync(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600);
  try {
    fs.writeSync(fd, text);
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
