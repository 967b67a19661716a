import { statSync } from "node:fs";
import { resolve } from "node:path";
import { z } from "zod";
import {
  type ArchiveSource,
  copyOfArchive,
  type FetchedLog,
  fetchLogs,
  objectStorage,
} from "../../audit/archive/fetch.ts";
import { escapeName } from "../../audit/escape.ts";
import { openS3, s3Settings } from "../../audit/export/object-storage.ts";
import { errorText } from "../../core/error-text.ts";
import { EXIT, print, wrongUsage } from "../output.ts";
import { auditMoment } from "./directory.ts";

export interface FetchOptions {
  readonly out: string;
  readonly log?: string | undefined;
  readonly endpoint?: string | undefined;
  readonly region?: string | undefined;
  readonly credentialsFile?: string | undefined;
  readonly caFile?: string | undefined;
  readonly json?: boolean | undefined;
}

const PARTS_MISSING = 3;
const LOG_ID = /^[0-9a-f]{32}$/;

/** `stc audit fetch`: copies audit directories out of an archive, so that every other command reads and verifies them. */
export async function auditFetch(from: string, options: FetchOptions): Promise<void> {
  const { log, out, json } = options;
  if (log !== undefined && !LOG_ID.test(log)) return wrongUsage("--log must be the id of a log: 32 hex digits");
  const opened = from.startsWith("s3://") ? openBucket(from, options) : openCopy(from);
  if (opened === undefined) return;
  let fetched: readonly FetchedLog[];
  try {
    fetched = await fetchLogs(opened.source, { log, out });
  } catch (error) {
    print.error(`cannot fetch from ${escapeName(from)}: ${errorText(error)}`);
    process.exitCode = EXIT.noInput;
    return;
  } finally {
    opened.close();
  }
  const isWhole = fetched.every(({ problems }) => problems.length === 0);
  if (fetched.length === 0) process.exitCode = EXIT.failed;
  else if (!isWhole) process.exitCode = PARTS_MISSING;
  if (json === true) return print.json({ whole: isWhole && fetched.length > 0, logs: fetched });
  if (fetched.length === 0) return print.error("the archive holds no such log");
  for (const { dir, parts, bytes, problems } of fetched) {
    print.line(`${escapeName(dir)}: ${parts} parts, ${bytes} bytes`);
    for (const problem of problems) print.line(`  missing: ${escapeName(problem)}`);
  }
  print.error("to verify a directory: stc audit verify --dir DIRECTORY --key PUBLIC");
}

interface OpenedSource {
  readonly source: ArchiveSource;
  readonly close: () => void;
}

function openBucket(from: string, { endpoint, region, credentialsFile, caFile }: FetchOptions): OpenedSource {
  const [, bucket, prefix = ""] = /^s3:\/\/([^/]+)\/?(.*?)\/?$/.exec(from) ?? [];
  const written = { endpoint, bucket, region, credentialsFile, caFile, ...(prefix !== "" && { prefix }) };
  const read = z.strictObject(s3Settings).safeParse(written);
  if (!read.success) {
    return wrongUsage(...read.error.issues.map(({ path, message }) => `${optionOf(String(path[0]))}: ${message}`));
  }
  try {
    const client = openS3(read.data, {
      path: (path) => resolve(path),
      clock: () => auditMoment().nowMs,
    });
    const source = objectStorage(client, prefix === "" ? "" : `${prefix}/`, new AbortController().signal);
    return { source, close: () => client.close() };
  } catch (error) {
    return wrongUsage(errorText(error));
  }
}

function optionOf(setting: string): string {
  if (setting === "bucket" || setting === "prefix") return "the address s3://BUCKET/PREFIX";
  return `--${setting.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

function openCopy(from: string): OpenedSource | undefined {
  if (statSync(from, { throwIfNoEntry: false })?.isDirectory() === true) {
    return { source: copyOfArchive(from), close: () => {} };
  }
  print.error(`there is no directory ${escapeName(from)}`);
  process.exitCode = EXIT.noInput;
  return undefined;
}
