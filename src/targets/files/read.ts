import { closeSync } from "node:fs";
import { CUT_MARGIN_BYTES, PartialAnswer } from "../../core/partial-answer.ts";
import type { Json } from "../../core/types.ts";
import { decodedText, readThrough } from "./contents.ts";
import { type Mounts, openForReading, resolveMount } from "./mounts.ts";
import { fileRefusal } from "./refusals.ts";

export interface ReadRequest {
  readonly path: string;
  /** 1-based, inclusive. */
  readonly startLine?: number | undefined;
  readonly endLine?: number | undefined;
}

interface ReadLimits {
  readonly maxReadBytes: number;
  readonly fileBytesMax: number;
  readonly signal: AbortSignal;
}

/** A NUL within this many bytes from the start makes a file binary. */
const SNIFFED_BYTES = 8_192;

/**
 * Returns lines of a file, and the hash of the whole file.
 *
 * @throws {Refusal} ENOENT, EISDIR, E_SANDBOX_VIOLATION, E_READ_LIMIT
 */
export async function readFile(
  mounts: Mounts,
  { path, startLine, endLine }: ReadRequest,
  limits: ReadLimits,
): Promise<Json | PartialAnswer> {
  const from = startLine ?? 1;
  const lines = new LineWindow({ startLine: from, endLine: endLine ?? Number.POSITIVE_INFINITY }, limits.maxReadBytes);
  let bytes = 0;
  let hasNul = false;
  const sha256 = await readPath(mounts, path, {
    ...limits,
    onChunk(part) {
      if (bytes < SNIFFED_BYTES) hasNul ||= part.subarray(0, SNIFFED_BYTES - bytes).includes(0);
      bytes += part.length;
      lines.add(part);
    },
  });
  const { totalLines } = lines;
  const { bytes: window, truncated, beyond } = lines.window;
  const text = hasNul ? undefined : decodedText(window);
  const facts = { path, sha256, bytes };
  if (text === undefined) {
    const hint = "The file is not UTF-8 text; only its size and hash are returned.";
    return { ...facts, content: "", binary: true, startLine: 0, endLine: 0, totalLines: 0, truncated: false, hint };
  }
  const shown = text === "" ? 0 : text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
  const last = from + shown - 1;
  const hint = hintOf({ from, shown, last, totalLines, truncated });
  const answer = {
    ...facts,
    content: text,
    binary: false,
    startLine: shown === 0 ? 0 : from,
    endLine: shown === 0 ? 0 : last,
    totalLines,
    truncated,
    ...(hint !== undefined && { hint }),
  };
  if (beyond === undefined) return answer;
  return new PartialAnswer(
    { ...answer, content: decodedText(beyond) ?? text },
    { field: "content", bytesMax: window.byteLength },
  );
}

function hintOf({
  from,
  shown,
  last,
  totalLines,
  truncated,
}: Readonly<Record<"from" | "shown" | "last" | "totalLines", number>> & { readonly truncated: boolean }):
  | string
  | undefined {
  if (truncated && last < totalLines) {
    return `The content ends after line ${last} of ${totalLines}. Read on with startLine ${last + 1}, or find the lines with fs_search.`;
  }
  if (truncated) return `Line ${last} is longer than one answer and is shown in part.`;
  return shown === 0 && from > totalLines ? `The file has ${totalLines} lines.` : undefined;
}

async function readPath(
  mounts: Mounts,
  path: string,
  { fileBytesMax, signal, onChunk }: ReadLimits & { readonly onChunk: (part: Buffer) => void },
): Promise<string> {
  const { fd, identity } = openForReading(mounts, resolveMount(mounts, path));
  try {
    if (identity.kind === "directory")
      throw fileRefusal("EISDIR", { message: "The path is a directory: use fs_list." });
    return await readThrough(fd, identity.bytes, { bytesMax: fileBytesMax, signal, onChunk });
  } finally {
    closeSync(fd);
  }
}

const NEWLINE = 10;

/** 1-based, inclusive. */
interface LineRange {
  readonly startLine: number;
  readonly endLine: number;
}

/** Extracts some lines of a file that arrives in parts, and counts the lines of the whole file. */
export class LineWindow {
  readonly #range: LineRange;
  readonly #bytesMax: number;
  readonly #kept: Buffer[] = [];
  #keptBytes = 0;
  #newlines = 0;
  #bytes = 0;
  #endsWithNewline = false;

  constructor(range: LineRange, bytesMax: number) {
    this.#range = range;
    this.#bytesMax = bytesMax;
  }

  /** Adds the next part. Copies only the bytes that are needed. */
  add(part: Buffer): void {
    const { startLine, endLine } = this.#range;
    let from = this.#newlines + 1 >= startLine ? 0 : part.length;
    let to = this.#newlines + 1 > endLine ? 0 : part.length;
    for (let at = part.indexOf(NEWLINE); at >= 0; at = part.indexOf(NEWLINE, at + 1)) {
      this.#newlines += 1;
      if (this.#newlines + 1 === startLine) from = at + 1;
      if (this.#newlines === endLine) to = at + 1;
    }
    if (from < to) this.#keep(part.subarray(from, to));
    this.#bytes += part.length;
    this.#endsWithNewline = part.at(-1) === NEWLINE;
  }

  get totalLines(): number {
    return this.#newlines + (this.#bytes > 0 && !this.#endsWithNewline ? 1 : 0);
  }

  /**
   * Returns the part of the window that fits: complete lines, or else the start of the first line. Then `beyond` is
   * set: `bytes` and a little more, so that redaction sees the text around the cut.
   */
  get window(): { readonly bytes: Buffer; readonly truncated: boolean; readonly beyond?: Buffer } {
    const kept = Buffer.concat(this.#kept);
    if (kept.length <= this.#bytesMax) return { bytes: kept, truncated: false };
    const bytes = kept.subarray(0, this.#bytesMax);
    const lineEnd = bytes.lastIndexOf(NEWLINE) + 1;
    if (lineEnd > 0) return { bytes: bytes.subarray(0, lineEnd), truncated: true };
    return { bytes: wholeCharacters(bytes), truncated: true, beyond: wholeCharacters(kept) };
  }

  #keep(part: Buffer): void {
    const room = this.#bytesMax + CUT_MARGIN_BYTES - this.#keptBytes;
    if (room <= 0) return;
    const kept = Buffer.from(part.subarray(0, room));
    this.#kept.push(kept);
    this.#keptBytes += kept.length;
  }
}

const CONTINUATION_BYTES_MAX = 3;

/** Removes the last UTF-8 character when it is cut. */
function wholeCharacters(bytes: Buffer): Buffer {
  for (let back = 1; back <= CONTINUATION_BYTES_MAX + 1 && back <= bytes.length; back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const isCut = (byte >= 0xf0 && back < 4) || (byte >= 0xe0 && back < 3) || (byte >= 0xc0 && back < 2);
    return isCut ? bytes.subarray(0, -back) : bytes;
  }
  return bytes;
}
