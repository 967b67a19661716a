import { join } from "node:path";
import type { LineMembers } from "../../core/audit-fields.ts";
import { sha256Hex } from "../../core/digest.ts";
import { asString } from "../../core/json.ts";
import type { StreamName } from "../chain/chain.ts";
import { MerkleTree } from "../chain/merkle-tree.ts";
import { membersOf } from "../query/view.ts";
import { isDay } from "./day-files.ts";
import type { StreamPosition } from "./day-stream.ts";
import { readSmallFile } from "./file-operations.ts";
import { type Intent, intentOf } from "./journal.ts";

/** Folder of data that is derived from the log. If it is lost, the next start reads the whole log. */
export const STATE_DIR = ".state";
const POSITION_FILE = "place.json";
/**
 * Maximum size of the file. The maximum number of open intents, each as long as a line can be, takes less than half of
 * it.
 */
const POSITION_BYTES_MAX = 268_435_456;
const VERSION = 1;
const SHA256_HEX = /^[0-9a-f]{64}$/;

/** The position of one stream at one moment, and the last checkpoint signed for it. */
export interface SavedStream extends StreamPosition {
  readonly note: string | undefined;
}

/** The positions of both streams at one moment, so that the next start need not read the lines before them. */
export interface SavedPosition {
  readonly streams: Readonly<Record<StreamName, SavedStream>>;
  readonly intents: readonly Intent[];
}

export function savedPositionPath(dir: string): string {
  return join(dir, STATE_DIR, POSITION_FILE);
}

export function serializePosition({ streams, intents }: SavedPosition): Buffer {
  const position = JSON.stringify({
    version: VERSION,
    calls: streamFields(streams.calls),
    journal: streamFields(streams.journal),
    intents: intents.map(({ seq, traceId, facts }) => ({ seq, ...facts, type: "intent", traceId })),
  });
  return Buffer.from(`${position}\n${sha256Hex(position)}\n`);
}

function streamFields({ head, day, size, note }: SavedStream): object {
  const { seq, prev, tree, logId } = head;
  return { seq, prev, logId, day, size, hashes: tree.toBase64(), note };
}

/** Returns `undefined` when there is no saved position, or none that can be trusted. */
export function readSavedPosition(dir: string): SavedPosition | undefined {
  try {
    const [position = "", sum] = (readSmallFile(savedPositionPath(dir), POSITION_BYTES_MAX) ?? "").split("\n");
    return sha256Hex(position) === sum ? parsePosition(JSON.parse(position)) : undefined;
  } catch {
    return undefined;
  }
}

function parsePosition(value: unknown): SavedPosition | undefined {
  const fields = membersOf(value) ?? {};
  const calls = parseStream(membersOf(fields["calls"]) ?? {});
  const journal = parseStream(membersOf(fields["journal"]) ?? {});
  if (fields["version"] !== VERSION || calls === undefined || journal === undefined) return undefined;
  const listed: readonly unknown[] = Array.isArray(fields["intents"]) ? fields["intents"] : [];
  const intents = listed.flatMap((item) => {
    const { seq, ...line } = membersOf(item) ?? {};
    return typeof seq === "number" ? (intentOf(seq, line) ?? []) : [];
  });
  return { streams: { calls, journal }, intents };
}

function parseStream({ seq, prev, logId, day, size, hashes, note }: LineMembers): SavedStream | undefined {
  const tree = isCount(seq) ? MerkleTree.fromBase64(seq, hashes) : undefined;
  const isSound =
    isCount(size) && typeof prev === "string" && SHA256_HEX.test(prev) && (day === undefined || isDay(day));
  if (tree === undefined || !isSound) return undefined;
  const head = { seq: tree.size, prev, tree, logId: asString(logId) };
  return { head, day, size, note: asString(note) };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value);
}
