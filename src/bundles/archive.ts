import { gunzipSync, gzipSync } from "node:zlib";
import { systemCode } from "../core/error-text.ts";
import { assertBundle, BundleError } from "./bundle-error.ts";

/**
 * Archives as tar.gz (POSIX ustar), read within bounds and written with the same bytes for the same files. Rejected: a general tar
 * library, whose links, extensions and devices would have to be turned off one by one.
 */

export const ARCHIVE_BYTES_MAX = 16_777_216;
export const UNPACKED_BYTES_MAX = 67_108_864;
export const FILES_MAX = 2_000;
/** Text compresses to a twentieth at most; a bomb to a thousandth. */
const RATIO_MAX = 100;
/** Small archives hold mostly the zeros of their blocks. */
const UNPACKED_BYTES_FREE = 1_048_576;

const BLOCK = 512;
const PREFIX_CHARACTERS_MAX = 155;
const NAME_CHARACTERS_MAX = 100;
const FOLDERS_MAX = 8;
/** Programs fill the end of an archive up to their record, which is of 20 blocks. */
const END_BYTES_MAX = 22 * BLOCK;
const GZIP_OS_BYTE = 9;
const GZIP_OS_UNKNOWN = 255;

/** Positions in a header block. */
const FIELDS = {
  name: [0, 100],
  mode: [100, 8],
  uid: [108, 8],
  gid: [116, 8],
  size: [124, 12],
  mtime: [136, 12],
  checksum: [148, 8],
  type: [156, 1],
  link: [157, 100],
  magic: [257, 8],
  prefix: [345, 155],
} as const satisfies Readonly<Record<string, readonly [number, number]>>;

const MAGIC = "ustar\x0000";
const REGULAR = "0";

export type ArchiveFiles = ReadonlyMap<string, Uint8Array>;

/** Returns the problem of a path in an archive; undefined for a plain relative path. */
export function pathProblem(path: string): string | undefined {
  if (path === ".manifest") return undefined;
  const parts = path.split("/");
  if (!parts.every((part) => /^[A-Za-z0-9_][A-Za-z0-9._-]*$/.test(part)))
    return "is not a plain relative path of letters, digits, dot, dash, underscore";
  return parts.length > FOLDERS_MAX || split(path) === undefined ? "is too long" : undefined;
}

/** Returns the archive of the files, in the order of their paths. */
export function pack(files: ArchiveFiles): Buffer {
  const entries = [...files].sort(([one], [other]) => (one < other ? -1 : 1));
  const blocks = entries.flatMap(([path, content]) => [
    header(path, content.length),
    content,
    Buffer.alloc(-content.length & (BLOCK - 1)),
  ]);
  const archive = gzipSync(Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)]), { level: 9 });
  // The only byte that depends on the platform.
  archive[GZIP_OS_BYTE] = GZIP_OS_UNKNOWN;
  return archive;
}

/** @throws {BundleError} when the archive exceeds a bound, or holds anything but regular files */
export function unpack(archive: Uint8Array): ArchiveFiles {
  assertBundle(
    archive.length <= ARCHIVE_BYTES_MAX,
    "malformed",
    `the archive has more than ${ARCHIVE_BYTES_MAX} bytes`,
  );
  const tar = inflated(archive);
  const files = new Map<string, Uint8Array>();
  const lowerCase = new Set<string>();
  let at = 0;
  for (; !isZero(blockAt(tar, at)); ) {
    const block = blockAt(tar, at);
    const { path, size } = entryOf(block);
    // File systems that ignore case would unpack one over the other.
    assertBundle(!lowerCase.has(path.toLowerCase()), "malformed", `the archive holds ${path} twice`);
    assertBundle(files.size < FILES_MAX, "malformed", `the archive holds more than ${FILES_MAX} files`);
    const begin = at + BLOCK;
    assertBundle(begin + size <= tar.length, "malformed", `the archive ends within ${path}`);
    lowerCase.add(path.toLowerCase());
    files.set(path, tar.subarray(begin, begin + size));
    at = begin + Math.ceil(size / BLOCK) * BLOCK;
  }
  const end = tar.subarray(at);
  const isEnd = end.length >= 2 * BLOCK && end.length <= END_BYTES_MAX && isZero(end);
  assertBundle(isEnd, "malformed", "the archive has no proper end");
  const inFile = [...files.keys()].find((path) =>
    foldersOf(path).some((folder) => lowerCase.has(folder.toLowerCase())),
  );
  assertBundle(inFile === undefined, "malformed", `the archive holds ${inFile} below a file`);
  return files;
}

function foldersOf(path: string): readonly string[] {
  const parts = path.split("/");
  return parts.slice(1).map((_, at) => parts.slice(0, at + 1).join("/"));
}

function inflated(archive: Uint8Array): Buffer {
  const max = Math.min(UNPACKED_BYTES_MAX, UNPACKED_BYTES_FREE + archive.length * RATIO_MAX);
  try {
    return gunzipSync(archive, { maxOutputLength: max });
  } catch (error) {
    const isLarge = systemCode(error) === "ERR_BUFFER_TOO_LARGE";
    throw new BundleError(
      "malformed",
      isLarge ? `the archive unpacks to more than ${max} bytes` : "the archive is not gzip",
    );
  }
}

function blockAt(tar: Buffer, at: number): Buffer {
  const block = tar.subarray(at, at + BLOCK);
  assertBundle(block.length === BLOCK, "malformed", "the archive has no proper end");
  return block;
}

function entryOf(block: Buffer): { readonly path: string; readonly size: number } {
  const text = ([begin, length]: readonly [number, number]) => block.toString("latin1", begin, begin + length);
  assertBundle(text(FIELDS.magic) === MAGIC, "malformed", "the archive holds an entry that is not of POSIX tar");
  assertBundle(octal(text(FIELDS.checksum)) === checksumOf(block), "malformed", "the archive holds a damaged entry");
  const prefix = untilZero(text(FIELDS.prefix));
  const name = untilZero(text(FIELDS.name));
  const path = prefix === "" ? name : `${prefix}/${name}`;
  const problem = pathProblem(path);
  assertBundle(problem === undefined, "malformed", `the archive holds a path that ${problem}`);
  const isRegular = text(FIELDS.type) === REGULAR && untilZero(text(FIELDS.link)) === "";
  assertBundle(isRegular, "malformed", `the archive holds ${path}, which is not a regular file`);
  const size = octal(text(FIELDS.size));
  assertBundle(size !== undefined, "malformed", `the archive holds ${path} without a size`);
  return { path, size };
}

function header(path: string, size: number): Buffer {
  const block = Buffer.alloc(BLOCK);
  const write = (field: keyof typeof FIELDS, text: string): void => void block.write(text, FIELDS[field][0], "latin1");
  const { name = "", prefix = "" } = split(path) ?? {};
  write("name", name);
  write("mode", "0000644\0");
  write("uid", "0000000\0");
  write("gid", "0000000\0");
  write("size", `${size.toString(8).padStart(11, "0")}\0`);
  write("mtime", "00000000000\0");
  write("type", REGULAR);
  write("magic", MAGIC);
  write("prefix", prefix);
  write("checksum", `${checksumOf(block).toString(8).padStart(6, "0")}\0 `);
  return block;
}

/** Returns a path as the two fields of a header; undefined when they are too short for it. */
function split(path: string): { readonly name: string; readonly prefix: string } | undefined {
  if (path.length <= NAME_CHARACTERS_MAX) return { name: path, prefix: "" };
  const at = path.indexOf("/", path.length - NAME_CHARACTERS_MAX - 1);
  if (at < 1 || at > PREFIX_CHARACTERS_MAX) return undefined;
  return { name: path.slice(at + 1), prefix: path.slice(0, at) };
}

/** Returns the sum of a header's bytes, its own field counted as spaces. */
function checksumOf(block: Buffer): number {
  const [begin, length] = FIELDS.checksum;
  const bytes = block.reduce((sum, byte) => sum + byte, 0);
  return block.subarray(begin, begin + length).reduce((sum, byte) => sum - byte + 0x20, bytes);
}

function octal(text: string): number | undefined {
  const [, digits] = /^([0-7]{1,11})[\0 ]{0,7}$/.exec(text) ?? [];
  return digits === undefined ? undefined : Number.parseInt(digits, 8);
}

function untilZero(text: string): string {
  const [before = "", ...after] = text.split("\0");
  // Only zeros may follow the end of a text: other programs might read the rest.
  return after.every((rest) => rest === "") ? before : text;
}

function isZero(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0);
}
