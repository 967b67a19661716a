import { closeSync } from "node:fs";
import { PartialAnswer } from "../../core/partial-answer.ts";
import type { Json } from "../../core/types.ts";
import { readThrough, textOf } from "./contents.ts";
import { LineWindow } from "./line-window.ts";
import { aim, type Mounts, openForReading } from "./mounts.ts";
import { fileRefusal } from "./refusals.ts";

export interface ReadOrder {
  readonly path: string;
  /** 1-based, inclusive. */
  readonly startLine?: number | undefined;
  readonly endLine?: number | undefined;
}

export interface ReadLimits {
  readonly maxReadBytes: number;
  readonly fileBytesMax: number;
  readonly signal: AbortSignal;
}

/** A NUL within so many bytes makes a file binary, whatever its window holds. */
const SNIFFED_BYTES = 8_192;

/**
 * A file's lines and the hash of all of it.
 *
 * @throws {Refusal} ENOENT, EISDIR, E_SANDBOX_VIOLATION, E_READ_LIMIT
 */
export async function readFile(
  mounts: Mounts,
  { path, startLine, endLine }: ReadOrder,
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
  const text = hasNul ? undefined : textOf(window);
  const told = { path, sha256, bytes };
  if (text === undefined) {
    const hint = "The file is not UTF-8 text; only its size and hash are told.";
    return { ...told, content: "", binary: true, startLine: 0, endLine: 0, totalLines: 0, truncated: false, hint };
  }
  const shown = text === "" ? 0 : text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
  const last = from + shown - 1;
  const hint = hintOf({ from, shown, last, totalLines, truncated });
  const answer = {
    ...{ ...told, content: text, binary: false, startLine: shown === 0 ? 0 : from, endLine: shown === 0 ? 0 : last },
    ...{ totalLines, truncated, ...(hint !== undefined && { hint }) },
  };
  if (beyond === undefined) return answer;
  return new PartialAnswer(
    { ...answer, content: textOf(beyond) ?? text },
    { field: "content", bytesMax: window.byteLength },
  );
}

interface Shown {
  readonly from: number;
  readonly shown: number;
  readonly last: number;
  readonly totalLines: number;
  readonly truncated: boolean;
}

function hintOf({ from, shown, last, totalLines, truncated }: Shown): string | undefined {
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
  const { fd, identity } = openForReading(mounts, aim(mounts, path));
  try {
    if (identity.kind === "directory")
      throw fileRefusal("EISDIR", { message: "The path is a directory: use fs_list." });
    return await readThrough(fd, identity.bytes, { bytesMax: fileBytesMax, signal, onChunk });
  } finally {
    closeSync(fd);
  }
}
