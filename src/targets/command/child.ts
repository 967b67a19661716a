import { readdirSync, readFileSync } from "node:fs";
import { isAbsolute } from "node:path";
import { setImmediate } from "node:timers/promises";
import { systemCode } from "../../core/error-text.ts";
import { Refusal } from "../../core/errors.ts";
import { endedWithin } from "../../core/time-limits.ts";
import type { StderrMeaning } from "../../core/types.ts";
import { argvFault } from "./argv.ts";
import { COMMAND_BYTES_MAX, type CommandMemory } from "./command-memory.ts";
import type { Hold } from "./confinement/confinement.ts";
import type { Launched } from "./confinement/launchers.ts";
import { yieldMemory, yieldProcessor } from "./confinement/priority.ts";
import { killSession } from "./confinement/session.ts";
import {
  type ChildResult,
  type Ending,
  endingOfAbort,
  exited,
  memoryBound,
  signalled,
  spawnFailed,
  TIMED_OUT,
} from "./endings.ts";
import { CALL_MARKER } from "./environment.ts";
import { mergedOutput, type Pipe, readPipe, STDERR_HEAD_BYTES, statusOfStderr, stderrTail } from "./pipe.ts";

const NO_BYTES = new Uint8Array();
/** Longest delay of a timer; a timer with a longer delay fires at once. */
const TIMER_MS_MAX = 2_147_483_647;
/** Longest wait for a supervisor to end all its processes; after it, they are killed without the supervisor. */
const SUPERVISOR_WAIT_MS = 800;
/** Sent to a supervisor once the output has been read. Any byte works. */
const DRAINED = "d";
/** Number of attempts to raise a child's OOM score, and the pause between them: just after a program starts, it may fail. */
const YIELD_ATTEMPTS_MAX = 50;
const YIELD_PAUSE_MS = 2;
/** Longest wait for a killed child to end. */
const KILL_WAIT_MS = 300;
/** Longest wait for the pipes to close after the child has ended: once before its group is killed, and once after. */
const PIPE_GRACE_MS = 200;

export interface ChildOrder {
  readonly command: string;
  readonly argv: readonly string[];
  /** Arguments that may start with `-`. */
  readonly options: readonly string[];
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Unique to this child; its descendants inherit it. */
  readonly marker: string;
  /** Bytes of output that are kept; the rest is read and discarded. */
  readonly stdoutBytesMax: number;
  /** True when stderr is part of the output, in the order in which both arrive. */
  readonly mergesStderr?: boolean | undefined;
  /** Literals in stderr that tell what a failure means when the exit code cannot. */
  readonly stderrMeans: readonly StderrMeaning[];
  /** True when the end of stderr is kept, to be returned after filtering. */
  readonly keepsStderr?: boolean | undefined;
  readonly timeoutMs: number;
  readonly signals: readonly AbortSignal[];
  /** Confines the child; without it, only its user's permissions restrict it. */
  readonly hold?: Hold | undefined;
  /** Limits the memory of the child and all its descendants. */
  readonly memory?: CommandMemory | undefined;
}

/**
 * Runs one program until it ends. The result comes at most one second after the deadline, and everything that the program started
 * is killed with it. Rejects only for an argv that must never run; every other ending is in the result.
 *
 * @throws {Refusal} INTERNAL when the argv fails the last check
 */
export async function runChild(order: ChildOrder): Promise<ChildResult> {
  const fault = isAbsolute(order.command)
    ? argvFault(order.argv, order.options)
    : "the command is not an absolute path";
  if (fault !== undefined)
    throw new Refusal("INTERNAL", "The command could not be built.", { cause: new Error(fault) });
  const early = endingBefore(order);
  if (early !== undefined) return notStarted(early);
  const memoryBytesMax = order.memory?.bytesMax() ?? COMMAND_BYTES_MAX;
  let child: Child;
  try {
    child = spawn(order, memoryBytesMax);
  } catch (cause) {
    return notStarted(spawnFailed(cause));
  }
  const halt = haltOf(child);
  const watched = { session: child.pid, isLeaderCounted: child.supervisor === undefined, bytesMax: memoryBytesMax };
  const unwatch = order.memory?.watch(watched, () => halt.stop(memoryBound(memoryBytesMax)));
  try {
    return await attend(child, order, halt);
  } finally {
    unwatch?.();
  }
}

type Child = Pick<
  Bun.ReadableSubprocess,
  "pid" | "stdout" | "stderr" | "exited" | "exitCode" | "signalCode" | "unref"
> & {
  /** Set when `pid` is a supervisor: it exits as the program does, and only after all processes of the program have ended. */
  readonly supervisor?: Supervisor | undefined;
};

interface Supervisor {
  /** Notifies the supervisor that nobody waits for more output. */
  drained(): void;
  /** Ends the program and everything that it has started. */
  end(): void;
}

function spawn(order: ChildOrder, memoryBytesMax: number): Child {
  const { command, argv, cwd, environment: declared, marker, hold, timeoutMs } = order;
  const environment = { ...declared, [CALL_MARKER]: marker };
  if (hold !== undefined) {
    const launched = hold.launch({ command, argv, cwd, environment }, { timeoutMs, memoryBytesMax });
    return hold.isSupervised ? supervised(launched) : launched;
  }
  const child = Bun.spawn({
    cmd: [command, ...argv],
    cwd,
    env: environment,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    detached: true,
  });
  yieldProcessor(child.pid);
  yieldMemorySoon(child, YIELD_ATTEMPTS_MAX);
  return child;
}

function yieldMemorySoon(child: Pick<Bun.Subprocess, "pid" | "exitCode" | "signalCode">, attempts: number): void {
  if (attempts === 0 || child.exitCode !== null || child.signalCode !== null || yieldMemory(child.pid)) return;
  setTimeout(() => yieldMemorySoon(child, attempts - 1), YIELD_PAUSE_MS).unref();
}

function supervised(launched: Launched): Child {
  const { pid, stdin, stdout, stderr, exited } = launched;
  return {
    ...{ pid, stdout, stderr, exited },
    get exitCode() {
      return launched.exitCode;
    },
    get signalCode() {
      return launched.signalCode;
    },
    unref: () => launched.unref(),
    // Writing to a supervisor that has already ended fails; that is harmless.
    supervisor: {
      drained: () => void tell(stdin, DRAINED).catch(() => {}),
      end: () => void endOf(stdin).catch(() => {}),
    },
  };
}

async function tell(stdin: Bun.FileSink, text: string): Promise<void> {
  await stdin.write(text);
  await stdin.flush();
}

async function endOf(stdin: Bun.FileSink): Promise<void> {
  await stdin.end();
}

async function attend(child: Child, order: ChildOrder, halt: Halt): Promise<ChildResult> {
  const disarm = arm(order, halt);
  const onError = (cause: unknown) => halt.stop(spawnFailed(cause));
  const merged = order.mergesStderr === true ? mergedOutput(order.stdoutBytesMax) : undefined;
  const onChunk = merged?.add;
  const outBytesMax = merged === undefined ? order.stdoutBytesMax : 0;
  const out = readPipe(child.stdout, { keptBytesMax: outBytesMax, onChunk }, onError);
  const keptBytesMax = order.stderrMeans.length === 0 && order.hold === undefined ? 0 : STDERR_HEAD_BYTES;
  const tail = order.keepsStderr === true ? stderrTail() : undefined;
  const onComplaint = tail?.add ?? onChunk;
  const err = readPipe(child.stderr, { keptBytesMax, onChunk: onComplaint }, onError);
  if (child.supervisor !== undefined) Promise.all([out.ended, err.ended]).then(child.supervisor.drained, () => {});
  await Promise.race([child.exited, halt.stopped]);
  // The deadline and cancellation apply until the child ends. After that, only the grace period limits its pipes.
  disarm();
  const { survivors, isCut } = await settle(child, { out, err, halt, order });
  const complaint = complaintOf(err, order.hold);
  if (complaint !== undefined && halt.ending() === undefined) return notStarted(spawnFailed(complaint));
  return {
    ending: halt.ending() ?? endingOfExit(child),
    started: true,
    stdout: merged?.bytes() ?? out.text(),
    truncated: isCut || (merged?.isTruncated() ?? out.bytes() > outBytesMax),
    stderrBytes: err.bytes(),
    stderrTail: tail?.lines() ?? NO_BYTES,
    stderrStatus: statusOfStderr(err.text(), order.stderrMeans),
    survivors,
  };
}

/** Returns the error of a launcher that could not start the program. The program cannot forge one: it does not know the token. */
function complaintOf(err: Pipe, hold: Hold | undefined): Error | undefined {
  if (hold === undefined) return undefined;
  const text = Buffer.from(err.text()).toString("utf8");
  return text.startsWith(`${hold.token} `) ? new Error(text.slice(hold.token.length + 1)) : undefined;
}

interface Attendance {
  readonly out: Pipe;
  readonly err: Pipe;
  readonly halt: Halt;
  readonly order: ChildOrder;
}

interface Settled {
  /** Number of descendants that had left the process group. */
  readonly survivors: number;
  /** True when the child ended by itself but its pipes could not be read to the end. */
  readonly isCut: boolean;
}

/** Waits for the pipes, then kills the group and the descendants outside it, and cancels the readers. */
async function settle(child: Child, { out, err, halt, order }: Attendance): Promise<Settled> {
  const drained = Promise.all([out.ended, err.ended]);
  if (child.supervisor !== undefined) await endedWithin(child.exited, SUPERVISOR_WAIT_MS);
  const isClean =
    halt.ending() === undefined && (await endedWithin(drained, PIPE_GRACE_MS)) && halt.ending() === undefined;
  const isGone = child.exitCode !== null || child.signalCode !== null;
  // An ended supervisor has left no process behind, and its process id may already belong to another process.
  if (child.supervisor === undefined || !isGone) killGroup(child.pid);
  if (isClean && !mayHaveLeft(order)) return { survivors: 0, isCut: false };
  const survivors = await (order.hold === undefined
    ? killStrays(order.marker, child.pid)
    : killSession(child.pid, isGone));
  if (isClean) return { survivors, isCut: false };
  // A descendant may still hold the pipes open. If the output is needed, wait once more for its end.
  const isCut = halt.ending() === undefined && !(await endedWithin(drained, PIPE_GRACE_MS));
  await endedWithin(child.exited, KILL_WAIT_MS);
  out.cancel();
  err.cancel();
  child.unref();
  return { survivors, isCut };
}

/**
 * Returns true when descendants may have left the process group. A confined child without shell rights cannot leave its group;
 * one with shell rights cannot leave its session. Nothing restricts an unconfined script.
 */
function mayHaveLeft({ hold, mergesStderr }: ChildOrder): boolean {
  return hold === undefined ? mergesStderr === true : hold.isSupervised;
}

interface Halt {
  /** Ends the child and its group; only the first reason is kept. */
  stop(ending: Ending): void;
  ending(): Ending | undefined;
  readonly stopped: Promise<void>;
}

function haltOf({ pid, supervisor }: Child): Halt {
  const { promise, resolve } = Promise.withResolvers<void>();
  let reason: Ending | undefined;
  return {
    stop(ending) {
      if (reason !== undefined) return;
      reason = ending;
      if (supervisor === undefined) killGroup(pid);
      else supervisor.end();
      resolve();
    },
    ending: () => reason,
    stopped: promise,
  };
}

/** Sets the deadline and cancellation for the child. The returned function removes them. */
function arm({ timeoutMs, signals }: ChildOrder, halt: Halt): () => void {
  const timer = setTimeout(() => halt.stop(TIMED_OUT), Math.min(timeoutMs, TIMER_MS_MAX));
  const listeners = signals.map((signal) => ({ signal, onAbort: () => halt.stop(endingOfAbort(signal)) }));
  for (const { signal, onAbort } of listeners) signal.addEventListener("abort", onAbort, { once: true });
  return () => {
    clearTimeout(timer);
    for (const { signal, onAbort } of listeners) signal.removeEventListener("abort", onAbort);
  };
}

function endingBefore({ timeoutMs, signals }: ChildOrder): Ending | undefined {
  const aborted = signals.find((signal) => signal.aborted);
  if (aborted !== undefined) return endingOfAbort(aborted);
  return timeoutMs > 0 ? undefined : TIMED_OUT;
}

function endingOfExit({ signalCode, exitCode }: Child): Ending {
  return signalCode === null ? exited(exitCode ?? -1) : signalled(String(signalCode));
}

function notStarted(ending: Ending): ChildResult {
  return {
    ending,
    started: false,
    stdout: new Uint8Array(),
    truncated: false,
    stderrBytes: 0,
    stderrTail: NO_BYTES,
    stderrStatus: undefined,
    survivors: 0,
  };
}

/** Rounds over the process table: a stray process may fork during the search. */
const SWEEP_ROUNDS_MAX = 3;
/** Pause until a process that is becoming another program can be read. */
const UNCERTAIN_PAUSE_MS = 2;
/** Maximum number of processes checked in one round. */
const PROCESSES_MAX = 8_192;
/** Processes checked between two turns of the event loop. */
const PROCESSES_PER_TURN = 128;

/** Kills the whole process group of a child that was started in its own session. */
function killGroup(pid: number): void {
  if (!Number.isSafeInteger(pid) || pid <= 1) return;
  kill(-pid);
}

/**
 * Kills descendants that left the group with `setsid`, found by the marker in the environment they were started with, and returns
 * their number. Does not count descendants still in the group: they were killed with it and may take a moment to end. Linux only,
 * and only processes of the service's user: the environments of other users' processes cannot be read.
 */
async function killStrays(marker: string, group: number): Promise<number> {
  const needle = Buffer.from(`\0${CALL_MARKER}=${marker}\0`);
  const survivors = new Set<number>();
  for (let round = 0; round < SWEEP_ROUNDS_MAX; round += 1) {
    const strays: number[] = [];
    let isUncertain = false;
    for (const [index, pid] of processes().entries()) {
      if (index % PROCESSES_PER_TURN === PROCESSES_PER_TURN - 1) await setImmediate();
      const belongs = carries(pid, needle);
      if (belongs === true) strays.push(pid);
      isUncertain ||= belongs === undefined;
    }
    for (const pid of strays) {
      const own = groupOf(pid);
      if (own !== undefined && own !== group) survivors.add(pid);
      kill(pid);
    }
    if (strays.length === 0 && !isUncertain) break;
    if (isUncertain) await Bun.sleep(UNCERTAIN_PAUSE_MS);
  }
  return survivors.size;
}

/**
 * Returns the process group, from `pid (name) state ppid pgrp …`, where the name may contain any character; undefined when the
 * process has ended.
 */
function groupOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ", 3)[2]);
  } catch {
    return undefined;
  }
}

function processes(): readonly number[] {
  try {
    return readdirSync("/proc")
      .filter((name) => /^[1-9][0-9]{0,9}$/.test(name))
      .slice(-PROCESSES_MAX)
      .map(Number)
      .filter((pid) => pid > 1 && pid !== process.pid);
  } catch {
    return [];
  }
}

/**
 * Returns whether a process carries the marker. Undefined when a process of the service's user cannot be read, as happens for a
 * moment while it becomes another program.
 */
function carries(pid: number, needle: Buffer): boolean | undefined {
  try {
    return Buffer.concat([Buffer.of(0), readFileSync(`/proc/${pid}/environ`)]).includes(needle);
  } catch (error) {
    return systemCode(error) === "EACCES" && isOurs(pid) ? undefined : false;
  }
}

/** Returns whether a process is alive and belongs to the service's user. */
function isOurs(pid: number): boolean {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "latin1");
    return new RegExp(`^Uid:\\t${process.getuid?.()}\\t`, "m").test(status) && !/^State:\t[ZX]/m.test(status);
  } catch {
    return false;
  }
}

function kill(target: number): void {
  try {
    process.kill(target, "SIGKILL");
  } catch {
    // Already ended.
  }
}
