import { readdirSync, readFileSync, readSync, writeSync } from "node:fs";
import { getPriority } from "node:os";
import {
  ALL_DESCRIPTORS,
  CALL,
  type CLibrary,
  cLibrary,
  cString,
  orThrow,
  pointerTable,
  pointerTo,
} from "./c-library.ts";
import type { SystemCall } from "./call-list.ts";
import { filterProgram, type SeccompOptions } from "./filter.ts";
import { buildRuleset, enterSignalScope, restrictCalls } from "./landlock.ts";
import { type LaunchRequest, type Program, READING } from "./launchers.ts";
import { PRIORITY, raiseOomScore } from "./priority.ts";
import { report } from "./probe.ts";
import { supervise } from "./supervisor.ts";

/**
 * A process that waits for its request, confines itself, and then becomes the program. It starts in `/` with only the
 * runtime's settings in its environment, so that it reads no other files before the rules apply.
 */

const REQUEST_BYTES_MAX = 16_777_216;
const CHUNK_BYTES = 65_536;
const LINE_FEED = 0x0a;
/** Exit code of shells for a program that cannot be run. The service relies on the token on stderr instead. */
const CANNOT_RUN = 126;

const PR_SET_PDEATHSIG = 1;
const PR_SET_SECCOMP = 22;
const PR_CAPBSET_DROP = 24;
const PR_SET_NO_NEW_PRIVS = 38;
const PR_CAP_AMBIENT = 47;
const SECCOMP_MODE_FILTER = 2n;
const CAP_AMBIENT_CLEAR_ALL = 4n;
const SIGKILL = 9n;

const RLIMIT_CPU = 0;
const RLIMIT_FSIZE = 1;
const RLIMIT_DATA = 2;
const RLIMIT_CORE = 4;
const RLIMIT_NPROC = 6;
const FILE_BYTES_MAX = 1_073_741_824;
/** Limit for all processes of the user, including the service's own threads. */
const PROCESSES_MAX = 4_096;

/** Refers to the process that opens it, so the supervisor and the program see different directories. */
const OWN_PROCESS = "/proc/self";

const CAPABILITY_VERSION_3 = 0x20080522;
const CAPABILITY_LAST = 63;
/** The only capability that root keeps: without it, files of other users in the granted paths would be inaccessible. */
const CAP_DAC_OVERRIDE = 1;

const SIGSTOP = 19n;
const SIG_DFL = 0n;
const SIG_SETMASK = 2;
const SIGNAL_LAST = 64;
const SIGNAL_SET_BYTES = 128;
/** Sizes of the kernel's signal action and signal set. */
const SIGNAL_ACTION_BYTES = 32;
const SIGNAL_MASK_BYTES = 8n;
const CLOSE_RANGE_CLOEXEC = 4n;
const O_RDWR = 2;
const MADV_DONTNEED = 4n;

const THREADS = "/proc/self/task";
const THREADS_TICK_MS = 1;
/** Maximum ticks that the launcher waits. */
const THREADS_TICKS_MAX = 5_000;

interface Prepared {
  /** All filters by their options, prepared because building one takes a millisecond. */
  readonly filters: ReadonlyMap<string, Uint8Array>;
  /** Nice value of the program: at least that of the service. */
  readonly priority: number;
}

/** Does all work that needs no request, while no call waits. */
function prepare(c: CLibrary): Prepared {
  orThrow(c.prctl(PR_SET_PDEATHSIG, SIGKILL, 0n, 0n, 0n), c.errno, "PR_SET_PDEATHSIG");
  raiseOomScore(0);
  limit(c, RLIMIT_CORE, 0);
  limit(c, RLIMIT_FSIZE, FILE_BYTES_MAX);
  limit(c, RLIMIT_NPROC, PROCESSES_MAX);
  if (c.getuid() === 0) dropCapabilities(c);
  orThrow(c.prctl(PR_SET_NO_NEW_PRIVS, 1n, 0n, 0n, 0n), c.errno, "PR_SET_NO_NEW_PRIVS");
  // Warms up the code that the request will need.
  buildRuleset(c, [{ path: "/", access: "read" }], []).drop();
  pointerTable([""]);
  const filters = new Map<string, Uint8Array>();
  for (const network of [false, true]) {
    for (const writes of [false, true]) {
      for (const groups of [false, true]) {
        filters.set(nameOf({ network, writes, groups }), filterProgram({ network, writes, groups }));
      }
    }
  }
  return { filters, priority: Math.max(PRIORITY, getPriority()) };
}

function nameOf({ network, writes, groups }: SeccompOptions): string {
  return `${network} ${writes} ${groups}`;
}

/**
 * Releases the pages of the runtime's code, which the kernel would release when the program starts. The few that are
 * still needed are loaded again. This also keeps waiting launchers small.
 */
function releaseCode(c: CLibrary): void {
  for (const line of readFileSync("/proc/self/maps", "latin1").split("\n")) {
    const [, from, to] = /^([0-9a-f]{1,16})-([0-9a-f]{1,16}) r-xp [^/]*\//.exec(line) ?? [];
    if (from === undefined || to === undefined) continue;
    const start = BigInt(`0x${from}`);
    c.numbers(CALL.madvise, start, BigInt(`0x${to}`) - start, MADV_DONTNEED, 0n, 0n, 0n);
  }
}

/**
 * Waits until the runtime's other threads have started and sleep. A thread that starts after RLIMIT_DATA is set cannot
 * allocate, and aborts the process; on a busy machine, threads start late.
 */
function awaitThreads(): void {
  for (let tick = 0; tick < THREADS_TICKS_MAX && awakeThreads() > 1; tick += 1) Bun.sleepSync(THREADS_TICK_MS);
}

/** Returns the number of threads that are not sleeping, including the calling thread. */
function awakeThreads(): number {
  try {
    return readdirSync(THREADS).filter((thread) => {
      const stat = readFileSync(`${THREADS}/${thread}/stat`, "latin1");
      // The thread name before the state may contain any character.
      return stat[stat.lastIndexOf(")") + 2] !== "S";
    }).length;
  } catch {
    // A thread has ended meanwhile, or there is no /proc: continue without waiting.
    return 1;
  }
}

/** Reads the request. Exits silently when it is missing or too long: an error needs the token in it. */
function readRequest(): LaunchRequest {
  const parts: Buffer[] = [];
  let bytes = 0;
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  for (let isComplete = false; !isComplete; ) {
    const count = readSync(0, chunk);
    if (count === 0) break;
    parts.push(Buffer.from(chunk.subarray(0, count)));
    bytes += count;
    isComplete = chunk[count - 1] === LINE_FEED;
    if (bytes > REQUEST_BYTES_MAX) process.exit(CANNOT_RUN);
  }
  // The service has ended or no longer needs this launcher.
  if (bytes === 0) process.exit(0);
  return JSON.parse(Buffer.concat(parts).toString("utf8")) as LaunchRequest;
}

function confine(c: CLibrary, request: LaunchRequest, { filters, priority }: Prepared): void {
  if (c.getppid() !== request.parent) throw new Error("the service has ended");
  c.numbers(CALL.setpriority, 0n, 0n, BigInt(priority), 0n, 0n, 0n);
  if (request.keepsInput === true) writeSync(2, `${request.token} ${READING}\n`);
  else orThrow(c.dup2(openNull(c), 0), c.errno, "dup2");
  limit(c, RLIMIT_CPU, request.cpuSeconds);
  const ruleset = buildRuleset(c, request.grants, request.ports);
  const filter = filterFor(request, filters);
  orThrow(c.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter, 0n, 0n), c.errno, "seccomp");
  ruleset.restrictSelf();
}

function openNull(c: CLibrary): number {
  return orThrow(c.open(cString("/dev/null"), O_RDWR, 0), c.errno, "/dev/null");
}

/** Returns the address of the filter in the kernel's form, `struct sock_fprog`. */
function filterFor({ filter: options }: LaunchRequest, filters: ReadonlyMap<string, Uint8Array>): bigint {
  const filter = filters.get(nameOf(options));
  if (filter === undefined) throw new Error("there is no such filter");
  const header = new DataView(new ArrayBuffer(16));
  header.setUint16(0, filter.byteLength / 8, true);
  header.setBigUint64(8, BigInt(pointerTo(filter)), true);
  return BigInt(pointerTo(new Uint8Array(header.buffer)));
}

function limit(c: CLibrary, resource: number, value: number): void {
  // Fails for a limit that is already lower, which is fine.
  c.setrlimit(resource, pointerTo(limitOf(value)));
}

function limitOf(value: number): BigUint64Array {
  return new BigUint64Array([BigInt(value), BigInt(value)]);
}

function dropCapabilities(c: CLibrary): void {
  c.prctl(PR_CAP_AMBIENT, CAP_AMBIENT_CLEAR_ALL, 0n, 0n, 0n);
  for (let capability = 0; capability <= CAPABILITY_LAST; capability += 1) {
    if (capability !== CAP_DAC_OVERRIDE) c.prctl(PR_CAPBSET_DROP, BigInt(capability), 0n, 0n, 0n);
  }
  const header = new Uint32Array([CAPABILITY_VERSION_3, 0]);
  const kept = 1 << CAP_DAC_OVERRIDE;
  const body = new Uint32Array([kept, kept, 0, 0, 0, 0]);
  if (c.capset(CALL.capset, pointerTo(header), pointerTo(body)) === 0) return;
  // A container may have dropped CAP_DAC_OVERRIDE, too.
  const none = new Uint32Array(6);
  orThrow(c.capset(CALL.capset, pointerTo(header), pointerTo(none)), c.errno, "capset");
}

function imageOf({ command, argv, environment }: Program) {
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  return { path: cString(command), tokens: pointerTable([command, ...argv]), variables: pointerTable(variables) };
}

function execProgram(c: CLibrary, program: Program, dataBytes: number): never {
  const { path, tokens, variables } = imageOf(program);
  const { cwd } = program;
  orThrow(c.chdir(cString(cwd)), c.errno, "the working directory cannot be entered");
  const mask = new Uint8Array(SIGNAL_SET_BYTES);
  // The runtime ignores SIGPIPE; a program that inherited this would keep writing when nobody reads.
  for (let signal = 1; signal <= SIGNAL_LAST; signal += 1) c.signal(signal, SIG_DFL);
  c.sigprocmask(SIG_SETMASK, pointerTo(mask), null);
  c.numbers(CALL.closeRange, 3n, ALL_DESCRIPTORS, CLOSE_RANGE_CLOEXEC, 0n, 0n, 0n);
  // Must come last: the runtime has already reserved more than this limit and can allocate nothing afterwards.
  limit(c, RLIMIT_DATA, dataBytes);
  c.execve(path, tokens, variables);
  throw new Error(`execve (errno ${c.errno()})`);
}

/** Confines and starts the program in a new process. This process stays to end everything that the program starts. */
function superviseProgram(
  c: CLibrary,
  request: LaunchRequest,
  { program, filters, priority }: Prepared & { program: Program },
): never {
  // The supervisor must outlive the service for a moment. The end of its standard input shows that the service has ended.
  orThrow(c.prctl(PR_SET_PDEATHSIG, 0n, 0n, 0n, 0n), c.errno, "PR_SET_PDEATHSIG");
  if (c.getppid() !== request.parent) throw new Error("the service has ended");
  const nullDevice = openNull(c);
  const filter = filterFor(request, filters);
  const { path, tokens, variables } = imageOf(program);
  const otherGrants = request.grants.filter((grant) => grant.path !== OWN_PROCESS);
  const ruleset = buildRuleset(c, otherGrants, request.ports);
  const call = (what: string, number: bigint, ...args: readonly bigint[]): SystemCall => ({ what, number, args });
  const limitCall = (resource: number, value: number): SystemCall =>
    call("prlimit", CALL.prlimit, 0n, BigInt(resource), BigInt(pointerTo(limitOf(value))), 0n);
  const handlers = BigInt(pointerTo(new Uint8Array(SIGNAL_ACTION_BYTES)));
  const signals = Array.from({ length: SIGNAL_LAST }, (_, index) => BigInt(index + 1)).filter(
    (signal) => signal !== SIGKILL && signal !== SIGSTOP,
  );
  const noSignal = BigInt(pointerTo(new Uint8Array(SIGNAL_SET_BYTES)));
  const [openOwn, addOwn, restrict] = restrictCalls(ruleset, OWN_PROCESS);
  return supervise(c, {
    control: 0,
    enterDomain: () => enterSignalScope(c),
    onStarted() {
      ruleset.drop();
      c.dup2(nullDevice, 1);
      c.dup2(nullDevice, 2);
    },
    program: [
      call("PR_SET_PDEATHSIG", CALL.prctl, BigInt(PR_SET_PDEATHSIG), SIGKILL),
      call("setpgid", CALL.setpgid, 0n, 0n),
      call("setpriority", CALL.setpriority, 0n, 0n, BigInt(priority)),
      call("dup2", CALL.dup2, BigInt(nullDevice), 0n),
      limitCall(RLIMIT_CPU, request.cpuSeconds),
      limitCall(RLIMIT_DATA, request.dataBytes),
      openOwn,
      addOwn,
      ...signals.map((signal) => call("rt_sigaction", CALL.rtSigaction, signal, handlers, 0n, SIGNAL_MASK_BYTES)),
      call("rt_sigprocmask", CALL.rtSigprocmask, BigInt(SIG_SETMASK), noSignal, 0n, SIGNAL_MASK_BYTES),
      call("close_range", CALL.closeRange, 3n, ALL_DESCRIPTORS, CLOSE_RANGE_CLOEXEC),
      call("seccomp", CALL.prctl, BigInt(PR_SET_SECCOMP), SECCOMP_MODE_FILTER, filter),
      restrict,
      call("the working directory cannot be entered", CALL.chdir, BigInt(cString(program.cwd))),
      call("execve", CALL.execve, BigInt(path), BigInt(tokens), BigInt(variables)),
    ],
  });
}

function launch(): void {
  const c = cLibrary();
  const prepared = prepare(c);
  awaitThreads();
  releaseCode(c);
  const request = readRequest();
  try {
    if (request.task.kind === "program" && request.isSupervised === true) {
      superviseProgram(c, request, { ...prepared, program: request.task });
    }
    confine(c, request, prepared);
    if (request.task.kind === "program") execProgram(c, request.task, request.dataBytes);
    writeSync(1, JSON.stringify(report(c, request.task, request.parent)));
    process.exit(0);
  } catch (error) {
    writeSync(2, `${request.token} ${error instanceof Error ? error.message : "unknown"}`);
    process.exit(CANNOT_RUN);
  }
}

launch();
