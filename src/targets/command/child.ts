import { isAbsolute } from "node:path";
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
import { killGroup, killStrays } from "./strays.ts";

const NO_BYTES = new Uint8Array();
/** The longest a timer can wait; it fires at once when asked for more. */
const TIMER_MS_MAX = 2_147_483_647;
/** How long a supervisor may take to end everybody before that is done without it. */
const SUPERVISOR_WAIT_MS = 800;
/** One byte, whatever it is. */
const DRAINED = "d";
/** How often, and after which time again, a child is told to yield its memory: at the very start of a program it may not take that. */
const YIELD_ATTEMPTS_MAX = 50;
const YIELD_PAUSE_MS = 2;
/** How long a killed child may take to be gone. */
const KILL_WAIT_MS = 300;
/** How long the pipes may stay open after the child is gone, before and again after its group is killed. */
const PIPE_GRACE_MS = 200;

export interface ChildOrder {
  readonly command: string;
  readonly argv: readonly string[];
  /** The tokens that may begin with `-`. */
  readonly options: readonly string[];
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Unique to this child; its descendants carry it. */
  readonly marker: string;
  /** Bytes of output that are kept; the rest is read and thrown away. */
  readonly stdoutBytesMax: number;
  /** Whether stderr is part of the output, in the order in which both come. */
  readonly mergesStderr?: boolean | undefined;
  /** Literals that tell what a failure means where the exit code cannot. */
  readonly stderrMeans: readonly StderrMeaning[];
  /** Whether the end of stderr is kept, to be heard after a filter. */
  readonly keepsStderr?: boolean | undefined;
  readonly timeoutMs: number;
  readonly signals: readonly AbortSignal[];
  /** Holds the child; without it, only its user's rights do. */
  readonly hold?: Hold | undefined;
  /** Limits the memory of the child and of all that it starts. */
  readonly memory?: CommandMemory | undefined;
}

/**
 * Runs one program to its end, whatever it does: the answer comes at most a second after the deadline, and what it
 * started is killed with it. Rejects only for an argv that must never run; every other ending is in the result.
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
  /** Of the one that supervises the program and has its exit code; it ends when nobody is left. */
  readonly supervisor?: Supervisor | undefined;
};

interface Supervisor {
  /** Nobody waits for more output. */
  drained(): void;
  /** Ends the program and all that it has started. */
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
    // One that has ended already does not read.
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
  // What the child did before it was gone counts; what its pipes do afterwards is bounded by the grace alone.
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

/** What a launcher said instead of becoming the program: the program itself cannot know the word that it begins with. */
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
  /** Descendants that had left the group. */
  readonly survivors: number;
  /** Whether the pipes of a child that came to its own end could not be read to theirs. */
  readonly isCut: boolean;
}

/** Waits for the pipes, then leaves nothing behind: not the group, not the strays, not a reader. */
async function settle(child: Child, { out, err, halt, order }: Attendance): Promise<Settled> {
  const drained = Promise.all([out.ended, err.ended]);
  if (child.supervisor !== undefined) await endedWithin(child.exited, SUPERVISOR_WAIT_MS);
  const isClean =
    halt.ending() === undefined && (await endedWithin(drained, PIPE_GRACE_MS)) && halt.ending() === undefined;
  const isGone = child.exitCode !== null || child.signalCode !== null;
  // A supervisor that has ended has left nobody, and its number may be somebody else's.
  if (child.supervisor === undefined || !isGone) killGroup(child.pid);
  if (isClean && !mayHaveLeft(order)) return { survivors: 0, isCut: false };
  const survivors = await (order.hold === undefined
    ? killStrays(order.marker, child.pid)
    : killSession(child.pid, isGone));
  if (isClean) return { survivors, isCut: false };
  // A descendant may still hold the pipes. When the output counts, it gets a last chance to come to its end.
  const isCut = halt.ending() === undefined && !(await endedWithin(drained, PIPE_GRACE_MS));
  await endedWithin(child.exited, KILL_WAIT_MS);
  out.cancel();
  err.cancel();
  child.unref();
  return { survivors, isCut };
}

/** A confined child without a shell's rights cannot leave its group; with them, not its session. Nothing holds a script without. */
function mayHaveLeft({ hold, mergesStderr }: ChildOrder): boolean {
  return hold === undefined ? mergesStderr === true : hold.isSupervised;
}

interface Halt {
  /** Kills the group; the first reason stays. */
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

/** Sets deadline and cancellation upon the child; the answer takes them off again. */
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
