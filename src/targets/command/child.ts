import { isAbsolute } from "node:path";
import { endedWithin } from "../../core/time-limits.ts";
import type { StderrMeaning, TargetObserver } from "../../core/types.ts";
import { argvFault } from "./argv.ts";
import { COMMAND_BYTES_MAX, type CommandMemory } from "./command-memory.ts";
import type { Sandbox } from "./confinement/confinement.ts";
import type { Launched } from "./confinement/launchers.ts";
import { lowerPriority, raiseOomScore } from "./confinement/priority.ts";
import { TERMINATE } from "./confinement/supervisor.ts";
import { killGroup, killSession, killStrays } from "./descendants.ts";
import { type ChildResult, type Ending, endingOfAbort, unbuildable } from "./endings.ts";
import { CALL_MARKER } from "./environment.ts";
import {
  type OutputHead,
  outputHead,
  type Pipe,
  readPipe,
  STDERR_HEAD_BYTES,
  statusOfStderr,
  stderrTail,
} from "./pipe.ts";

const NO_BYTES = new Uint8Array();
/** Longest delay of a timer; a timer with a longer delay fires at once. */
const TIMER_MS_MAX = 2_147_483_647;
/** Longest wait for a supervisor to end all its processes. After it, they are killed directly. */
const SUPERVISOR_WAIT_MS = 800;
/** Sent to a supervisor once the output has been read. */
const DRAINED = "d";
/** Attempts to raise a child's OOM score, and the pause between them: just after a start, it may fail. */
const OOM_SCORE_ATTEMPTS_MAX = 50;
const OOM_SCORE_PAUSE_MS = 2;
const KILL_WAIT_MS = 300;
/** Bytes at the start of each stream that the tool's author sees. */
const OBSERVED_BYTES_MAX = 65_536;
/** Longest wait for the pipes to close after the child has ended: once before its group is killed, once after. */
const PIPE_GRACE_MS = 200;

export interface ChildSpec {
  readonly command: string;
  readonly argv: readonly string[];
  readonly options: readonly string[];
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Unique to this child; its descendants inherit it. */
  readonly marker: string;
  /** Bytes of output that are kept; the rest is read and discarded. */
  readonly stdoutBytesMax: number;
  /** True when stderr is part of the output, in the order in which both arrive. */
  readonly mergesStderr?: boolean | undefined;
  /** Literals in stderr that give a failure's meaning when the exit code does not. */
  readonly stderrMeans: readonly StderrMeaning[];
  /** True when the end of stderr is kept, to be returned after filtering. */
  readonly keepsStderr?: boolean | undefined;
  /** Receives how the child ended, with the beginnings of its output. */
  readonly observe?: TargetObserver | undefined;
  /** Called before the program starts. When it throws, the program does not start. */
  readonly onStart?: (() => void) | undefined;
  readonly timeoutMs: number;
  /** Time between SIGTERM and SIGKILL after `timeoutMs`; without it, SIGKILL comes at once. */
  readonly endGraceMs?: number | undefined;
  readonly signals: readonly AbortSignal[];
  /** Confines the child; without it, only its user's permissions restrict it. */
  readonly sandbox?: Sandbox | undefined;
  readonly memory?: CommandMemory | undefined;
}

/**
 * Runs one program until it ends. Resolves at most one second after the deadline and its grace, after killing everything
 * that the program started. Rejects only for an argv that must never run, and with what `onStart` throws.
 *
 * @throws {Refusal} INTERNAL when the argv fails the last check
 */
export async function runChild(spec: ChildSpec): Promise<ChildResult> {
  const fault = isAbsolute(spec.command) ? argvFault(spec.argv, spec.options) : "the command is not an absolute path";
  if (fault !== undefined) throw unbuildable(fault);
  const aborted = spec.signals.find((signal) => signal.aborted);
  if (aborted !== undefined) return notStarted(endingOfAbort(aborted));
  if (!(spec.timeoutMs > 0)) return notStarted({ kind: "deadline" });
  const memoryBytesMax = spec.memory?.bytesMax() ?? COMMAND_BYTES_MAX;
  spec.onStart?.();
  let child: Child;
  try {
    child = spawn(spec, memoryBytesMax);
  } catch (cause) {
    return notStarted({ kind: "spawnError", cause });
  }
  const halt = createHalt(child, spec.endGraceMs);
  const watched = { session: child.pid, isLeaderCounted: child.supervisor === undefined, bytesMax: memoryBytesMax };
  const unwatch = spec.memory?.watch(watched, () => halt.stop({ kind: "memoryBound", memoryBytesMax }));
  try {
    return await waitForEnd(child, spec, halt);
  } finally {
    unwatch?.();
  }
}

type Child = Pick<
  Bun.ReadableSubprocess,
  "pid" | "stdout" | "stderr" | "exited" | "exitCode" | "signalCode" | "unref"
> & {
  /** Set when `pid` is a supervisor, which exits with the program's status after all processes have ended. */
  readonly supervisor?: Supervisor | undefined;
};

interface Supervisor {
  /** Notifies the supervisor that all output has been read. */
  drained(): void;
  /** Sends SIGTERM to all its processes. */
  terminate(): void;
  /** Kills all its processes, after which the supervisor ends. */
  end(): void;
}

function spawn(spec: ChildSpec, memoryBytesMax: number): Child {
  const { command, argv, cwd, environment: declared, marker, sandbox, timeoutMs } = spec;
  const environment = { ...declared, [CALL_MARKER]: marker };
  if (sandbox !== undefined) {
    const launched = sandbox.launch({ command, argv, cwd, environment }, { timeoutMs, memoryBytesMax });
    return sandbox.isSupervised ? supervised(launched) : launched;
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
  lowerPriority(child.pid);
  raiseOomScoreSoon(child, OOM_SCORE_ATTEMPTS_MAX);
  return child;
}

function raiseOomScoreSoon(child: Pick<Bun.Subprocess, "pid" | "exitCode" | "signalCode">, attempts: number): void {
  if (attempts === 0 || child.exitCode !== null || child.signalCode !== null || raiseOomScore(child.pid)) return;
  setTimeout(() => raiseOomScoreSoon(child, attempts - 1), OOM_SCORE_PAUSE_MS).unref();
}

function supervised(launched: Launched): Child {
  const { pid, stdin, stdout, stderr, exited } = launched;
  const send = (byte: string): void =>
    ignoringErrors(async () => {
      await stdin.write(byte);
      await stdin.flush();
    });
  return {
    pid,
    stdout,
    stderr,
    exited,
    get exitCode() {
      return launched.exitCode;
    },
    get signalCode() {
      return launched.signalCode;
    },
    unref: () => launched.unref(),
    supervisor: {
      drained: () => send(DRAINED),
      terminate: () => send(TERMINATE),
      end: () => ignoringErrors(async () => await stdin.end()),
    },
  };
}

/** Ignores errors: a supervisor that has already ended cannot be written to, which is harmless. */
function ignoringErrors(write: () => Promise<unknown>): void {
  write().catch(() => {});
}

async function waitForEnd(child: Child, spec: ChildSpec, halt: Halt): Promise<ChildResult> {
  const stopListening = listenForStops(spec, halt);
  const onError = (cause: unknown) => halt.stop({ kind: "spawnError", cause });
  const out = outputHead(spec.stdoutBytesMax);
  const err = outputHead(spec.stderrMeans.length === 0 && spec.sandbox === undefined ? 0 : STDERR_HEAD_BYTES);
  const tail = spec.keepsStderr === true ? stderrTail() : undefined;
  const observed = spec.observe && { stdout: outputHead(OBSERVED_BYTES_MAX), stderr: outputHead(OBSERVED_BYTES_MAX) };
  const onStdout = (chunk: Uint8Array): void => {
    out.add(chunk);
    observed?.stdout.add(chunk);
  };
  const stdout = readPipe(child.stdout, onStdout, onError);
  const onStderr = (chunk: Uint8Array): void => {
    err.add(chunk);
    tail?.add(chunk);
    observed?.stderr.add(chunk);
    if (spec.mergesStderr === true) out.add(chunk);
  };
  const stderr = readPipe(child.stderr, onStderr, onError);
  if (child.supervisor !== undefined)
    Promise.all([stdout.ended, stderr.ended]).then(child.supervisor.drained, () => {});
  await Promise.race([child.exited, halt.stopped]);
  // The deadline and cancellation apply until the child ends. After that, only the grace period limits its pipes.
  stopListening();
  const { survivors, isCut } = await cleanUp(child, { stdout, stderr, halt, spec });
  if (observed !== undefined) reportChild(spec, halt.ending() ?? endingOfExit(child), observed);
  const cause = launchError(err, spec.sandbox);
  if (cause !== undefined && halt.ending() === undefined) return notStarted({ kind: "spawnError", cause });
  return {
    ending: halt.ending() ?? endingOfExit(child),
    started: true,
    stdout: out.kept(),
    truncated: isCut || out.bytes() > spec.stdoutBytesMax,
    stderrBytes: err.bytes(),
    stderrTail: tail?.lines() ?? NO_BYTES,
    stderrStatus: statusOfStderr(err.kept(), spec.stderrMeans),
    survivors,
  };
}

function reportChild(
  { command, argv, sandbox, observe }: ChildSpec,
  ending: Ending,
  { stdout, stderr }: { readonly stdout: OutputHead; readonly stderr: OutputHead },
): void {
  const { kind, ...details } = ending;
  const secret = sandbox && Buffer.from(sandbox.token);
  observe?.("process", {
    argv: [command, ...argv],
    ended: kind,
    ...details,
    stdout: stdout.kept(),
    stdoutBytes: stdout.bytes(),
    stderr: withoutToken(stderr.kept(), secret),
    stderrBytes: stderr.bytes(),
  });
}

/** Returns the text of a launcher's error without the word that proves where it comes from. */
function withoutToken(stderr: Uint8Array, token: Buffer | undefined): Uint8Array {
  const isLauncher = token !== undefined && Buffer.from(stderr.subarray(0, token.length)).equals(token);
  return isLauncher ? stderr.subarray(token.length + 1) : stderr;
}

/** Returns the error of a launcher that could not start the program. A program cannot forge one without the token. */
function launchError(err: OutputHead, sandbox: Sandbox | undefined): Error | undefined {
  if (sandbox === undefined) return undefined;
  const text = Buffer.from(err.kept()).toString("utf8");
  return text.startsWith(`${sandbox.token} `) ? new Error(text.slice(sandbox.token.length + 1)) : undefined;
}

interface RunningChild {
  readonly stdout: Pipe;
  readonly stderr: Pipe;
  readonly halt: Halt;
  readonly spec: ChildSpec;
}

/**
 * Waits for the pipes, kills the group and the descendants outside it, and cancels the readers. Returns the number of
 * descendants that had left the group; `isCut` means that the child ended but its pipes could not be read to the end.
 */
async function cleanUp(
  child: Child,
  { stdout, stderr, halt, spec }: RunningChild,
): Promise<{ readonly survivors: number; readonly isCut: boolean }> {
  const drained = Promise.all([stdout.ended, stderr.ended]);
  if (child.supervisor !== undefined) await endedWithin(child.exited, SUPERVISOR_WAIT_MS);
  const isClean =
    halt.ending() === undefined && (await endedWithin(drained, PIPE_GRACE_MS)) && halt.ending() === undefined;
  const hasEnded = child.exitCode !== null || child.signalCode !== null;
  // An ended supervisor leaves no processes, and its process id may belong to another process now.
  if (child.supervisor === undefined || !hasEnded) killGroup(child.pid);
  if (isClean && !mayHaveLeft(spec)) return { survivors: 0, isCut: false };
  const survivors = await (spec.sandbox === undefined
    ? killStrays(spec.marker, child.pid)
    : killSession(child.pid, hasEnded));
  if (isClean) return { survivors, isCut: false };
  // A killed descendant may have held the pipes open. If the output is needed, wait once more.
  const isCut = halt.ending() === undefined && !(await endedWithin(drained, PIPE_GRACE_MS));
  await endedWithin(child.exited, KILL_WAIT_MS);
  stdout.cancel();
  stderr.cancel();
  child.unref();
  return { survivors, isCut };
}

/**
 * Returns true when descendants may have left the process group: a confined shell can leave its group but not its
 * session, any other confined child neither, and an unconfined script both.
 */
function mayHaveLeft({ sandbox, mergesStderr }: ChildSpec): boolean {
  return sandbox === undefined ? mergesStderr === true : sandbox.isSupervised;
}

interface Halt {
  /** Ends the child and its group; only the first reason is kept. */
  stop(ending: Ending): void;
  ending(): Ending | undefined;
  readonly stopped: Promise<void>;
}

function createHalt({ pid, exited, supervisor }: Child, endGraceMs = 0): Halt {
  const { promise, resolve } = Promise.withResolvers<void>();
  let reason: Ending | undefined;
  const terminate = (): void => (supervisor === undefined ? killGroup(pid, "SIGTERM") : supervisor.terminate());
  const end = (): void => {
    if (supervisor === undefined) killGroup(pid);
    else supervisor.end();
    resolve();
  };
  return {
    stop(ending) {
      const isFirst = reason === undefined;
      reason ??= ending;
      if (isFirst && ending.kind === "deadline" && endGraceMs > 0) {
        terminate();
        // A child that has ended is cleaned up: its process id may belong to another process now.
        endedWithin(exited, endGraceMs).then((hasEnded) => (hasEnded ? resolve() : end()));
        // After the deadline, only a more urgent reason ends the grace.
      } else if (isFirst || ending.kind !== "deadline") end();
    },
    ending: () => reason,
    stopped: promise,
  };
}

function listenForStops({ timeoutMs, signals }: ChildSpec, halt: Halt): () => void {
  const timer = setTimeout(
    () => halt.stop({ kind: "deadline", timeoutMs: Math.floor(timeoutMs) }),
    Math.min(timeoutMs, TIMER_MS_MAX),
  );
  const listeners = signals.map((signal) => ({ signal, onAbort: () => halt.stop(endingOfAbort(signal)) }));
  for (const { signal, onAbort } of listeners) signal.addEventListener("abort", onAbort, { once: true });
  return () => {
    clearTimeout(timer);
    for (const { signal, onAbort } of listeners) signal.removeEventListener("abort", onAbort);
  };
}

function endingOfExit({ signalCode, exitCode }: Child): Ending {
  return signalCode === null ? { kind: "exit", code: exitCode ?? -1 } : { kind: "signal", signal: String(signalCode) };
}

function notStarted(ending: Ending): ChildResult {
  return {
    ending,
    started: false,
    stdout: NO_BYTES,
    truncated: false,
    stderrBytes: 0,
    stderrTail: NO_BYTES,
    stderrStatus: undefined,
    survivors: 0,
  };
}
