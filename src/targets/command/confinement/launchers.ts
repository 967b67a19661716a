import { extname, join } from "node:path";
import type { SeccompOptions } from "./filter.ts";

/**
 * The launcher's entry point, beside this code: the source in a clone, a built file in the package. The single binary contains no
 * file that could be run by its path: its entry point (`cli/binary.ts`) knows this name.
 */
export const LAUNCHER = join(import.meta.dir, `launcher${extname(import.meta.path)}`);
/** Command line of a launcher. The options prevent the runtime from reading settings, variables or packages. */
const LAUNCHER_ARGV = [process.execPath, "--no-env-file", "--config=/dev/null", "--no-install", LAUNCHER];

/**
 * Prevents the runtime from starting threads late: after RLIMIT_DATA is set, a new thread cannot allocate and aborts
 * the process. A launcher runs its code once and needs no compiler. Programs do not inherit these settings.
 */
const RUNTIME_SETTINGS = {
  BUN_FEATURE_FLAG_DISABLE_ASYNC_TRANSPILER: "1",
  BUN_JSC_useConcurrentJIT: "0",
  BUN_JSC_useConcurrentGC: "0",
  BUN_JSC_numberOfGCMarkers: "1",
  BUN_JSC_thresholdForJITAfterWarmUp: "1000000",
  BUN_JSC_thresholdForJITSoon: "1000000",
} as const;

/** Delay before a replacement is started, so that the call is answered first. */
const REFILL_AFTER_MS = 5;

/** A file, or a directory with everything below it, that a child may use. */
export interface PathGrant {
  /** Absolute; symbolic links are followed when the child starts. */
  readonly path: string;
  readonly access: "read" | "run" | "write" | "device";
  /** True when the path may be missing. Any other missing path prevents the child from running. */
  readonly optional?: boolean;
}

/** The rules and the filter that a launcher applies to its child. */
export interface ChildRules {
  readonly grants: readonly PathGrant[];
  /** TCP ports that may be connected to. */
  readonly ports: readonly number[];
  readonly filter: SeccompOptions;
}

/** The request to a launcher: one line of JSON on its standard input. Input after this line controls a supervisor. */
export interface LaunchRequest extends ChildRules {
  /** First word of the launcher's message when it fails. The program never sees it. */
  readonly token: string;
  /** Process id of the service. A launcher with another parent is orphaned. */
  readonly parent: number;
  /** CPU time of one process, over all its threads. */
  readonly cpuSeconds: number;
  /** Private writable memory of one process, including reserved memory. */
  readonly dataBytes: number;
  /** True when the launcher stays as the program's supervisor (`supervisor.ts`). */
  readonly isSupervised?: boolean;
  /**
   * True when the program keeps the launcher's standard input. The launcher then writes a line with the token and `READING` to
   * standard error; the program's input may be written only after it.
   */
  readonly keepsInput?: boolean;
  readonly task: ({ readonly kind: "program" } & Program) | ({ readonly kind: "probe" } & Probe);
}

export interface Program {
  readonly command: string;
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string>>;
}

/** Makes the launcher try what must not work, and report the results. */
export interface Probe {
  readonly canary: string;
  readonly port: number;
  readonly readable: string;
}

/** A process that waits for its request, or the program that it has become. The process id stays the same. */
export type Launched = ReturnType<typeof start>;

export interface Launchers {
  /** Sends the request to a waiting launcher, or to a new one. Throws when none can be started. */
  launch(request: LaunchRequest): Launched;
  close(): void;
}

/**
 * Keeps launchers waiting, because starting one takes longer than most commands. Each is used once, and replaced after
 * the program that it became has ended; otherwise both would share a processor.
 */
export function createLaunchers(waitingMax: number): Launchers {
  const waiting: Launched[] = [];
  let isClosed = false;

  function fill(): void {
    while (!isClosed && waiting.length < waitingMax) waiting.push(start());
  }

  function next(): Launched {
    for (;;) {
      const launcher = waiting.shift();
      if (launcher === undefined) return start();
      if (launcher.exitCode === null && launcher.signalCode === null) return launcher;
    }
  }

  function refill(): void {
    const timer = setTimeout(() => {
      try {
        fill();
      } catch {
        // The next call starts its own launcher and reports the error.
      }
    }, REFILL_AFTER_MS);
    timer.unref();
  }

  return {
    launch(request) {
      if (isClosed) throw new Error("the launchers are closed");
      const launcher = next();
      launcher.ref();
      // Ignores errors: the end of a launcher is detected elsewhere.
      send(launcher, request).catch(() => {});
      launcher.exited.then(refill, refill);
      return launcher;
    },
    close() {
      isClosed = true;
      for (const launcher of waiting.splice(0)) launcher.kill("SIGKILL");
    },
  };
}

/** Second word of the line on standard error that ends the launcher's own reading. */
export const READING = "reading";

/** Writes the request. The input stays open for a program that keeps it, and to control a supervisor. */
async function send({ stdin }: Launched, request: LaunchRequest): Promise<void> {
  const written = stdin.write(`${JSON.stringify(request)}\n`);
  const ended = request.isSupervised === true || request.keepsInput === true ? stdin.flush() : stdin.end();
  await Promise.all([written, ended]);
}

function start() {
  const launcher = Bun.spawn({
    cmd: LAUNCHER_ARGV,
    cwd: "/",
    env: RUNTIME_SETTINGS,
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
    detached: true,
  });
  // Waiting launchers must not keep the service from exiting.
  launcher.unref();
  return launcher;
}
