import { join } from "node:path";
import type { Orders } from "./orders.ts";

const LAUNCHER = join(import.meta.dir, "launcher.ts");
/** Nothing of a folder is read: no settings, no variables, no packages. */
const OURSELVES = [process.execPath, "--no-env-file", "--config=/dev/null", "--no-install", LAUNCHER];

/**
 * Keeps the runtime from starting threads while it takes orders: one that begins after RLIMIT_DATA is set cannot allocate, and
 * aborts the process. A launcher runs its code once, so nothing is lost without a compiler; no program inherits this.
 */
const RUNTIME_SETTINGS = {
  BUN_FEATURE_FLAG_DISABLE_ASYNC_TRANSPILER: "1",
  BUN_JSC_useConcurrentJIT: "0",
  BUN_JSC_useConcurrentGC: "0",
  BUN_JSC_numberOfGCMarkers: "1",
  BUN_JSC_thresholdForJITAfterWarmUp: "1000000",
  BUN_JSC_thresholdForJITSoon: "1000000",
} as const;

/** The answer of the call comes first. */
const REFILL_AFTER_MS = 5;

/** A process that waits for orders, or the program that it has become: its pid stays. */
export type Launched = ReturnType<typeof start>;

export interface Launchers {
  /** Gives orders to a launcher that waits, or to a new one. Throws when none can be started. */
  launch(orders: Orders): Launched;
  /** Sends those home that still wait. */
  close(): void;
}

/**
 * Launchers are started ahead, since to start one takes longer than most commands. Each is used once, and replaced after
 * what it became has ended: not before, or the two would share a processor.
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
        // The next call starts its own, and says what is wrong.
      }
    }, REFILL_AFTER_MS);
    timer.unref();
  }

  return {
    launch(orders) {
      if (isClosed) throw new Error("the launchers are closed");
      const launcher = next();
      launcher.ref();
      // One that has ended already does not read; that it has ended is seen elsewhere.
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

/** A launcher reads one line. What a supervisor reads after it is the caller's to write. */
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
  // A service that is done need not wait for those who wait for it.
  launcher.unref();
  return launcher;
}
