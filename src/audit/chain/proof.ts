import type { KeyObject } from "node:crypto";
import { SHA256_BYTES } from "../../core/digest.ts";
import { BOUNDED_TEXT_LIMITS, parseStrictJson, whyUnusable } from "../../core/strict-json.ts";
import { AuditLogError } from "../audit-log-error.ts";
import { dayFilesOf } from "../journal/day-files.ts";
import { logsIn } from "../logs.ts";
import { membersOf, parseLine } from "../query/view.ts";
import { readLink } from "./chain.ts";
import { runToEnd, walkFiles, walkFromStart, walkInSteps } from "./chain-walk.ts";
import { type Checkpoint, readCheckpoint, readLastNotes } from "./checkpoint.ts";
import { leafHash, nodeHash } from "./merkle-tree.ts";
import { isUnsigned, verifyNote } from "./signed-note.ts";

const TYPE = "safe-tool-call/audit-proof/1";
/** Maximum length of a path: the height of a tree of 2^53 lines. */
const HASHES_MAX = 53;

/** Proof that a log contains one line. It can be checked with only the log's public key. */
export interface Proof {
  readonly type: typeof TYPE;
  /** The line exactly as it is in the file. */
  readonly line: string;
  /** Its `seq`. */
  readonly index: number;
  /** Hashes in base64, from the leaf's sibling upward (RFC 6962). */
  readonly hashes: readonly string[];
  /** The signed note. */
  readonly checkpoint: string;
}

/**
 * Proves the call with this `traceId` or `id` with the newest checkpoint of its log. Reads the whole stream.
 *
 * @throws AuditLogError when there is no such line, or no checkpoint covers it.
 */
export function prove(dir: string, id: string): Proof {
  for (const log of logsIn(dir)) {
    const found = findLine(log.dir, id);
    if (found !== undefined) return runToEnd(proveLine(log.dir, found));
  }
  throw new AuditLogError(`no call in ${dir} has the traceId or id ${id}, or it is from before the chain`);
}

/**
 * Proves a line of `calls` with the newest checkpoint, in steps of some milliseconds, of which each yields the bytes that it read.
 *
 * @throws AuditLogError when no checkpoint covers the line, or it is from before the chain.
 */
export function* proveLine(dir: string, { line, seq = seqOf(line) }: ProvedLine): Generator<number, Proof> {
  const note = readLastNotes(dir).findLast(({ checkpoint }) => checkpoint?.stream === "calls");
  if (note?.checkpoint === undefined) {
    throw new AuditLogError(`${dir} holds no checkpoint of calls: the service signs one about a second after a call`);
  }
  const { size } = note.checkpoint;
  if (seq === undefined) throw new AuditLogError("the line is from before the chain");
  if (seq >= size) {
    throw new AuditLogError(
      `no checkpoint covers the line yet (it is line ${seq}, ${size} are covered): wait a second`,
    );
  }
  const path = yield* pathTo(dir, seq, size);
  const hashes = path.map((digest) => digest.toString("base64"));
  return { type: TYPE, line, index: seq, hashes, checkpoint: note.note };
}

interface ProvedLine {
  readonly line: string;
  /** Its number in the chain; read from the line when left out. */
  readonly seq?: number | undefined;
}

function seqOf(line: string): number | undefined {
  const bytes = Buffer.from(`\n${line}`);
  return readLink(bytes, 1, bytes.length)?.seq;
}

function findLine(dir: string, id: string): Required<ProvedLine> | undefined {
  const needle = Buffer.from(JSON.stringify(id));
  const found: { readonly line: string; readonly seq: number }[] = [];
  walkFiles(dayFilesOf(dir, "calls"), { index: 0, offset: 0 }, (bytes, from, to) => {
    // Search only within the line: otherwise the rest of the buffer would be searched again for every line.
    const link = bytes.subarray(from, to).includes(needle) ? readLink(bytes, from, to) : undefined;
    if (link === undefined) return true;
    const line = bytes.toString("utf8", from, to);
    const entry = parseLine(line);
    if (entry?.["traceId"] === id || entry?.["id"] === id) found.push({ line, seq: link.seq });
    return found.length === 0;
  });
  return found[0];
}

interface Span {
  readonly from: number;
  readonly to: number;
}

/**
 * Returns the sibling subtrees on the path from leaf `index` to the root of `span`, from the leaf upward (RFC 6962,
 * 2.1.1).
 */
function neighbours(index: number, span: Span): readonly Span[] {
  const { from, to } = span;
  if (to - from <= 1) return [];
  let half = 1;
  while (half * 2 < to - from) half *= 2;
  const left = { from, to: from + half };
  const right = { from: from + half, to };
  return index < right.from ? [...neighbours(index, left), right] : [...neighbours(index, right), left];
}

function* pathTo(dir: string, index: number, size: number): Generator<number, readonly Buffer[]> {
  const files = dayFilesOf(dir, "calls");
  // The lines that retention deleted are known by the roots that it recorded.
  const { tree: pruned } = walkFromStart(dir, "calls", files);
  if (pruned === undefined) throw new AuditLogError("lines were pruned without a record of their hashes");
  const spans = neighbours(index, { from: 0, to: size }).map(({ from, to }) => ({
    from,
    to,
    tree: pruned.part(from, to),
  }));
  const inOrder = spans.toSorted((one, other) => one.from - other.from);
  let at = pruned.size;
  let current = 0;
  yield* walkInSteps(files, { index: 0, offset: 0 }, (bytes, from, to) => {
    const link = readLink(bytes, from, to);
    if (link === undefined && at === pruned.size) return true;
    if (link?.seq !== at) {
      throw new AuditLogError(`the log does not hold line ${at} in its place: stc audit verify shows more`);
    }
    while (current < inOrder.length && at >= (inOrder[current]?.to ?? 0)) current += 1;
    const span = inOrder[current];
    if (span !== undefined && at >= span.from) span.tree.append(leafHash(bytes, from, to));
    at += 1;
    return at < size;
  });
  return spans.map(({ tree }) => tree.root());
}

/**
 * Reads an untrusted proof.
 *
 * @throws AuditLogError when the text is not a proof.
 */
export function readProof(text: string): Proof {
  let value: unknown;
  try {
    value = parseStrictJson(text, BOUNDED_TEXT_LIMITS);
  } catch (error) {
    throw new AuditLogError(`the proof is not JSON that can be used: ${whyUnusable(error)}`);
  }
  const { type, line, index, hashes, checkpoint } = membersOf(value) ?? {};
  if (
    type !== TYPE ||
    typeof line !== "string" ||
    !Number.isSafeInteger(index) ||
    typeof checkpoint !== "string" ||
    !Array.isArray(hashes) ||
    hashes.length > HASHES_MAX ||
    !hashes.every((digest) => typeof digest === "string")
  ) {
    throw new AuditLogError(`the proof is not of type ${TYPE}`);
  }
  return { type: TYPE, line, index: index as number, hashes, checkpoint };
}

export type ProofVerdict =
  | { readonly ok: true; readonly checkpoint: Checkpoint }
  | { readonly ok: false; readonly reason: string; readonly isSignature: boolean };

const NOTE_FAULTS = {
  "unknown key": "no given key signed its checkpoint",
  "bad signature": "its checkpoint's signature is wrong",
} as const;

/** Checks that the log signed by `keys` contains the line. Needs only its arguments. */
export function checkProof({ line, index, hashes, checkpoint: note }: Proof, keys: readonly KeyObject[]): ProofVerdict {
  const checkpoint = readCheckpoint(note);
  if (checkpoint === undefined) {
    return { ok: false, reason: "its checkpoint is invalid", isSignature: false };
  }
  const verdict = verifyNote(checkpoint, checkpoint.origin, keys);
  if (verdict !== "valid") {
    const reason = isUnsigned(checkpoint, checkpoint.origin) ? "its checkpoint is not signed" : NOTE_FAULTS[verdict];
    return { ok: false, reason, isSignature: true };
  }
  const path = hashes.map((digest) => Buffer.from(digest, "base64"));
  const bytes = Buffer.from(`\n${line}`);
  const root = rootOf(leafHash(bytes, 1, bytes.length), { path, index, size: checkpoint.size });
  const isIn = root?.equals(checkpoint.root) === true && checkpoint.stream === "calls";
  const isAt = readLink(bytes, 1, bytes.length)?.seq === index;
  return isIn && isAt
    ? { ok: true, checkpoint }
    : { ok: false, reason: "the line is not in the log that its checkpoint speaks of", isSignature: false };
}

/** Returns the root that results from a leaf and its path (RFC 9162, 2.1.3.2). */
function rootOf(
  leaf: Buffer,
  { path, index, size }: { readonly path: readonly Buffer[]; readonly index: number; readonly size: number },
): Buffer | undefined {
  if (index < 0 || index >= size || path.some((digest) => digest.length !== SHA256_BYTES)) return undefined;
  let [at, last, root] = [index, size - 1, leaf];
  for (const digest of path) {
    if (last === 0) return undefined;
    if (at % 2 === 1 || at === last) {
      root = nodeHash(digest, root);
      while (at % 2 === 0 && at !== 0) {
        at /= 2;
        last = Math.floor(last / 2);
      }
    } else {
      root = nodeHash(root, digest);
    }
    at = Math.floor(at / 2);
    last = Math.floor(last / 2);
  }
  return last === 0 ? root : undefined;
}
