import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openAuditLog } from "../../../src/audit/audit-log.ts";
import { diskFiles, type FileOperations } from "../../../src/audit/journal/file-operations.ts";
import { verifyLog } from "../../../src/audit/verify/verify.ts";
import { keys } from "./chained-log.ts";
import { draftOf, readLines } from "./open.ts";

/**
 * How the end comes at one operation. `before`, `after`: the process is killed there. `amid`: within a write, of which a
 * part is done. `power`: what was not synced is lost, in part or whole, and so are names whose directory was not synced.
 */
export const ENDINGS = ["before", "amid", "after", "power"] as const;
export type Ending = (typeof ENDINGS)[number];

interface OpenedFile {
  readonly path: string;
  isNew: boolean;
  synced: number;
}

/** The real disk up to one operation; from there on nothing is done any more. */
class Power {
  readonly files: FileOperations;
  operations = 0;
  readonly #at: number;
  readonly #ending: Ending;
  readonly #opened = new Map<number, OpenedFile>();
  #isOff = false;

  constructor(at: number, ending: Ending) {
    this.#at = at;
    this.#ending = ending;
    this.files = {
      ...diskFiles,
      openAppend: (path) => this.#do(() => this.#open(path)),
      write: (fd, bytes, offset) => this.#write(fd, bytes, offset),
      fdatasync: async (fd) => {
        const size = fs.fstatSync(fd).size;
        await this.#doAsync(() => diskFiles.fdatasync(fd));
        const file = this.#opened.get(fd);
        if (file !== undefined) file.synced = size;
      },
      syncDirectory: async (path) => {
        await this.#doAsync(() => diskFiles.syncDirectory(path));
        for (const file of this.#opened.values()) file.isNew = false;
      },
      truncate: (fd, length) => this.#do(() => diskFiles.truncate(fd, length)),
      replace: (path, bytes) => this.#doAsync(() => diskFiles.replace(path, bytes)),
      occupy: (path, bytes) => this.#do(() => diskFiles.occupy(path, bytes)),
      remove: (path) => this.#do(() => diskFiles.remove(path)),
    };
  }

  get isOff(): boolean {
    return this.#isOff;
  }

  /** Whether this operation is the one; throws when the power is gone already. */
  #isNow(): boolean {
    if (this.#isOff) throw new Error("the power is off");
    this.operations += 1;
    return this.operations === this.#at;
  }

  #do<T>(operate: () => T): T {
    if (!this.#isNow()) return operate();
    if (this.#ending === "after") operate();
    return this.#off();
  }

  async #doAsync(operate: () => Promise<void>): Promise<void> {
    if (!this.#isNow()) {
      await operate();
      // It may have gone off meanwhile: then nobody hears of the end of this one.
      if (this.#isOff) throw new Error("the power is off");
      return;
    }
    if (this.#ending === "after") await operate();
    this.#off();
  }

  #write(fd: number, bytes: Uint8Array, offset: number): number {
    if (!this.#isNow()) return diskFiles.write(fd, bytes, offset);
    const rest = bytes.length - offset;
    const part = { before: 0, amid: Math.ceil(rest / 3), after: rest, power: rest }[this.#ending];
    if (part > 0) fs.writeSync(fd, bytes, offset, part);
    return this.#off();
  }

  #open(path: string): number {
    const isNew = !fs.existsSync(path);
    const fd = diskFiles.openAppend(path);
    this.#opened.set(fd, { path, isNew, synced: fs.fstatSync(fd).size });
    return fd;
  }

  #off(): never {
    this.#isOff = true;
    for (const { path, isNew, synced } of this.#ending === "power" ? this.#opened.values() : []) {
      const size = fs.statSync(path, { throwIfNoEntry: false })?.size ?? 0;
      if (isNew) fs.rmSync(path, { force: true });
      else if (size > synced) fs.truncateSync(path, synced + Math.floor((size - synced) / 2));
    }
    throw new Error("the power is off");
  }
}

const EVENING = Date.parse("2026-02-16T23:59:59.990Z");

/** Some callers, each with intents and entries, over a midnight; tells what was acknowledged. */
async function work(dir: string, power: Power, round: number): Promise<readonly string[]> {
  const acknowledged: string[] = [];
  let now = EVENING;
  const log = openAuditLog({
    dir,
    instance: "test",
    clock: () => now,
    durability: "fdatasync",
    queueEntriesMax: 100,
    diskReserveBytes: 65_536,
    checkpointKey: keys.privateKey,
    checkpointIntervalMs: 0,
    files: power.files,
  });
  const caller = async (name: number): Promise<void> => {
    for (let call = 0; call < 4; call += 1) {
      now += 1 + ((round * 7 + call) % 5);
      const traceId = `t-${round}-${name}-${call}`;
      await log.journal({ type: "intent", traceId, tool: "bash" });
      acknowledged.push(`intent ${traceId}`);
      const text = "x".repeat((round * 131 * (name + 1)) % 3_000);
      await log.append(draftOf(traceId, { request: { args: { text }, argsHash: "", hashAlg: "none" } }));
      acknowledged.push(traceId);
    }
  };
  await Promise.allSettled(Array.from({ length: 1 + (round % 3) }, (_, name) => caller(name)));
  await log.close();
  return acknowledged;
}

/** What became of a log whose power went off at one operation: nothing, when all is as promised. */
export async function afterPowerCut(
  at: number,
  ending: Ending,
  round: number,
): Promise<{ faults: string[]; isOver: boolean }> {
  // In memory where there is such a place: the disk's own syncs only cost time here, for what they promise is played.
  const dir = fs.mkdtempSync(join(fs.existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "stc-power-"));
  try {
    const power = new Power(at, ending);
    const acknowledged = await openAnd(() => work(dir, power, round));
    const next = openAuditLog({
      dir,
      instance: "test",
      clock: () => EVENING + 1_000,
      durability: "fdatasync",
      queueEntriesMax: 100,
      diskReserveBytes: 65_536,
      checkpointKey: keys.privateKey,
    });
    await next.append(draftOf("after"));
    await next.close();
    return { faults: [...missing(dir, acknowledged), ...damages(dir)], isOver: !power.isOff };
  } finally {
    fs.rmSync(dir, { recursive: true, force: true });
  }
}

/** A start that the cut hits has acknowledged nothing. */
async function openAnd(run: () => Promise<readonly string[]>): Promise<readonly string[]> {
  try {
    return await run();
  } catch {
    return [];
  }
}

function missing(dir: string, acknowledged: readonly string[]): readonly string[] {
  const read = (folder: string) =>
    fs
      .readdirSync(folder)
      .filter((name) => name.endsWith(".jsonl"))
      .flatMap((name) => readLines(`${folder}/${name}`));
  const calls = read(dir).map((line) => String(line["traceId"]));
  const intents = read(`${dir}/journal`).filter((line) => line["type"] === "intent");
  const written = new Set([...calls, ...intents.map((line) => `intent ${line["traceId"]}`)]);
  const open = intents.filter((line) => !calls.includes(String(line["traceId"])));
  return [
    ...acknowledged.filter((id) => !written.has(id)).map((id) => `lost: ${id}`),
    ...open.map((line) => `without an entry: ${line["traceId"]}`),
    ...(new Set(calls).size === calls.length ? [] : ["a call twice"]),
  ];
}

function damages(dir: string): readonly string[] {
  const { streams, checkpoints } = verifyLog({ dir, keys: [keys.publicKey] });
  const found = [...streams.map(({ damage }) => damage), checkpoints.damage].filter((damage) => damage !== undefined);
  return found.map(({ kind, file, line, message }) => `${kind} ${file}:${line} ${message}`);
}
