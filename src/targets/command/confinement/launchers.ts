import { join } from "node:path";
import type { Orders } from "./orders.ts";

const LAUNCHER = join(import.meta.dir, "launcher.ts");
/** Command line of a launcher. The options keep the runtime from reading settings, variables or packages from any folder. */
const OURSELVES = [process.execPath, "--no-env-file", "--config=/dev/null", "--no-install", LAUNCHER];

/**
 * Keeps the runtime from starting threads while it takes orders: a thread that starts after RLIMIT_DATA is set cannot allocate,
 * and aborts the process. A launcher runs its code once, so it does not need a compiler. Programs do not inherit these settings.
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

/** A process that waits for orders, or the program that it has become: the process id stays the same. */
export type Launched = ReturnType<typeof start>;

export interface Launchers {
  /** Gives the orders to a waiting launcher, or to a new one. Throws when none can be started. */
  launch(orders: Orders): Launched;
  /** Ends the launchers that still wait. */
  close(): void;
}

/**
 * Starts launchers ahead, because starting one takes longer than most commands. Each is used once, and replaced only after the
 * program that it became has ended; otherwise the two would share a processor.
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
    launch(orders) {
      if (isClosed) throw new Error("the launchers are closed");
      const launcher = next();
      launcher.ref();
      // Writing to a launcher that has already ended fails; its end is detected elsewhere.
      give(launcher, orders).catch(() => {});
      launcher.exited.then(refill, refill);
      return launcher;
    },
    close() {
      isClosed = true;
      for (const launcher of waiting.splice(0)) launcher.kill("SIGKILL");
    },
  };
}

/**
 * Writes the orders as one line. The input of a supervised launcher stays open: the caller controls the supervisor through it.
 */
async function give({ stdin }: Launched, orders: Orders): Promise<void> {
  const written = stdin.write(`${JSON.stringify(orders)}\n`);
  const ended = orders.isSupervised === true ? stdin.flush() : stdin.end();
  await Promise.all([written, ended]);
}

function start() {
  const launcher = Bun.spawn({
    cmd: OURSELVES,
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
