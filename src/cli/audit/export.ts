import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { escapeName } from "../../audit/escape.ts";
import { type ExportedLine, type ExportFormat, FORMATS, type FormatName } from "../../audit/export/formats.ts";
import { type Aged, agedFiles, pruneFiles } from "../../audit/export/prune.ts";
import { exportersOf, readUnsent, type Unsent } from "../../audit/export/unsent.ts";
import { mergedLines } from "../../audit/query/merged.ts";
import { type Params, readQuery } from "../../audit/query/params.ts";
import { DURATION_HINT, readDuration } from "../../audit/query/time-range.ts";
import { errorText } from "../../core/error-text.ts";
import { EXIT, print, table, wrongUsage } from "../output.ts";
import { auditDirectories, auditDirectory, noCalls, warnOfDays } from "./directory.ts";

const PAGE_BYTES_MAX = 8 * 1_048_576;

interface ExportOptions {
  readonly dirs: readonly string[];
  readonly format: string;
  readonly output: string | undefined;
  readonly params: Params;
}

/** `stc audit export`: writes all calls that match the filters, oldest first, as `jsonl`, `csv` or `ocsf`. */
export async function auditExport({ dirs, params, ...written }: ExportOptions): Promise<void> {
  const format = formatOf(written.format);
  const directories = auditDirectories(dirs);
  const [directory] = directories ?? [];
  if (directories === undefined || directory === undefined) return;
  const query = readQuery({ ...params, order: "oldest" }, { ...EXPORT_LIMITS, nowMs: directory.nowMs });
  if ("faults" in query) return wrongUsage(...query.faults);
  const logs = directories.flatMap((each) => each.logs);
  warnOfDays(logs);
  const lines = mergedLines({ logs, query: query.ok, pageBytesMax: PAGE_BYTES_MAX });
  await writeExport(lines, { format, output: written.output });
}

/** @throws {CommandError} */
export function formatOf(name: string): ExportFormat {
  if (!Object.hasOwn(FORMATS, name)) return wrongUsage(`--format must be one of ${Object.keys(FORMATS).join(", ")}`);
  return FORMATS[name as FormatName];
}

export const EXPORT_LIMITS = { limit: Number.MAX_SAFE_INTEGER, limitMax: Number.MAX_SAFE_INTEGER } as const;

interface WrittenExport {
  readonly format: ExportFormat;
  readonly output: string | undefined;
}

export async function writeExport(
  lines: AsyncIterable<ExportedLine>,
  { format, output }: WrittenExport,
): Promise<void> {
  const sink = sinkOf(output);
  if (sink === undefined) return;
  let count = 0;
  try {
    if (format.header !== undefined) sink.line(format.header);
    for await (const found of lines) {
      sink.line(format.line(found));
      count += 1;
    }
    sink.end();
  } catch (error) {
    sink.discard();
    throw error;
  }
  if (output !== undefined) print.error(`${count} calls in ${output}`);
  if (count === 0) noCalls(false);
}

interface Sink {
  line(text: string): void;
  end(): void;
  /** Discards the output: a partial export must not pass for a complete one. */
  discard(): void;
}

/** Returns undefined, after printing an error and setting the exit code, when the file exists already or cannot be created. */
function sinkOf(output: string | undefined): Sink | undefined {
  if (output === undefined) return { line: print.line, end: () => {}, discard: () => {} };
  try {
    return fileSink(output, openSync(output, "wx", 0o600));
  } catch (error) {
    print.error(`cannot create ${output}: ${errorText(error)}`);
    process.exitCode = EXIT.cannotWrite;
    return undefined;
  }
}

function fileSink(output: string, fd: number): Sink {
  return {
    line(text) {
      let rest: Uint8Array = Buffer.from(`${text}\n`);
      while (rest.length > 0) rest = rest.subarray(writeSync(fd, rest));
    },
    end: () => closeSync(fd),
    discard() {
      rmSync(output, { force: true });
      print.error(`${output} would be incomplete and was deleted`);
    },
  };
}

interface PruneOptions {
  readonly dir?: string | undefined;
  readonly keep: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** `stc audit prune`: deletes the files of days older than requested. */
export async function auditPrune({ dir: named, keep, dryRun, json }: PruneOptions): Promise<void> {
  const directory = auditDirectory(named);
  if (directory === undefined) return;
  const keepMs = readDuration(keep);
  if (keepMs === undefined) return wrongUsage(`--keep must be ${DURATION_HINT}`);
  const aged: Aged[] = [];
  for (const { dir } of directory.logs) {
    const options = { dir, nowMs: directory.nowMs, keepMs };
    const old = agedFiles(options);
    aged.push(...(dryRun === true ? old : await pruneFiles(old, options)));
  }
  const deleted = aged.filter(({ keptBecause }) => keptBecause === undefined);
  if (json === true) print.json({ dryRun: dryRun === true, files: aged });
  else if (aged.length > 0)
    print.line(table([["FILE", "BYTES", "WHAT"], ...aged.map((file) => rowOf(file, dryRun === true))]));
  if (deleted.length === 0) process.exitCode = EXIT.failed;
  if (json !== true && aged.length === 0) print.line(`no file is older than ${keep}`);
}

function rowOf({ path, bytes, keptBecause }: Aged, isDryRun: boolean): readonly string[] {
  const deleted = isDryRun ? "would be deleted" : "deleted";
  return [path, String(bytes), keptBecause === undefined ? deleted : `kept: ${keptBecause}`];
}

interface ExportsOptions {
  readonly dirs: readonly string[];
  readonly exporters: readonly string[];
  readonly json: boolean | undefined;
}

/** `stc audit exports`: says which lines each exporter has not sent, also of a replica that does not come back. */
export async function auditExports({ dirs, exporters, json }: ExportsOptions): Promise<void> {
  const directories = auditDirectories(dirs);
  if (directories === undefined) return;
  const wrong = exporters.find((name) => !EXPORTER_NAME.test(name));
  if (wrong !== undefined) return wrongUsage(`--exporter ${escapeName(wrong)} is not the name of an exporter`);
  const states = directories
    .flatMap(({ logs }) => logs)
    .flatMap(({ dir }) =>
      [...new Set([...exportersOf(dir), ...exporters])].flatMap((name) =>
        readUnsent(dir, name).map((unsent) => ({ dir, ...unsent })),
      ),
    );
  const isComplete = states.length > 0 && states.every(({ lines, deadLines }) => lines + deadLines === 0);
  if (!isComplete) process.exitCode = EXIT.failed;
  if (json === true) return print.json({ complete: isComplete, exports: states });
  if (states.length === 0) return print.error("no exporter has sent any line: name one with --exporter");
  print.line(
    table([["DIRECTORY", "EXPORTER", "STREAM", "NOT SENT", "SEQ", "TIME", "REFUSED"], ...states.map(unsentRow)]),
  );
}

const EXPORTER_NAME = /^[a-z0-9][a-z0-9-]{0,63}$/;

function unsentRow({ dir, exporter, stream, lines, first, last, deadLines }: Unsent & { readonly dir: string }) {
  const seq = [first, last].map((line) => String(line?.seq ?? "-")).join(" to ");
  const time = [first, last].map((line) => line?.timestamp ?? "-").join(" to ");
  const range = lines === 0 ? ["-", "-"] : [seq, time];
  return [escapeName(dir), exporter, stream, String(lines), ...range, String(deadLines)];
}
