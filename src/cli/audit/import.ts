import { createReadStream, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { parse } from "yaml";
import { AuditLogError } from "../../audit/audit-log-error.ts";
import { logIdIn } from "../../audit/chain/log-id.ts";
import { escapeName } from "../../audit/escape.ts";
import { type ExportLine, eachBatch, startOf } from "../../audit/export/batch.ts";
import { filesOf, type KafkaFiles, type KafkaSettings, kafkaExporter } from "../../audit/export/kafka.ts";
import { readKafka } from "../../audit/export/kafka-source.ts";
import { EXPORT_STREAMS, type ExportStream } from "../../audit/export/positions.ts";
import { type Received, readReceived } from "../../audit/export/received.ts";
import { LINES_AT_ONCE, type RefusedLine, StoreFiller } from "../../audit/store/fill.ts";
import { openStoreWriter } from "../../audit/store/open-store.ts";
import { AuditStoreError } from "../../audit/store/store-error.ts";
import { errorText, systemCode } from "../../core/error-text.ts";
import { linesIn } from "../../core/lines.ts";
import { CommandError, EXIT, print, wrongUsage } from "../output.ts";
import { auditDirectories } from "./directory.ts";
import { storeUrl } from "./store.ts";

/** A batch of OTLP logs in one line of a file. */
const TEXT_BYTES_MAX = 67_108_864;
/** Problems that are listed; the others are counted. */
const LISTED_MAX = 20;

interface ImportOptions {
  readonly toStore: string;
  readonly fromKafka?: string;
  readonly group: string;
  readonly dirs: readonly string[];
  readonly files: readonly string[];
}

/** `stc audit import`: puts lines of audit directories, or of files that exporters' receivers have written, into a store. */
export async function auditImport({ toStore, fromKafka, group, dirs, files }: ImportOptions): Promise<void> {
  const sources = [dirs.length > 0, files.length > 0, fromKafka !== undefined].filter(Boolean);
  if (sources.length > 1) return wrongUsage("give one of --dir, --from-kafka and files");
  const kafka = fromKafka === undefined ? undefined : readKafkaSettings(fromKafka);
  const directories = dirs.length === 0 ? [] : auditDirectories(dirs);
  if (directories === undefined) return;
  const writer = await openStoreWriter(storeUrl(toStore, "--to-store"), { retentionDays: undefined });
  const tally = new Tally();
  try {
    const filler = new StoreFiller(writer);
    await filler.check();
    if (kafka !== undefined) await followKafka({ ...kafka, group }, filler, tally);
    const batches =
      directories.length > 0
        ? directories
            .flatMap(({ logs }) => logs)
            .flatMap(({ dir }) => EXPORT_STREAMS.map((stream) => ofLog(dir, stream)))
        : (sources.length === 0 ? ["-"] : files).map((file) => ofFile(file, tally));
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
    const name = `${file === "-" ? "standard input" : escapeName(file)}:${number}`;
    for (const line of tally.linesOf(received, name)) {
      batch.push(line);
      if (batch.length === LINES_AT_ONCE) {
        yield batch;
        batch = [];
      }
    }
  }
  if (batch.length > 0) yield batch;
}

interface KafkaSource {
  readonly settings: KafkaSettings;
  readonly files: KafkaFiles;
}

/** Reads a file with the settings of a `kafka` exporter. Paths in it are relative to its folder. @throws {CommandError} */
function readKafkaSettings(file: string): KafkaSource {
  const invalid = (...problems: readonly string[]): never => {
    throw new CommandError(EXIT.configuration, ...problems.map((problem) => `${escapeName(file)}: ${problem}`));
  };
  let written: unknown;
  try {
    written = parse(readFileSync(file, "utf8"));
  } catch (error) {
    return invalid(`cannot be read (${systemCode(error)})`);
  }
  const read = kafkaExporter.settings.safeParse(written);
  if (!read.success) return invalid(...read.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`));
  const problems: string[] = [];
  const files = filesOf(
    read.data,
    (path) => resolve(dirname(file), path),
    (setting, message) => problems.push(`${setting}: ${message}`),
  );
  return files === undefined ? invalid(...problems) : { settings: read.data, files };
}

/** Stores what comes, until SIGTERM or SIGINT. A position is committed after its lines are stored. */
async function followKafka(source: KafkaSource & { readonly group: string }, filler: StoreFiller, tally: Tally) {
  const stop = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => stop.abort());
  try {
    for await (const { messages, commit } of readKafka({ ...source, signal: stop.signal })) {
      const lines = messages.flatMap(({ received, name }) => tally.linesOf(received, name));
      tally.stored(lines.length, await filler.store(lines));
      // Without it the lines are read again, and stored once.
      await commit().catch((error: unknown) => print.error(`position not stored: ${errorText(error)}`));
    }
  } catch (error) {
    if (error instanceof AuditStoreError) throw error;
    throw new AuditLogError(`Kafka: ${errorText(error)}`);
  }
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
  #others = 0;
  #stored = 0;
  #problems = 0;

  stored(count: number, refused: readonly RefusedLine[]): void {
    this.#stored += count - refused.length;
    for (const { line, reason } of refused) {
      const { stream, log = "-", day, offset } = line;
      this.#problem(`refused: ${stream} of log ${log}, ${day}:${offset}: ${reason}`);
    }
  }

  /** Returns the lines of a text; the name says where the text is. */
  linesOf(received: Received | undefined, name: string): readonly ExportLine[] {
    if (received === undefined || received.faulty > 0) this.#problem(`${name}: not what an exporter sends`);
    this.#others += received?.others ?? 0;
    return received?.lines ?? [];
  }

  #problem(message: string): void {
    this.#problems += 1;
    if (this.#problems <= LISTED_MAX) print.error(message);
  }

  report(): void {
    if (this.#problems > LISTED_MAX) print.error(`… and ${this.#problems - LISTED_MAX} more`);
    if (this.#others > 0) print.error(`${this.#others} records of other services left out`);
    print.line(`${this.#stored} lines and checkpoints are in the store`);
    if (this.#problems > 0) process.exitCode = EXIT.failed;
  }
}
