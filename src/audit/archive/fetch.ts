import fs from "node:fs";
import { join, sep } from "node:path";
import { RECORD_FILE } from "../chain/chain-walk.ts";
import { CHECKPOINT_DIR, originOf } from "../chain/checkpoint.ts";
import { folderOf } from "../journal/day-files.ts";
import { makeDirectory, READ_ONLY, withFile } from "../journal/file-operations.ts";
import { readRecordedLogs } from "../verify/worker-logs.ts";
import { type ArchivedObject, bytesMaxOf, readKey, unpack } from "./archive.ts";
import type { S3Client } from "./s3-client.ts";

/** Objects by keys below the archive's prefix. */
export interface ArchiveSource {
  /** Yields the keys that begin with this text. */
  list(begin: string): AsyncIterable<string>;
  get(key: string, bytesMax: number): Promise<Buffer | undefined>;
}

export function objectStorage(client: S3Client, prefix: string, signal: AbortSignal): ArchiveSource {
  return {
    async *list(begin) {
      for await (const key of client.list(`${prefix}${begin}`, signal)) yield key.slice(prefix.length);
    },
    get: (key, bytesMax) => client.get(`${prefix}${key}`, bytesMax, signal),
  };
}

/** A copy of an archive in a directory, with the same names. */
export function copyOfArchive(dir: string): ArchiveSource {
  return {
    async *list(begin) {
      const names = fs.readdirSync(dir, { recursive: true, encoding: "utf8" });
      for (const name of names.map((one) => one.replaceAll(sep, "/")).sort()) if (name.startsWith(begin)) yield name;
    },
    async get(key, bytesMax) {
      // Links are followed: tools that share files between copies make them.
      return withFile(join(dir, key), READ_ONLY & ~fs.constants.O_NOFOLLOW, (fd, facts) => {
        if (!facts.isFile()) throw new Error("it is not a regular file");
        if (facts.size > bytesMax) throw new Error(`has more than ${bytesMax} bytes`);
        return fs.readFileSync(fd);
      });
    },
  };
}

interface Found {
  readonly key: string;
  readonly object: ArchivedObject;
}

export interface FetchedLog {
  /** Id of the directory's journal. */
  readonly directory: string;
  readonly dir: string;
  readonly parts: number;
  readonly bytes: number;
  /** Parts of the log that are missing or cannot be read. All other parts were fetched. */
  readonly problems: readonly string[];
}

interface FetchOptions {
  /** Id of a directory, or of the log of its calls. Undefined: all. */
  readonly log: string | undefined;
  /** Holds a directory for each log afterwards, whose name is its id. */
  readonly out: string;
}

/**
 * Fetches audit directories from an archive, so that they can be read and verified as on their replicas. The log of a worker or
 * a tenant is placed in the directory of its service, when that is fetched, too. Rejects when a directory exists already.
 */
export async function fetchLogs(source: ArchiveSource, { log, out }: FetchOptions): Promise<readonly FetchedLog[]> {
  const directories = new Map<string, Found[]>();
  for (const found of await search(source, log)) {
    const known = directories.get(found.object.directory);
    if (known === undefined) directories.set(found.object.directory, [found]);
    else known.push(found);
  }
  const fetched: FetchedLog[] = [];
  for (const [directory, objects] of directories) {
    const dir = join(out, directory);
    fetched.push({ directory, dir, ...(await fetchDirectory(source, objects, dir)) });
  }
  return inPlace(fetched);
}

async function search(source: ArchiveSource, log: string | undefined): Promise<readonly Found[]> {
  const all = await list(source, log === undefined ? "" : `${log}/`);
  if (log === undefined || all.length > 0) return all;
  const others = await list(source, "");
  const owner = others.find(({ object }) => object.kind === "part" && object.log === log)?.object.directory;
  return others.filter(({ object }) => object.directory === owner);
}

async function list(source: ArchiveSource, begin: string): Promise<readonly Found[]> {
  const found: Found[] = [];
  for await (const key of source.list(begin)) {
    const object = readKey(key);
    if (object !== undefined) found.push({ key, object });
  }
  // In the order of the days and of the positions in them.
  return found.sort((one, other) => (one.key < other.key ? -1 : 1));
}

async function fetchDirectory(
  source: ArchiveSource,
  objects: readonly Found[],
  dir: string,
): Promise<Pick<FetchedLog, "parts" | "bytes" | "problems">> {
  if (fs.existsSync(dir)) throw new Error(`${dir} exists already`);
  makeDirectory(dir);
  const problems: string[] = [];
  const ends = new Map<string, number>();
  let [parts, bytes] = [0, 0];
  for (const { key, object } of objects) {
    const content = await read(source, key, object.kind).catch((error: unknown) => {
      problems.push(`${key} cannot be read: ${error instanceof Error ? error.message : "damaged"}`);
    });
    if (content === undefined) continue;
    const file = fileOf(object);
    const end = ends.get(file) ?? 0;
    const offset = object.kind === "part" ? object.offset : 0;
    if (offset !== end) problems.push(`${file}: bytes ${end} to ${offset} are not in the archive`);
    ends.set(file, offset + content.length);
    append(join(dir, file), content);
    parts += 1;
    bytes += content.length;
  }
  return { parts, bytes, problems };
}

async function read(source: ArchiveSource, key: string, kind: ArchivedObject["kind"]): Promise<Buffer> {
  const object = await source.get(key, bytesMaxOf(kind));
  if (object === undefined) throw new Error("it is gone");
  return unpack(object, kind);
}

function fileOf(object: ArchivedObject): string {
  if (object.kind === "record") return RECORD_FILE;
  if (object.stream === "checkpoints") return join(CHECKPOINT_DIR, `${object.day}.txt`);
  return join(folderOf(object.stream), `${object.day}.jsonl`);
}

function append(path: string, content: Buffer): void {
  makeDirectory(join(path, ".."));
  fs.appendFileSync(path, content, { mode: 0o600 });
}

/** Moves the logs of workers and tenants below the directory whose journal names them. */
function inPlace(fetched: readonly FetchedLog[]): readonly FetchedLog[] {
  const moved = new Map<string, string>();
  for (const { dir } of fetched) {
    const recorded = readRecordedLogs(dir);
    for (const log of recorded.logs) {
      const to = join(dir, log);
      const origins = recorded.originsOf(log);
      const own = fetched.findLast(({ directory }) => origins.includes(originOf("journal", directory)));
      if (own === undefined || moved.has(own.directory)) continue;
      makeDirectory(join(to, ".."));
      fs.renameSync(own.dir, to);
      moved.set(own.directory, to);
    }
  }
  return fetched.map((log) => ({ ...log, dir: moved.get(log.directory) ?? log.dir }));
}
