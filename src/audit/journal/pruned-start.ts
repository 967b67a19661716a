import fs from "node:fs";
import { join } from "node:path";
import { readLink, type StreamName } from "../chain/chain.ts";
import { ChainWalk, type Expected } from "../chain/chain-walk.ts";
import { MerkleTree } from "../chain/merkle-tree.ts";
import { readSmallFile } from "./file-operations.ts";
import { type DayFile, visitLines } from "./line-files.ts";

/** What retention deleted, a line each. */
export const RECORD_FILE = "pruned.jsonl";
const RECORD_BYTES_MAX = 16_777_216;
const SHA256_HEX = /^[0-9a-f]{64}$/;
const LOG_ID = /^[0-9a-f]{32}$/;

/** The chain at the end of a file that goes, so that what stays can be followed from there. */
export interface Cut {
  /** What the next line with a link must say. */
  readonly next: Expected;
  /** Missing when lines before were deleted without a record of it. */
  readonly tree: MerkleTree | undefined;
  readonly logId: string | undefined;
}

/** A deletion, as it is put on record. */
export interface Pruned {
  readonly timestamp: string;
  readonly stream: StreamName;
  readonly day: string;
  readonly bytes: number;
  /** `undefined` when no line of the stream has a link. */
  readonly cut: Cut | undefined;
}

/** Writes the record of a deletion; durable when it returns. A line that a crash cut short is left to itself. */
export function recordPruned(dir: string, { timestamp, stream, day, bytes, cut }: Pruned): void {
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDWR } = fs.constants;
  const fd = fs.openSync(join(dir, RECORD_FILE), O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600);
  const line = JSON.stringify({ timestamp, type: "audit.pruned", stream, day, bytes, ...cutMembers(cut) });
  try {
    const { size } = fs.fstatSync(fd);
    const last = Buffer.alloc(1);
    const isTorn = size > 0 && fs.readSync(fd, last, 0, 1, size - 1) === 1 && last.toString("latin1") !== "\n";
    let rest: Uint8Array = Buffer.from(`${isTorn ? "\n" : ""}${line}\n`);
    while (rest.length > 0) rest = rest.subarray(fs.writeSync(fd, rest));
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/** `hashes` are the roots of the full subtrees, from the largest to the smallest: with them later roots can be computed. */
function cutMembers(cut: Cut | undefined): object {
  if (cut === undefined) return {};
  const { next, tree, logId } = cut;
  const hashes = tree?.hashes().map((digest) => digest.toString("base64"));
  return { nextSeq: next.seq, nextPrev: next.prev, logId, hashes };
}

/**
 * The walk over all that is left of a stream: from its first line, or from behind what retention deleted and recorded. When
 * the record holds no hashes there is no tree: checkpoints speak of lines that are gone.
 */
export function walkFromBegin(dir: string, stream: StreamName, files: readonly DayFile[]): ChainWalk {
  const first = files.find(({ size }) => size > 0);
  const cut = first && cutBefore(dir, stream, first);
  return cut === undefined ? ChainWalk.fromBegin(stream) : ChainWalk.behindPruned(cut.next, cut.tree, cut.logId);
}

/** Where the chain was cut before the first file that is left; `undefined` when nothing before it is known to be gone. */
function cutBefore(dir: string, stream: StreamName, first: DayFile): Cut | undefined {
  const seq = firstSeq(first);
  const records = readRecords(dir).filter((record) => record["stream"] === stream);
  if (seq !== undefined && seq > 0) {
    return cutOf(records.findLast((record) => nextSeqOf(record) === seq));
  }
  const before = records.filter(({ day }) => String(day) < first.day);
  // Without a link it is from before the chain, or nobody of ours wrote it.
  return cutOf(seq === undefined ? before.at(-1) : before.findLast((record) => nextSeqOf(record) === 0));
}

function firstSeq(first: DayFile): number | undefined {
  let seq: number | undefined;
  visitLines(first.path, 0, (bytes, from, to) => {
    seq = readLink(bytes, from, to)?.seq;
    return false;
  });
  return seq;
}

type PrunedRecord = Readonly<Record<string, unknown>>;

/** Records of former versions have the last line instead of the next one. */
function nextSeqOf({ nextSeq, lastSeq }: PrunedRecord): unknown {
  return nextSeq ?? (typeof lastSeq === "number" ? lastSeq + 1 : undefined);
}

function cutOf(record: PrunedRecord | undefined): Cut | undefined {
  const seq = record && nextSeqOf(record);
  const prev = record?.["nextPrev"] ?? record?.["lastHash"];
  if (!Number.isSafeInteger(seq) || typeof prev !== "string" || !SHA256_HEX.test(prev)) {
    return undefined;
  }
  const logId = record?.["logId"];
  return {
    next: { seq: seq as number, prev },
    tree: treeOf(seq as number, record?.["hashes"]),
    logId: typeof logId === "string" && LOG_ID.test(logId) ? logId : undefined,
  };
}

function treeOf(size: number, hashes: unknown): MerkleTree | undefined {
  if (!Array.isArray(hashes)) return undefined;
  return MerkleTree.from(
    size,
    hashes.map((digest) => Buffer.from(String(digest), "base64")),
  );
}

function readRecords(dir: string): readonly PrunedRecord[] {
  const text = readSmallFile(join(dir, RECORD_FILE), RECORD_BYTES_MAX) ?? "";
  return text.split("\n").map(parse);
}

function parse(line: string): PrunedRecord {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? (value as PrunedRecord) : {};
  } catch {
    return {};
  }
}
