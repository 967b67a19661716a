import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import { errorText } from "../../core/error-text.ts";
import { EgressError, egressReason } from "../../egress/request.ts";
import { RECORD_FILE } from "../chain/chain-walk.ts";
import type { ExportStream } from "../export/positions.ts";
import type { Archive, ArchiveOutcome } from "../export/receiver.ts";
import { type DayPart, PART_BYTES_MAX } from "./part.ts";
import { isTooLarge, type S3Client, S3Error } from "./s3-client.ts";

/**
 * An archive in object storage: the day files of audit directories in parts, each a gzip file that is written once.
 *
 *     <directory>/pruned.jsonl.gz
 *     <directory>/journal/2026-02-16/000000000000.jsonl.gz
 *     <directory>/calls/<log>/2026-02-16/000000000000.jsonl.gz
 *     <directory>/checkpoints/2026-02-16/000000000000.txt.gz
 *
 * A directory is named by the id of its journal, and a part by the position of its first byte: a day's parts one after the other,
 * unpacked, are the day's file. Rejected: one object per day, which has to be uploaded in several requests or from memory, and
 * which holds nothing of the day until the day is over; digests next to the objects, since gzip notices damage, and nothing but
 * the chain and the signed checkpoints notices a change.
 */

const zip = promisify(gzip);
const unzip = promisify(gunzip);

/** gzip adds a few bytes to what it cannot make smaller. */
const OBJECT_BYTES_MAX = PART_BYTES_MAX + 65_536;
const RECORD_BYTES_MAX = 33_554_432;
const OFFSET_DIGITS = 12;
const PARTS =
  /^([0-9a-f]{32})\/(?:(journal|checkpoints)|(calls)\/([0-9a-f]{32}))\/(\d{4}-\d{2}-\d{2})\/(\d{12})\.(?:jsonl|txt)\.gz$/;
const RECORD = new RegExp(`^([0-9a-f]{32})/${RECORD_FILE.replace(".", "\\.")}\\.gz$`);

/** The kinds of objects in an archive. */
export type ArchivedObject =
  | { readonly kind: "record"; readonly directory: string }
  | {
      readonly kind: "part";
      readonly directory: string;
      readonly stream: ExportStream;
      /** Id of the log that holds the lines; of checkpoints, that of the journal. */
      readonly log: string;
      readonly day: string;
      readonly offset: number;
    };

/** Returns the key of a part, below the archive's prefix. */
function keyOf({ directory, stream, log, day, offset }: DayPart): string {
  const folder = stream === "calls" ? `calls/${log}` : stream;
  const suffix = stream === "checkpoints" ? "txt" : "jsonl";
  return `${directory}/${folder}/${day}/${String(offset).padStart(OFFSET_DIGITS, "0")}.${suffix}.gz`;
}

/** Returns what the object with a key below the archive's prefix holds; undefined when it is not of an archive. */
export function readKey(key: string): ArchivedObject | undefined {
  const [, recordOf] = RECORD.exec(key) ?? [];
  if (recordOf !== undefined) return { kind: "record", directory: recordOf };
  const [, directory, other, calls, log, day, offset] = PARTS.exec(key) ?? [];
  const stream = (other ?? calls) as ExportStream | undefined;
  if (directory === undefined || stream === undefined || day === undefined) return undefined;
  return { kind: "part", directory, stream, log: log ?? directory, day, offset: Number(offset) };
}

/** Returns the maximum size of an object. */
export function bytesMaxOf(kind: ArchivedObject["kind"]): number {
  return kind === "part" ? OBJECT_BYTES_MAX : RECORD_BYTES_MAX;
}

/** Unpacks an object. Rejects when it is damaged or larger than a part or a record can be. */
export function unpack(object: Buffer, kind: ArchivedObject["kind"]): Promise<Buffer> {
  return unzip(object, { maxOutputLength: kind === "part" ? PART_BYTES_MAX : RECORD_BYTES_MAX });
}

interface ArchiveOptions {
  readonly client: S3Client;
  /** Empty, or ends with a slash. */
  readonly prefix: string;
  readonly intervalMs: number;
}

/** An object that is already there does not hold what the log holds. */
class OtherContent extends Error {}

export function archiveIn({ client, prefix, intervalMs }: ArchiveOptions): Archive {
  /**
   * Writes an object unless there is one, reads it back, and returns how many bytes of the log it holds. A part that a process
   * wrote before it was killed may hold fewer bytes than there are now.
   */
  async function storeOnce(kind: ArchivedObject["kind"], key: string, bytes: Buffer, signal: AbortSignal) {
    const otherContent = () => new OtherContent(`${key} holds other content than the log`);
    const read = () =>
      client.get(key, bytesMaxOf(kind), signal).catch((error: unknown) => {
        throw isTooLarge(error) ? otherContent() : error;
      });
    let object = await read();
    if (object === undefined) {
      await client.putNew(key, await zip(bytes), signal);
      object = await read();
    }
    if (object === undefined) throw new Error(`${key} is not there after its upload`);
    const stored = await unpack(object, kind).catch(() => undefined);
    const isSame = stored !== undefined && stored.length > 0 && bytes.subarray(0, stored.length).equals(stored);
    if (!isSame) throw otherContent();
    return stored.length;
  }

  async function attempt(work: () => Promise<number>): Promise<ArchiveOutcome> {
    try {
      return { kind: "taken", bytes: await work() };
    } catch (error) {
      const isConflict = error instanceof OtherContent;
      return { kind: "later", reason: reasonOf(error), retryAfterMs: undefined, isConflict };
    }
  }

  return {
    intervalMs,
    store: (part, signal) =>
      attempt(async () => {
        const record = `${prefix}${part.directory}/${RECORD_FILE}.gz`;
        if (part.record !== undefined) await storeOnce("record", record, part.record, signal);
        return storeOnce("part", `${prefix}${keyOf(part)}`, part.bytes, signal);
      }),
    probe: (signal) =>
      attempt(async () => {
        await client.get(`${prefix}probe`, bytesMaxOf("part"), signal);
        return 0;
      }),
    close: async () => client.close(),
  };
}

function reasonOf(error: unknown): string {
  if (error instanceof EgressError) return egressReason(error);
  return error instanceof S3Error ? error.message : errorText(error);
}
