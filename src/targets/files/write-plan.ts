import { closeSync } from "node:fs";
import { sha256Hex } from "../../core/digest.ts";
import type { Refusal } from "../../core/errors.ts";
import type { ExecutionPlan } from "../../core/types.ts";
import { O_RDWR } from "./c-library.ts";
import { READING } from "./confinement.ts";
import { readWhole, textOf } from "./contents.ts";
import { unifiedDiff } from "./difference.ts";
import { identify } from "./identity.ts";
import type { Mounts } from "./mounts.ts";
import { locate, type Place } from "./place.ts";
import { errnoRefusal, fileRefusal } from "./refusals.ts";
import { checkWorkflow, type WorkflowRules } from "./workflow.ts";

/** Everything that will be written, for an approval to show and to bind to. */
export interface WritePlan extends ExecutionPlan {
  readonly kind: "fs";
  readonly operation: "write";
  /** By real names: no link, no dots. */
  readonly path: string;
  /** Hex SHA-256 of the file as it is; null where there is none. */
  readonly currentSha256: string | null;
  readonly newSha256: string;
  readonly bytes: number;
  /** Directories that will be made. */
  readonly directories: readonly string[];
  readonly workflow: boolean;
  readonly diff: readonly string[];
  readonly content: string;
}

export interface WriteOrder {
  readonly path: string;
  readonly ifMatchSha256?: string | undefined;
  readonly createDirectories: boolean;
  /** The new content, from the old one; undefined is a file that does not exist. */
  readonly make: (before: string | undefined) => string;
  /** Whether `make` looks at the old content, which must then be text. */
  readonly needsText: boolean;
}

export interface WriteLimits {
  readonly maxWriteBytes: number;
  readonly fileBytesMax: number;
  readonly workflow: WorkflowRules;
  readonly signal: AbortSignal;
}

/** Larger files are shown as replaced, not line by line. */
const COMPARED_BYTES_MAX = 1_048_576;

/**
 * Settles what a write will do, and changes nothing.
 *
 * @throws {Refusal} E_SANDBOX_VIOLATION, E_PRECONDITION_FAILED, E_WRITE_LIMIT …
 */
export async function planWrite(mounts: Mounts, order: WriteOrder, limits: WriteLimits): Promise<WritePlan> {
  const place = locate(mounts, order.path);
  try {
    if (place.missing.length > 0 && !order.createDirectories) {
      throw fileRefusal("ENOENT", { message: "The directory does not exist. createDirectories: true makes it." });
    }
    const current = await readCurrent(mounts, place, limits);
    checkExpected(order.ifMatchSha256, current?.sha256);
    if (order.needsText && current !== undefined && current.text === undefined) {
      throw fileRefusal("E_PATCH_MISMATCH", { message: "The file is not UTF-8 text and cannot be patched." });
    }
    const content = order.make(current?.text);
    const bytes = Buffer.byteLength(content);
    if (bytes > limits.maxWriteBytes) throw overLimit(limits.maxWriteBytes);
    if (place.isWorkflow)
      checkWorkflow(limits.workflow, current === undefined ? undefined : (current.text ?? ""), content);
    const { path, missing, isWorkflow } = place;
    return {
      ...{ kind: "fs", operation: "write", path, currentSha256: current?.sha256 ?? null },
      ...{ newSha256: sha256Hex(content), bytes, directories: missing, workflow: isWorkflow },
      ...{ diff: diffOf(path, current, content), content },
    };
  } finally {
    place.close();
  }
}

export function overLimit(maxWriteBytes: number): Refusal {
  return fileRefusal("E_WRITE_LIMIT", { details: { maxWriteBytes } });
}

interface Current {
  readonly sha256: string;
  readonly bytes: number;
  /** Undefined: not text. */
  readonly text: string | undefined;
}

async function readCurrent(mounts: Mounts, place: Place, limits: WriteLimits): Promise<Current | undefined> {
  if (place.found === undefined) return undefined;
  const { fd, version } = openCurrent(mounts, place);
  try {
    const { bytesMax, signal } = { bytesMax: limits.fileBytesMax, signal: limits.signal };
    const { sha256, bytes } = await readWhole(fd, place.found.bytes, { bytesMax, signal });
    if (identify(fd).version !== version) throw fileRefusal("E_PRECONDITION_FAILED");
    return { sha256, bytes: bytes.byteLength, text: textOf(bytes) };
  } finally {
    closeSync(fd);
  }
}

/**
 * Opens the file that stands in a place, as one that may be changed: a file that its owner made read-only stays as it is.
 *
 * @throws {Refusal} EACCES; E_PRECONDITION_FAILED when another file has its name by now
 */
export function openCurrent(
  { confinement }: Mounts,
  { directory, name, found }: Pick<Place, "directory" | "name" | "found">,
): { readonly fd: number; readonly version: string } {
  const fd = confinement.step(directory, name, READING | O_RDWR);
  if (fd < 0) throw errnoRefusal(fd, "open");
  const { id, version } = identify(fd);
  if (id === found?.id) return { fd, version };
  closeSync(fd);
  throw fileRefusal("E_PRECONDITION_FAILED");
}

function checkExpected(expected: string | undefined, current: string | undefined): void {
  if (expected === undefined || expected.toLowerCase() === current) return;
  throw fileRefusal("E_PRECONDITION_FAILED", {
    details: { currentSha256: current ?? null },
  });
}

function diffOf(path: string, current: Current | undefined, content: string): readonly string[] {
  const large = Buffer.byteLength(content) > COMPARED_BYTES_MAX || (current?.bytes ?? 0) > COMPARED_BYTES_MAX;
  const isBinary = current !== undefined && current.text === undefined;
  if (isBinary || large) return [`(not shown: the file is ${isBinary ? "not text" : "large"})`];
  return unifiedDiff(path, current?.text, content);
}
