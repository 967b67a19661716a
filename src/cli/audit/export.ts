import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { FORMATS, type FormatName } from "../../audit/export/formats.ts";
import { type Params, readQuery } from "../../audit/query/params.ts";
import { errorText } from "../../core/error-text.ts";
import { print } from "../output.ts";
import { auditPlace, EXIT, noCalls, refuse, warnOfDays } from "./directory.ts";
import { pages } from "./query.ts";

export interface AuditExportOptions {
  readonly dir?: string;
  readonly to: string;
  /** A new file; without it the lines are printed. */
  readonly output?: string;
  readonly params: Params;
}

/**
 * `stc audit export`: writes all calls that match the filters, oldest first, as `jsonl`, `csv` or `ocsf`. Exit code: 0 done; 1 no
 * calls; 64 wrong usage; 66 no directory; 73 the file cannot be created.
 */
export async function auditExport({ dir, to, output, params }: AuditExportOptions): Promise<void> {
  const place = auditPlace(dir);
  if (place === undefined) return;
  if (!Object.hasOwn(FORMATS, to)) return refuse([`--to must be one of ${Object.keys(FORMATS).join(", ")}`]);
  const format = FORMATS[to as FormatName];
  const limit = Number.MAX_SAFE_INTEGER;
  const query = readQuery({ ...params, order: "oldest" }, { limit, limitMax: limit, nowMs: place.nowMs });
  if ("faults" in query) return refuse(query.faults);
  const sink = sinkOf(output);
  if (sink === undefined) return;
  warnOfDays(place.dir);
  let count = 0;
  try {
    if ("header" in format) sink.line(format.header);
    for await (const page of pages(place, query.ok)) {
      for (const found of page.found) sink.line(format.line(found));
      count += page.found.length;
    }
    sink.end();
  } catch (error) {
    sink.giveUp();
    throw error;
  }
  if (output !== undefined) print.error(`${count} calls in ${output}`);
  if (count === 0) noCalls(false);
}

interface Sink {
  line(text: string): void;
  end(): void;
  /** Discards the output: a partial export must not pass for a complete one. */
  giveUp(): void;
}

/** Returns undefined, after printing an error and setting the exit code, when the file exists already or cannot be created. */
function sinkOf(output: string | undefined): Sink | undefined {
  if (output === undefined) return { line: print.line, end: () => {}, giveUp: () => {} };
  try {
    const fd = openSync(output, "wx", 0o600);
    return fileSink(output, fd);
  } catch (error) {
    print.error(`cannot make ${output}: ${errorText(error)}`);
    process.exitCode = EXIT.cannotWrite;
    return undefined;
  }
}

function fileSink(output: string, fd: number): Sink {
  return {
    line: (text) => writeWhole(fd, `${text}\n`),
    end: () => closeSync(fd),
    giveUp() {
      rmSync(output, { force: true });
      print.error(`${output} would not be whole: it is taken away again`);
    },
  };
}

function writeWhole(fd: number, text: string): void {
  let rest: Uint8Array = Buffer.from(text);
  while (rest.length > 0) rest = rest.subarray(writeSync(fd, rest));
}
