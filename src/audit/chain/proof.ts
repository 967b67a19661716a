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
import { logIdIn } from "./log-id.ts";
import { leafHash, MerkleTree, nodeHash } from "./merkle-tree.ts";
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

/** Names a line of `calls` anywhere. */
export interface LineName {
  readonly log: string;
  readonly seq: number;
}

/** Reads `LOG:SEQ`; undefined when the text is another id. */
export function readLineName(text: string): LineName | undefined {
  const [, log, seq] = /^([0-9a-f]{32}):(\d{1,15})$/.exec(text) ?? [];
  return log === undefined ? undefined : { log, seq: Number(seq) };
}

/**
 * Proves the call with this `traceId` or `id`, or the line `LOG:SEQ`, with the newest checkpoint of its log. Reads the whole stream.
 *
 * @throws AuditLogError when there is no such line, or no checkpoint covers it.
 */
export function prove(dir: string, id: string): Proof {
  const named = readLineName(id);
  for (const log of logsIn(dir)) {
    if (named !== undefined && logIdIn(log.dir, "calls") !== named.log) continue;
    const found = named === undefined ? findLine(log.dir, id) : findSeq(log.dir, named.seq);
    if (found !== undefined) return runToEnd(proveLine(log.dir, found));
  }
  throw new AuditLogError(
    `no call in ${dir} has the traceId, the id or the log and seq ${id}, or it is from before the chain`,
  );
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
  return proofOf({ line, path, checkpoint: note.note });
}

interface ProofParts extends Pick<Proof, "line" | "checkpoint"> {
  readonly path: AuditPath;
}

export function proofOf({ line, path, checkpoint }: ProofParts): Proof {
  return { type: TYPE, line, index: path.index, hashes: path.hashes(), checkpoint };
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

function findSeq(dir: string, seq: number): Required<ProvedLine> | undefined {
  let found: Required<ProvedLine> | undefined;
  walkFiles(dayFilesOf(dir, "calls"), { index: 0, offset: 0 }, (bytes, from, to) => {
    if (readLink(bytes, from, to)?.seq === seq) found = { line: bytes.toString("utf8", from, to), seq };
    return found === undefined;
  });
  return found;
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

/** Collects the audit path of one line from the lines that a checkpoint covers, which are added in order. */
export class AuditPath {
  readonly index: number;
  readonly #size: number;
  readonly #spans: readonly (Span & { readonly tree: MerkleTree })[];
  readonly #inOrder: readonly (Span & { readonly tree: MerkleTree })[];
  #current = 0;
  /** `seq` of the line that is added next. */
  next: number;

  /** `before`: the lines that need not be added. */
  constructor(index: number, size: number, before: MerkleTree = new MerkleTree()) {
    this.index = index;
    this.#size = size;
    this.next = before.size;
    this.#spans = neighbours(index, { from: 0, to: size }).map(({ from, to }) => ({
      from,
      to,
      tree: before.part(from, to),
    }));
    this.#inOrder = this.#spans.toSorted((one, other) => one.from - other.from);
  }

  /** Returns whether further lines are needed. */
  add(bytes: Buffer, from: number, to: number): boolean {
    while (this.#current < this.#inOrder.length && this.next >= (this.#inOrder[this.#current]?.to ?? 0)) {
      this.#current += 1;
    }
    const span = this.#inOrder[this.#current];
    if (span !== undefined && this.next >= span.from) span.tree.append(leafHash(bytes, from, to));
    this.next += 1;
    return this.next < this.#size;
  }

  hashes(): readonly string[] {
    return this.#spans.map(({ tree }) => tree.root().toString("base64"));
  }
}

function* pathTo(dir: string, index: number, size: number): Generator<number, AuditPath> {
  const files = dayFilesOf(dir, "calls");
  // The lines that retention deleted are known by the roots that it recorded.
  const { tree: pruned } = walkFromStart(dir, "calls", files);
  if (pruned === undefined) throw new AuditLogError("lines were pruned without a record of their hashes");
  const path = new AuditPath(index, size, pruned);
  yield* walkInSteps(files, { index: 0, offset: 0 }, (bytes, from, to) => {
    const link = readLink(bytes, from, to);
    if (link === undefined && path.next === pruned.size) return true;
    if (link?.seq !== path.next) {
      throw new AuditLogError(`the log does not hold line ${path.next} in its place: stc audit verify shows more`);
    }
    return path.add(bytes, from, to);
  });
  return path;
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

/** Returns whether the line and its path lead to the root of the checkpoint, whoever signed it. */
export function leadsToRoot({ line, index, hashes }: Proof, { size, root, stream }: Checkpoint): boolean {
  const path = hashes.map((digest) => Buffer.from(digest, "base64"));
  const bytes = Buffer.from(`\n${line}`);
  const found = rootOf(leafHash(bytes, 1, bytes.length), { path, index, size });
  const isAt = readLink(bytes, 1, bytes.length)?.seq === index;
  return found?.equals(root) === true && stream === "calls" && isAt;
}

/** Checks that the log signed by `keys` contains the line. Needs only its arguments. */
export function checkProof(proof: Proof, keys: readonly KeyObject[]): ProofVerdict {
  const checkpoint = readCheckpoint(proof.checkpoint);
  if (checkpoint === undefined) {
    return { ok: false, reason: "its checkpoint is invalid", isSignature: false };
  }
  const verdict = verifyNote(checkpoint, checkpoint.origin, keys);
  if (verdict !== "valid") {
    const reason = isUnsigned(checkpoint, checkpoint.origin) ? "its checkpoint is not signed" : NOTE_FAULTS[verdict];
    return { ok: false, reason, isSignature: true };
  }
  return leadsToRoot(proof, checkpoint)
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
