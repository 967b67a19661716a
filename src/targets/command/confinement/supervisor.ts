import { ALL_DESCRIPTORS, CALL, type CLibrary, orThrow, pointerTo } from "./c-library.ts";
import { callList, type SystemCall } from "./call-list.ts";

/**
 * Starts a program and stays, to end everything that the program has started at once. The supervisor enters a Landlock
 * domain that no signal leaves. The program runs in a second domain inside it, from which no signal gets to the
 * supervisor. So `kill(-1)` by the supervisor ends everything that the program has started, and nothing else.
 *
 * Without the first domain, `kill(-1)` would end every process of the machine. It is called only right after two
 * processes outside the domain have proved to be unreachable.
 */

const SIGKILL = 9;
const SIGTERM = 15;
/** Byte on `control`: everything that runs gets SIGTERM. Any other byte means that nobody reads more output. */
export const TERMINATE = "t";
const EPERM = 1;

const O_CLOEXEC = 0o2000000n;

const PR_SET_CHILD_SUBREAPER = 36;
const WNOHANG = 1n;
const WALL = 0x40000000n;
const POLLIN = 1;
/** Interval for reaping ended processes while the program runs. */
const REAP_INTERVAL_MS = 100;
/** Grace period after the program's end, in which remaining processes may still write. */
const GRACE_TICK_MS = 5;
const GRACE_TICKS = 40;
/** Longest wait for killed processes to end, in ticks of `GRACE_TICK_MS`. */
const REAP_TICKS = 200;
const SIGNAL_BASE = 128;
const SIGNAL_BITS = 0x7f;
const SIG_DFL = 0n;

export interface Supervised {
  /** Moves this process into the outer domain. */
  enterDomain(): void;
  /** Calls by which the new process becomes the program, in the inner domain. */
  readonly program: readonly SystemCall[];
  /** Descriptor to read: `TERMINATE`, or that nobody reads more output. Its end means that everything must end. */
  readonly control: number;
  onStarted(): void;
}

/** Runs the program and exits with its status. Throws when the program could not be started. */
export function supervise(c: CLibrary, { enterDomain, program, control, onStarted }: Supervised): never {
  if (isReadable(c, control)) exitAs(c, undefined);
  orThrow(c.prctl(PR_SET_CHILD_SUBREAPER, 1n, 0n, 0n, 0n), c.errno, "PR_SET_CHILD_SUBREAPER");
  const probe = startProbe(c);
  enterDomain();
  const list = callList(c, program);
  const pid = list.startProgram();
  const failure = list.failure();
  if (failure !== undefined) {
    release(c, probe);
    throw new Error(failure);
  }
  onStarted();
  const sendAll = (signal: number): void => sendToAll(c, { probe: probe.pid, group: pid, signal });
  const status = waitForProgram(c, pid, { control, terminate: () => sendAll(SIGTERM) });
  sendAll(SIGKILL);
  reapAll(c);
  release(c, probe);
  return exitAs(c, status);
}

interface ProbeProcess {
  readonly pid: number;
  /** The probe ends when this descriptor is closed. */
  readonly descriptor: number;
}

/** Starts a process of the same user outside the domain. It waits on a pipe that nobody writes to. */
function startProbe(c: CLibrary): ProbeProcess {
  const ends = new Int32Array(2);
  const at = pointerTo(ends);
  orThrow(Number(c.numbers(CALL.pipe2, BigInt(at), O_CLOEXEC, 0n, 0n, 0n, 0n)), c.errno, "pipe2");
  const [reading = -1, writing = -1] = ends;
  const buffer = BigInt(pointerTo(new Uint8Array(1)));
  const list = callList(c, [
    { what: "setsid", number: CALL.setsid, args: [] },
    { what: "dup2", number: CALL.dup2, args: [BigInt(reading), 0n] },
    { what: "close_range", number: CALL.closeRange, args: [1n, ALL_DESCRIPTORS, 0n] },
    { what: "read", number: CALL.read, args: [0n, buffer, 1n] },
    { what: "exit", number: CALL.exit, args: [0n] },
  ]);
  const pid = list.startWithoutWaiting();
  c.close(reading);
  return { pid, descriptor: writing };
}

function release(c: CLibrary, { pid, descriptor }: ProbeProcess): void {
  c.close(descriptor);
  c.numbers(CALL.wait4, BigInt(pid), 0n, WALL, 0n, 0n, 0n);
}

interface Control {
  readonly control: number;
  readonly terminate: () => void;
}

/** Waits until the program and all writers have ended, or `control` ends. Returns the program's status. */
function waitForProgram(c: CLibrary, pid: number, { control, terminate }: Control): number | undefined {
  // If `pidfd_open` fails, `poll` ignores the negative descriptor, and reaping detects the end.
  const ended = Number(c.numbers(CALL.pidfdOpen, BigInt(pid), 0n, 0n, 0n, 0n, 0n));
  const polled = new DataView(new ArrayBuffer(16));
  polled.setInt32(0, control, true);
  polled.setInt16(4, POLLIN, true);
  polled.setInt16(12, POLLIN, true);
  const polledAt = BigInt(pointerTo(new Uint8Array(polled.buffer)));
  const byte = new Uint8Array(1);
  const byteAt = BigInt(pointerTo(byte));
  let status: number | undefined;
  let isDrained = false;
  for (let ticks = 0; ticks < GRACE_TICKS; ) {
    polled.setInt32(8, status === undefined ? ended : -1, true);
    const waitMs = BigInt(status === undefined ? REAP_INTERVAL_MS : GRACE_TICK_MS);
    const ready = c.numbers(CALL.poll, polledAt, 2n, waitMs, 0n, 0n, 0n);
    // An interrupted `poll` does not change its result.
    if (ready > 0n && polled.getInt16(6, true) !== 0) {
      if (c.numbers(CALL.read, BigInt(control), byteAt, 1n, 0n, 0n, 0n) <= 0n) return status;
      if (byte[0] === TERMINATE.charCodeAt(0)) terminate();
      else isDrained = true;
    }
    const { statuses, hasMore } = reap(c);
    status ??= statuses.get(pid);
    if (status === undefined) continue;
    if (isDrained || !hasMore) return status;
    ticks += 1;
  }
  return status;
}

/** Returns whether `control` is readable. Before the program runs, that means that it has ended: the call is over. */
function isReadable(c: CLibrary, control: number): boolean {
  const polled = new Int32Array([control, POLLIN]);
  return c.numbers(CALL.poll, BigInt(pointerTo(polled)), 1n, 0n, 0n, 0n, 0n) > 0n;
}

interface Reaped {
  readonly statuses: ReadonlyMap<number, number>;
  /** True when other children are alive. */
  readonly hasMore: boolean;
}

function reap(c: CLibrary): Reaped {
  const status = new Int32Array(1);
  const at = BigInt(pointerTo(status));
  const statuses = new Map<number, number>();
  for (;;) {
    const pid = Number(c.numbers(CALL.wait4, 0xffffffffffffffffn, at, WNOHANG, 0n, 0n, 0n));
    if (pid <= 0) return { statuses, hasMore: pid === 0 };
    statuses.set(pid, status[0] ?? 0);
  }
}

interface Everything {
  readonly probe: number;
  readonly group: number;
  readonly signal: number;
}

/** Sends a signal to everything in the domain or, if the domain does not hold, to the program's process group. */
function sendToAll(c: CLibrary, { probe, group, signal }: Everything): void {
  const isIsolated = isUnreachable(c, c.getppid()) && isUnreachable(c, probe);
  c.kill(isIsolated ? -1 : -group, signal);
}

function isUnreachable(c: CLibrary, pid: number): boolean {
  if (pid <= 0) return false;
  const result = c.kill(pid, 0);
  const errno = c.errno();
  return result === -1 && errno === EPERM;
}

function reapAll(c: CLibrary): void {
  for (let tick = 0; tick < REAP_TICKS; tick += 1) {
    if (!reap(c).hasMore) return;
    c.numbers(CALL.poll, 0n, 0n, BigInt(GRACE_TICK_MS), 0n, 0n, 0n);
  }
}

function exitAs(c: CLibrary, status: number | undefined): never {
  const signal = status === undefined ? SIGKILL : status & SIGNAL_BITS;
  if (signal !== 0) {
    c.signal(signal, SIG_DFL);
    c.kill(process.pid, signal);
  }
  const code = signal === 0 ? ((status ?? 0) >> 8) & 0xff : SIGNAL_BASE + signal;
  c.numbers(CALL.exitGroup, BigInt(code), 0n, 0n, 0n, 0n, 0n);
  throw new Error("the supervisor has not ended");
}
