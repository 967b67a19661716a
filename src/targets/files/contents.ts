import { createHash } from "node:crypto";
import { readSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { fileRefusal, thrownRefusal } from "./refusals.ts";

const CHUNK_BYTES = 262_144;
/** Files below this size use a buffer of this size, which comes from a pool. */
const SMALL_BYTES = 16_384;

export interface ReadingOptions {
  /** Larger files are refused. */
  readonly bytesMax: number;
  readonly signal: AbortSignal;
  /** Receives the parts of the file in order, and must not keep them. */
  readonly onChunk: (chunk: Buffer) => void;
}

/**
 * Reads and hashes a whole file. Other calls can run between parts.
 *
 * @returns hex SHA-256 of the whole file
 * @throws {Refusal} E_READ_LIMIT
 */
export async function readThrough(
  fd: number,
  size: number,
  { bytesMax, signal, onChunk }: ReadingOptions,
): Promise<string> {
  if (size > bytesMax) throw tooLarge(bytesMax);
  const hash = createHash("sha256");
  const chunk = Buffer.allocUnsafe(size < SMALL_BYTES ? SMALL_BYTES : CHUNK_BYTES);
  let at = 0;
  for (let read = readAt(fd, chunk, at); read > 0; read = readAt(fd, chunk, at)) {
    at += read;
    if (at > bytesMax) throw tooLarge(bytesMax);
    const part = chunk.subarray(0, read);
    hash.update(part);
    onChunk(part);
    if (read < chunk.byteLength && at >= size) break;
    await setImmediate();
    signal.throwIfAborted();
  }
  return hash.digest("hex");
}

export async function readWhole(
  fd: number,
  size: number,
  limits: Omit<ReadingOptions, "onChunk">,
): Promise<{ readonly sha256: string; readonly bytes: Buffer }> {
  const parts: Buffer[] = [];
  const sha256 = await readThrough(fd, size, { ...limits, onChunk: (part) => parts.push(Buffer.from(part)) });
  return { sha256, bytes: Buffer.concat(parts) };
}

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Decodes UTF-8 without NUL. Returns undefined for anything else, which is binary. */
export function decodedText(bytes: Uint8Array): string | undefined {
  if (bytes.includes(0)) return undefined;
  try {
    return strict.decode(bytes);
  } catch {
    return undefined;
  }
}

export function withoutReturn(line: string): string {
  return line.endsWith("\r") ? line.slice(0, -1) : line;
}

export function withoutByteOrderMark(text: string): string {
  return text.startsWith("\ufeff") ? text.slice(1) : text;
}

function readAt(fd: number, chunk: Buffer, position: number): number {
  try {
    return readSync(fd, chunk, 0, chunk.byteLength, position);
  } catch (error) {
    throw thrownRefusal(error, "read");
  }
}

function tooLarge(bytesMax: number): ReturnType<typeof fileRefusal> {
  return fileRefusal("E_READ_LIMIT", { details: { fileBytesMax: bytesMax } });
}

/** Returns the lines of a text with their newlines. Only the last line may lack one; an empty text has no lines. */
export function linesOf(text: string): readonly string[] {
  const lines: string[] = [];
  for (let at = 0; at < text.length; ) {
    const newline = text.indexOf("\n", at);
    const end = newline < 0 ? text.length : newline + 1;
    lines.push(text.slice(at, end));
    at = end;
  }
  return lines;
}
