import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type {
  ServerOutput,
  ServerProcess,
  ServerProcesses,
  ServerProcessOptions,
  ServerProgram,
} from "../../../core/server-process.ts";
import { isBelow } from "../../../core/target-kind.ts";
import { endedWithin } from "../../../core/time-limits.ts";
import { COMMAND_BYTES_MAX, commandMemory } from "../command-memory.ts";
import { killGroup, killSession, killStrays } from "../descendants.ts";
import { CALL_MARKER, childEnvironment, findProgram } from "../environment.ts";
import { readPipe } from "../pipe.ts";
import { confinementProblem, probeRules } from "./confinement.ts";
import { type ChildRules, createLaunchers, type Launched, READING } from "./launchers.ts";
import { lowerPriority } from "./priority.ts";
import { type Confined, grantsOf, portsOf } from "./profile.ts";
import { makeTemporaryDirectory, type TemporaryDirectory } from "./temporary-directory.ts";

/** Processes that serve many calls over standard input and output, confined as commands are. */

/** CPU seconds of one process, over all its threads. A server that has used them is ended and started again. */
const CPU_SECONDS = 86_400;
const DATA_BYTES_MIN = 1_073_741_824;
const DATA_PER_MEMORY = 2;
const KILL_WAIT_MS = 1_000;
/** Time for a program to end by itself after its input was closed. */
const STOP_WAIT_MS = 1_000;
const PIPE_GRACE_MS = 200;
/** Bytes of the launcher's first line on standard error. */
const FIRST_LINE_BYTES_MAX = 4_096;
const LINE_FEED = 0x0a;
const CANNOT_RUN = 126;
const CANNOT_RUN_REASON =
  "exit 126: the program cannot be run; for a script, command is the interpreter that its first line names, and the script an argument";

export function serverProcesses({ memoryBytesMax, newId }: ServerProcessOptions): ServerProcesses {
  const launchers = createLaunchers(0);
  const memory = commandMemory(memoryBytesMax);
  const running = new Set<ServerProcess>();

  return {
    find: findProgram,
    installedIn: (command) => dirname(dirname(realPathOf(command) ?? command)),
    overlapping({ reads, writes }, ownPaths) {
      const granted = [...reads, ...writes].flatMap((path) => realPathOf(path) ?? []);
      return ownPaths.filter(({ path: own }) => granted.some((path) => isBelow(own, path) || isBelow(path, own)));
    },
    async problem(program) {
      return confinementProblem() ?? (await probeRules(launchers, rulesOf(program, undefined), newId()));
    },
    start(program, isConfined, output) {
      const bytesMax = memory.bytesMax();
      const token = newId();
      const directory = isConfined ? makeTemporaryDirectory() : plainDirectory();
      const { path } = directory;
      const environment = {
        ...childEnvironment({ emptyDirectory: path }, { TMPDIR: path, ...program.environment }),
        [CALL_MARKER]: token,
      };
      let child: Launched;
      try {
        child = isConfined
          ? launchers.launch({
              ...rulesOf(program, path),
              token,
              parent: process.pid,
              keepsInput: true,
              cpuSeconds: CPU_SECONDS,
              dataBytes: Math.max(DATA_BYTES_MIN, DATA_PER_MEMORY * bytesMax),
              task: { kind: "program", command: program.command, argv: program.argv, cwd: path, environment },
            })
          : spawnUnconfined(program, path, environment);
      } catch (error) {
        void directory.remove(newId).catch(() => {});
        throw error;
      }
      const watched = { session: child.pid, isLeaderCounted: true, bytesMax: Math.min(bytesMax, COMMAND_BYTES_MAX) };
      const unwatch = memory.watch(watched, () => killGroup(child.pid));
      const started = withPipes(child, { token, isConfined, output });
      const killed = once(async () => {
        unwatch();
        killGroup(child.pid);
        await (isConfined ? killSession(child.pid, hasEnded(child)) : killStrays(token, child.pid));
        await endedWithin(child.exited, KILL_WAIT_MS);
        child.unref();
        running.delete(server);
        // Ignores files that cannot be removed: no other user can enter the directory.
        await directory.remove(newId).catch(() => {});
      });
      const stop = async (): Promise<void> => {
        if (!hasEnded(child)) await endedWithin(Promise.all([closeInput(child), child.exited]), STOP_WAIT_MS);
        await killed();
      };
      const server: ServerProcess = { ...started, stop, kill: killed };
      running.add(server);
      // What a server leaves running when it ends by itself is ended with it.
      void child.exited.then(killed, killed);
      return server;
    },
    async close() {
      await Promise.all([...running].map((server) => server.stop()));
      launchers.close();
    },
  };
}

function realPathOf(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

function rulesOf({ command, reads, writes, network }: ServerProgram, temporary: string | undefined): ChildRules {
  const confined: Confined = {
    level: "confined",
    reads,
    writes,
    network,
    runs: "system",
    temporaryDirectory: temporary !== undefined,
  };
  return {
    grants: grantsOf(confined, { command, temporary }),
    ports: portsOf(confined),
    filter: { network: network !== null, writes: true, groups: false },
  };
}

function plainDirectory(): TemporaryDirectory {
  const path = mkdtempSync(join(realpathSync(tmpdir()), "safe-tool-call-server-"));
  return { path, remove: async () => rmSync(path, { recursive: true, force: true }) };
}

function spawnUnconfined(
  { command, argv }: ServerProgram,
  cwd: string,
  env: Readonly<Record<string, string>>,
): Launched {
  const options = { cwd, env, stdin: "pipe", stdout: "pipe", stderr: "pipe", detached: true } as const;
  const child = Bun.spawn({ cmd: [command, ...argv], ...options });
  lowerPriority(child.pid);
  return child;
}

interface Started {
  readonly token: string;
  readonly isConfined: boolean;
  readonly output: ServerOutput;
}

function withPipes(child: Launched, { token, isConfined, output }: Started): Omit<ServerProcess, "kill" | "stop"> {
  const { promise: ready, resolve, reject } = Promise.withResolvers<void>();
  // The caller may give up before it awaits this.
  ready.catch(() => {});
  const onError = (): void => killGroup(child.pid);
  const stdout = readPipe(child.stdout, output.stdout, onError);
  const first: Uint8Array[] = [];
  let isReady = !isConfined;
  if (isReady) resolve();
  const readFirstLine = (chunk: Uint8Array): void => {
    first.push(chunk);
    const bytes = Buffer.concat(first);
    const end = bytes.indexOf(LINE_FEED);
    if (end === -1 && bytes.length < FIRST_LINE_BYTES_MAX) return;
    isReady = true;
    const line = bytes.subarray(0, Math.max(end, 0)).toString("utf8");
    if (line === `${token} ${READING}`) resolve();
    else reject(new Error("the launcher gave no sign"));
    if (bytes.length > end + 1) output.stderr(bytes.subarray(end + 1));
  };
  const stderr = readPipe(child.stderr, (chunk) => (isReady ? output.stderr(chunk) : readFirstLine(chunk)), onError);
  let flushing: Promise<void> | undefined;
  const ended = child.exited.then(async () => {
    const isDrained = await endedWithin(Promise.all([stdout.ended, stderr.ended]), PIPE_GRACE_MS);
    if (!isDrained) killGroup(child.pid);
    stdout.cancel();
    stderr.cancel();
    const text = Buffer.concat(first).toString("utf8").replace(`${token} `, "");
    if (!isReady) reject(new Error(text.trim() || "it ended before it began"));
    if (child.signalCode !== null) return `signal ${child.signalCode}`;
    return isConfined && child.exitCode === CANNOT_RUN ? CANNOT_RUN_REASON : `exit ${child.exitCode ?? -1}`;
  });
  return {
    ready,
    ended,
    async write(bytes) {
      if (hasEnded(child)) throw new Error("the program has ended");
      child.stdin.write(bytes);
      // What is written in one turn of the event loop is sent together.
      flushing ??= Promise.resolve().then(async () => {
        flushing = undefined;
        await child.stdin.flush();
      });
      try {
        await flushing;
      } catch (error) {
        // A program that has just ended does not read its input; the reason why it ended says more.
        if (!(await endedWithin(child.exited, PIPE_GRACE_MS))) throw error;
        throw new Error(`the program has ended: ${await ended}`);
      }
    },
  };
}

async function closeInput({ stdin }: Launched): Promise<void> {
  await stdin.end();
}

function hasEnded({ exitCode, signalCode }: Launched): boolean {
  return exitCode !== null || signalCode !== null;
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => {
    done ??= work();
    return done;
  };
}
