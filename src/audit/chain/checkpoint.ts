import type { KeyObject } from "node:crypto";
import { type ChainHead, STREAMS, type StreamName } from "./chain.ts";
import { DIGEST_BYTES } from "./merkle-tree.ts";
import { type Note, signNote } from "./signed-note.ts";

/** Folder of the checkpoints in the audit directory, with one file per day. */
export const CHECKPOINT_DIR = "checkpoints";

const ORIGIN = "safe-tool-call/audit";
const LOG_ID = /^[0-9a-f]{32}$/;
const SIZE = /^(0|[1-9][0-9]{0,15})$/;

/** A signed statement about one stream: its number of lines and their root (c2sp.org/tlog-checkpoint). */
export interface Checkpoint extends Note {
  readonly origin: string;
  readonly stream: StreamName;
  readonly size: number;
  readonly root: Buffer;
}

export function originOf(stream: StreamName, logId: string): string {
  return `${ORIGIN}/${stream}/${logId}`;
}

/** Returns the signed checkpoint of a chain that has at least one line. */
export function signCheckpoint(stream: StreamName, { logId, seq, tree }: ChainHead, key: KeyObject): string {
  const origin = originOf(stream, logId ?? "");
  return signNote(`${origin}\n${seq}\n${tree.root().toString("base64")}\n`, origin, key);
}

/**
 * Reads one note, as stored in a checkpoint file or alone. Returns `undefined` when it is not a checkpoint of a stream.
 */
export function readCheckpoint(note: string): Checkpoint | undefined {
  const [body = "", signatures = "", ...rest] = note.split("\n\n");
  const [origin = "", size = "", encoded = "", ...extensions] = body.split("\n");
  const stream = STREAMS.find((name) => origin.startsWith(`${ORIGIN}/${name}/`));
  const root = Buffer.from(encoded, "base64");
  if (
    stream === undefined ||
    rest.some((part) => part !== "") ||
    !LOG_ID.test(origin.slice(`${ORIGIN}/${stream}/`.length)) ||
    !SIZE.test(size) ||
    !Number.isSafeInteger(Number(size)) ||
    root.length !== DIGEST_BYTES ||
    root.toString("base64") !== encoded ||
    extensions.includes("")
  ) {
    return undefined;
  }
  const text = `${body}\n`;
  return { text, signatures: signatures.replace(/\n$/, ""), origin, stream, size: Number(size), root };
}

/** A note in a file of notes, each of which ends with an empty line. */
export interface FiledNote {
  /** Line number of the note's start, from 1. */
  readonly line: number;
  readonly note: string;
  /** Bytes from the start of the file to the end of the note. */
  readonly end: number;
}

/** Yields the complete notes in a file's text. The last note's `end` shows where incomplete text starts. */
export function* splitNotes(text: string): Generator<FiledNote, void> {
  let at = 0;
  let line = 1;
  let end = 0;
  for (;;) {
    const middle = text.indexOf("\n\n", at);
    const next = middle === -1 ? -1 : text.indexOf("\n\n", middle + 2);
    if (next === -1) {
      return;
    }
    const note = text.slice(at, next + 1);
    end += Buffer.byteLength(note) + 1;
    yield { line, note, end };
    line += note.split("\n").length;
    at = next + 2;
  }
}
