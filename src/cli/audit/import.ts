import { createReadStream } from "node:fs";
import { AuditLogError } from "../../audit/audit-log-error.ts";
import { logIdIn } from "../../audit/chain/log-id.ts";
import { escapeName } from "../../audit/escape.ts";
import { type ExportLine, eachBatch, startOf } from "../../audit/export/batch.ts";
import { EXPORT_STREAMS, type ExportStream } from "../../audit/export/positions.ts";
import { readReceived } from "../../audit/export/received.ts";
import { type RefusedLine, StoreFiller } from "../../audit/store/fill.ts";
import { openStoreWriter } from "../../audit/store/open-store.ts";
import { systemCode } from "../../core/error-text.ts";
import { linesIn } from "../../core/lines.ts";
import { EXIT, print, wrongUsage } from "../output.ts";
import { auditDirectories } from "./directory.ts";
import { storeUrl } from "./store.ts";

/** A batch of OTLP logs in one line of a file. */
const TEXT_BYTES_MAX = 67_108_864;
/** Lines that are stored at once. */
const LINES = 500;
/** Problems that are listed; the others are counted. */
const LISTED_MAX = 20;

interface ImportOptions {
  readonly toStore: string;
  readonly dirs: readonly string[];
  readonly files: readonly string[];
}

/** `stc audit import`: puts lines of audit directories, or of files that exporters' receivers have written, into a store. */
export async function auditImport({ toStore, dirs, files }: ImportOptions): Promise<void> {
  if (dirs.length > 0 && files.length > 0) return wrongUsage("give --dir or files, not both");
  const directories = dirs.length === 0 ? [] : auditDirectories(dirs);
  if (directories === undefined) return;
  const writer = await openStoreWriter(storeUrl(toStore, "--to-store"), { retentionDays: undefined });
  const tally = new Tally();
  try {
    const filler = new StoreFiller(writer);
    await filler.check();
    const batches =
      directories.length > 0
        ? directories
            .flatMap(({ logs }) => logs)
            .flatMap(({ dir }) => EXPORT_STREAMS.map((stream) => ofLog(dir, stream)))
        : (files.length === 0 ? ["-"] : files).map((file) => ofFile(file, tally));
    for (const lines of batches) {
      for await (const batch of lines) tally.stored(batch.length, await filler.store(batch));
    }
  } finally {
    await writer.close();
  }
  tally.report();
}

function* ofLog(dir: string, stream: ExportStream): Generator<readonly ExportLine[], void> {
  const log = stream === "checkpoints" ? undefined : logIdIn(dir, stream);
  for (const { lines } of eachBatch({ dir, stream, from: startOf(dir, stream), log })) yield lines;
}

async function* ofFile(file: string, tally: Tally): AsyncGenerator<readonly ExportLine[], void> {
  let [number, batch]: [number, ExportLine[]] = [0, []];
  for await (const text of linesIn(bytesOf(file), TEXT_BYTES_MAX)) {
    number += 1;
    if (text?.trim() === "") continue;
    const received = text === undefined ? undefined : readReceived(text);
    if (received === undefined || received.faulty > 0) tally.unreadable(file, number);
    tally.others += received?.others ?? 0;
    for (const line of received?.lines ?? []) {
      batch.push(line);
      if (batch.length === LINES) {
        yield batch;
        batch = [];
      }
    }
  }
  if (batch.length > 0) yield batch;
}

/** @throws {AuditLogError} when the file cannot be read */
async function* bytesOf(file: string): AsyncGenerator<Uint8Array, void> {
  try {
    yield* file === "-" ? Bun.stdin.stream() : createReadStream(file);
  } catch (error) {
    throw new AuditLogError(`${escapeName(file)} cannot be read (${systemCode(error)})`);
  }
}

/** Counts what became of the lines. */
class Tally {
  others = 0;
  #stored = 0;
  #problems = 0;

  stored(count: number, refused: readonly RefusedLine[]): void {
    this.#stored += count - refused.length;
    for (const { line, reason } of refused) {
      const { stream, log = "-", day, offset } = line;
      this.#problem(`refused: ${stream} of log ${log}, ${day}:${offset}: ${reason}`);
    }
  }

  unreadable(file: string, number: number): void {
    this.#problem(`${file === "-" ? "standard input" : escapeName(file)}:${number}: not what an exporter sends`);
  }

  #problem(message: string): void {
    this.#problems += 1;
    if (this.#problems <= LISTED_MAX) print.error(message);
  }

  report(): void {
    if (this.#problems > LISTED_MAX) print.error(`… and ${this.#problems - LISTED_MAX} more`);
    if (this.others > 0) print.error(`${this.others} records of other services left out`);
    print.line(`${this.#stored} lines and checkpoints are in the store`);
    if (this.#problems > 0) process.exitCode = EXIT.failed;
  }
}
