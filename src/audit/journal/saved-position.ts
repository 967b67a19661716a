import { hash } from "node:crypto";
import { join } from "node:path";
import type { ChainHead, StreamName } from "../chain/chain.ts";
import { MerkleTree } from "../chain/merkle-tree.ts";
import type { StreamPosition } from "../query/day-stream.ts";
import { readSmallFile } from "./file-operations.ts";
import { type Intent, intentOf } from "./open-intents.ts";

/** Folder of data that is derived from the log. If it is lost, the next start reads the whole log. */
export const STATE_DIR = ".state";
const PLACE_FILE = "place.json";
/**
 * Maximum size of the file. The maximum number of open intents, each as long as a line can be, takes less than half of
 * it.
 */
const PLACE_BYTES_MAX = 268_435_456;
const VERSION = 1;
const SHA256_HEX = /^[0-9a-f]{64}$/;
const DAY = /^\d{4}-\d{2}-\d{2}$/;

/** The position of one stream at one moment, and the last checkpoint signed for it. */
export interface SavedStream {
  readonly head: ChainHead;
  readonly day: string | undefined;
  readonly size: number;
  readonly note: string | undefined;
}

/** The positions of both streams at one moment, so that the next start need not read the lines before them. */
export interface SavedPosition {
  readonly streams: Readonly<Record<StreamName, SavedStream>>;
  readonly intents: readonly Intent[];
}

export function placePath(dir: string): string {
  return join(dir, STATE_DIR, PLACE_FILE);
}

export function savedStream({ head, day, size }: StreamPosition, note: string | undefined): SavedStream {
  return { head, day, size, note };
}

export function serializePlace({ streams, intents }: SavedPosition): Buffer {
  const place = JSON.stringify({
    version: VERSION,
    calls: streamFields(streams.calls),
    journal: streamFields(streams.journal),
    intents: intents.map(({ seq, traceId, facts }) => ({ seq, ...facts, type: "intent", traceId })),
  });
  return Buffer.from(`${place}\n${hash("sha256", place, "hex")}\n`);
}

function streamFields({ head, day, size, note }: SavedStream): object {
  const { seq, prev, tree, logId } = head;
  return { seq, prev, logId, day, size, hashes: tree.hashes().map((digest) => digest.toString("base64")), note };
}

/** Returns `undefined` when there is no saved position, or none that can be trusted. */
export function readPlace(dir: string): SavedPosition | undefined {
  try {
    const [place = "", sum] = (readSmallFile(placePath(dir), PLACE_BYTES_MAX) ?? "").split("\n");
    return hash("sha256", place, "hex") === sum ? parsePlace(JSON.parse(place)) : undefined;
  } catch {
    return undefined;
  }
}

function parsePlace(value: unknown): SavedPosition | undefined {
  const fields = asRecord(value);
  const calls = parseStream(fields["calls"]);
  const journal = parseStream(fields["journal"]);
  if (fields["version"] !== VERSION || calls === undefined || journal === undefined) {
    return undefined;
  }
  const listed: readonly unknown[] = Array.isArray(fields["intents"]) ? fields["intents"] : [];
  const intents = listed.map((item) => {
    const { seq, ...line } = asRecord(item);
    return typeof seq === "number" ? intentOf(seq, line) : undefined;
  });
  return { streams: { calls, journal }, intents: intents.filter((intent) => intent !== undefined) };
}

function parseStream(value: unknown): SavedStream | undefined {
  const { seq, prev, logId, day, size, hashes, note } = asRecord(value);
  if (
    typeof seq !== "number" ||
    !Number.isSafeInteger(seq) ||
    typeof size !== "number" ||
    !Number.isSafeInteger(size) ||
    typeof prev !== "string" ||
    !SHA256_HEX.test(prev) ||
    !Array.isArray(hashes) ||
    (day !== undefined && !(typeof day === "string" && DAY.test(day)))
  ) {
    return undefined;
  }
  const tree = MerkleTree.from(
    seq,
    hashes.map((digest) => Buffer.from(String(digest), "base64")),
  );
  const id = typeof logId === "string" ? logId : undefined;
  return tree && { head: { seq, prev, tree, logId: id }, day, size, note: typeof note === "string" ? note : undefined };
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}
