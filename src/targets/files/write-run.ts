import { closeSync, fchmodSync, fchownSync, fsync, writeSync } from "node:fs";
import { promisify } from "node:util";
import { Refusal } from "../../core/errors.ts";
import type { Json } from "../../core/types.ts";
import { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_PATH, O_WRONLY } from "./c-library.ts";
import { type FileIdentity, identify, READING } from "./confinement.ts";
import { readThrough } from "./contents.ts";
import type { Mounts } from "./mounts.ts";
import { EEXIST, EINVAL, ENOENT, errnoRefusal, fileRefusal, thrownRefusal } from "./refusals.ts";
import { openCurrent, type WritePlan } from "./write-plan.ts";
import { locate, type WriteTarget } from "./write-target.ts";

interface WriteContext {
  readonly fileBytesMax: number;
  readonly signal: AbortSignal;
  readonly begin: (() => void) | undefined;
  readonly now: () => number;
  readonly deadline: number;
  /** Returns an unguessable id: `[A-Za-z0-9-]+`. */
  readonly newId: () => string;
}

const NEW_FILE_MODE = 0o666;
const LOCK_POLL_MS = 2;
const syncFile = promisify(fsync);

/**
 * Writes what was planned if the file has not changed since. Readers see the old or the new file, also after a crash.
 *
 * @throws {Refusal} E_PRECONDITION_FAILED when anything has changed; OUTCOME_UNKNOWN when the change is made but may be
 * lost in a crash of the machine
 */
export async function runWrite(mounts: Mounts, plan: WritePlan, context: WriteContext): Promise<Json> {
  const target = locate(mounts, plan.path);
  let directory: number | undefined;
  try {
    if (target.path !== plan.path || target.isWorkflow !== plan.workflow) throw fileRefusal("E_PRECONDITION_FAILED");
    directory = makeDirectories(mounts, target, plan.directories);
    await takeLock(mounts, directory, context);
    const current = await verify(mounts, { ...target, directory }, { plan, context });
    const { path, newSha256: sha256, bytes } = plan;
    const changed = plan.currentSha256 !== sha256;
    if (changed) await replace(mounts, { directory, name: target.name, current }, { plan, context });
    return { path, sha256, bytes, created: plan.currentSha256 === null, changed };
  } finally {
    if (directory !== undefined) closeSync(directory);
    target.close();
  }
}

/** Opens the file's directory, for its lock and for `fsync`. Creates missing directories. */
function makeDirectories({ confinement }: Mounts, target: WriteTarget, planned: readonly string[]): number {
  if (target.missing.join("/") !== planned.join("/")) throw fileRefusal("E_PRECONDITION_FAILED");
  const { step, library } = confinement;
  let here = step(target.directory, ".", READING | O_DIRECTORY);
  if (here < 0) throw errnoRefusal(here, "open directory");
  for (const name of planned) {
    const made = library.makeDirectory(here, name);
    // Another process may have created it. Opening it shows whether it is a directory.
    const next = made < 0 && made !== -EEXIST ? made : step(here, name, READING | O_DIRECTORY | O_NOFOLLOW);
    closeSync(here);
    if (next < 0) throw errnoRefusal(next, "make directory");
    here = next;
  }
  return here;
}

/** Waits for the lock: each directory has one writer, across all processes. */
async function takeLock({ confinement }: Mounts, directory: number, context: WriteContext): Promise<void> {
  for (;;) {
    if (confinement.library.lock(directory) >= 0) return;
    context.signal.throwIfAborted();
    if (context.now() >= context.deadline) {
      throw new Refusal("TARGET_UNAVAILABLE", "Another writer has locked the directory.");
    }
    await Bun.sleep(LOCK_POLL_MS);
  }
}

async function verify(
  mounts: Mounts,
  { directory, name, found }: Pick<WriteTarget, "directory" | "name" | "found">,
  { plan, context }: { readonly plan: WritePlan; readonly context: WriteContext },
): Promise<FileIdentity | undefined> {
  if ((found === undefined) !== (plan.currentSha256 === null)) throw fileRefusal("E_PRECONDITION_FAILED");
  if (found === undefined) return undefined;
  const { fd } = openCurrent(mounts, { directory, name, found });
  try {
    const before = identify(fd);
    const { fileBytesMax: bytesMax, signal } = context;
    const sha256 = await readThrough(fd, before.bytes, { bytesMax, signal, onChunk: () => {} });
    if (sha256 !== plan.currentSha256) throw fileRefusal("E_PRECONDITION_FAILED");
    return before;
  } finally {
    closeSync(fd);
  }
}

interface Target {
  readonly directory: number;
  readonly name: string;
  readonly current: FileIdentity | undefined;
}

async function replace(
  mounts: Mounts,
  target: Target,
  { plan, context }: { readonly plan: WritePlan; readonly context: WriteContext },
): Promise<void> {
  const { library, step } = mounts.confinement;
  const { directory, current } = target;
  const temporary = `.stc-${context.newId()}.tmp`;
  const fd = step(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, current?.mode ?? NEW_FILE_MODE);
  if (fd < 0) throw errnoRefusal(fd, "create");
  let renamed = false;
  try {
    writeAll(fd, Buffer.from(plan.content));
    if (current !== undefined) keepOwner(fd, current);
    await syncFile(fd);
    context.signal.throwIfAborted();
    context.begin?.();
    // Until the rename, nothing else runs in this process, and no other writer has the lock.
    checkUnchanged(mounts, target);
    renameInto(mounts, target, temporary);
    renamed = true;
  } catch (error) {
    throw thrownRefusal(error, "write");
  } finally {
    closeSync(fd);
    if (!renamed) library.remove(directory, temporary);
  }
  try {
    await syncFile(directory);
  } catch (error) {
    const message = "The file was written, but may not outlive a crash of the machine.";
    throw new Refusal("OUTCOME_UNKNOWN", message, { cause: error });
  }
}

function writeAll(fd: number, bytes: Buffer): void {
  for (let at = 0; at < bytes.byteLength; ) at += writeSync(fd, bytes, at);
}

/** Keeps mode and owner. Without permission to keep the owner, the service's user becomes the owner. */
function keepOwner(fd: number, { mode, owner }: FileIdentity): void {
  const now = identify(fd);
  if (now.owner.uid !== owner.uid || now.owner.gid !== owner.gid) {
    try {
      fchownSync(fd, owner.uid, owner.gid);
    } catch {}
  }
  fchmodSync(fd, mode);
}

function checkUnchanged({ confinement }: Mounts, { directory, name, current }: Target): void {
  const fd = confinement.step(directory, name, O_PATH | O_NOFOLLOW);
  if (fd === -ENOENT && current === undefined) return;
  if (fd < 0) throw errnoRefusal(fd, "look");
  try {
    const now = identify(fd);
    if (now.id !== current?.id || now.version !== current.version) throw fileRefusal("E_PRECONDITION_FAILED");
  } finally {
    closeSync(fd);
  }
}

function renameInto({ confinement }: Mounts, { directory, name, current }: Target, temporary: string): void {
  const { library } = confinement;
  const order = { from: temporary, to: name, replaces: current !== undefined };
  const done = library.rename(directory, order);
  // Some file systems support only renames that replace; the check just before must suffice.
  const result = done === -EINVAL ? library.rename(directory, { ...order, replaces: true }) : done;
  if (result === -EEXIST) throw fileRefusal("E_PRECONDITION_FAILED");
  if (result < 0) throw errnoRefusal(result, "rename");
}
