import fs from "node:fs";
import { join } from "node:path";
import { readLink, type StreamName } from "../chain/chain.ts";
import { ChainWalk, type Expected } from "../chain/chain-walk.ts";
import { MerkleTree } from "../chain/merkle-tree.ts";
import { readSmallFile } from "./file-operations.ts";
import { type DayFile, visitLines } from "./line-files.ts";

/** File that records what retention deleted, one line per deletion. */
export const RECORD_FILE = "pruned.jsonl";
const RECORD_BYTES_MAX = 16_777_216;
const SHA256_HEX = /^[0-9a-f]{64}$/;
const LOG_ID = /^[0-9a-f]{32}$/;

/** State of the chain at the end of a deleted file, from which the remaining lines can be verified. */
export interface Cut {
  /** Expected link of the next line that has one. */
  readonly next: Expected;
  /** `undefined` when earlier lines were deleted without a record. */
  readonly tree: MerkleTree | undefined;
  readonly logId: string | undefined;
}

/** A deletion, as it is recorded. */
export interface Pruned {
  readonly timestamp: string;
  readonly stream: StreamName;
  readonly day: string;
  readonly bytes: number;
  /** `undefined` when no line of the stream has a link. */
  readonly cut: Cut | undefined;
}

/**
 * Records a deletion; the record is durable on return. An incomplete line left by a crash stays on a line of its own.
 */
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

/**
 * Returns the members that describe the cut. `hashes` are the roots of the full subtrees, from the largest to the
 * smallest; later roots can be computed from them.
 */
function cutMembers(cut: Cut | undefined): object {
  if (cut === undefined) return {};
  const { next, tree, logId } = cut;
  const hashes = tree?.hashes().map((digest) => digest.toString("base64"));
  return { nextSeq: next.seq, nextPrev: next.prev, logId, hashes };
}

/**
 * Returns a walk over everything that is left of a stream: from its first line, or from the first line after those that
 * retention deleted and recorded. When the record holds no hashes, the walk has no tree: checkpoints then cover lines
 * that were deleted.
 */
export function walkFromBegin(dir: string, stream: StreamName, files: readonly DayFile[]): ChainWalk {
  const first = files.find(({ size }) => size > 0);
  const cut = first && cutBefore(dir, stream, first);
  return cut === undefined ? ChainWalk.fromBegin(stream) : ChainWalk.behindPruned(cut.next, cut.tree, cut.logId);
}

/**
 * Returns the state of the chain before the first remaining file; `undefined` when no earlier file is known to be
 * deleted.
 */
function cutBefore(dir: string, stream: StreamName, first: DayFile): Cut | undefined {
  const seq = firstSeq(first);
  const records = readRecords(dir).filter((record) => record["stream"] === stream);
  if (seq !== undefined && seq > 0) {
    return cutOf(records.findLast((record) => nextSeqOf(record) === seq));
  }
  const before = records.filter(({ day }) => String(day) < first.day);
  // A first line without a link was written before the chain existed, or not by this service.
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

/** Returns the `seq` of the next line. Records of former versions hold the `seq` of the last line instead. */
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
