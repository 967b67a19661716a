import { createHash } from "node:crypto";
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { isAbsolute } from "node:path";
import { Refusal } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { CUT_MARGIN_BYTES, PartialAnswer } from "../../core/partial-answer.ts";
import { endedWithin } from "../../core/time-limits.ts";
import type {
  Binding,
  ExecutionPlan,
  Handler,
  Json,
  PlanContext,
  PlanDescription,
  RunContext,
  StderrMeaning,
  Tool,
} from "../../core/types.ts";
import { argvFault, type Build, isFreeTextSafe, refuseTooLong } from "./argv.ts";
import { runChild } from "./child.ts";
import { commandMemory } from "./command-memory.ts";
import type { ChildConfinement, Hold } from "./confinement/confinement.ts";
import type { Confined, Unconfined } from "./confinement/profile.ts";
import { type ChildResult, isAnswer, refusalOf } from "./endings.ts";
import { childEnvironment, environmentFaults } from "./environment.ts";
import { LOOKUP_BYTES_MAX, lookUp } from "./lookups.ts";
import { type CliTool, cliTool } from "./manifest.ts";
import { cutTextOf, parseStdout } from "./parser.ts";
import { realDirectory, shellAnswer, shellScene } from "./shell.ts";

/**
 * Longest time between a script's timeout and its call's deadline, in which the output can still be returned. At most a tenth of
 * the time left.
 */
const SCRIPT_END_MS = 1_000;
/**
 * Longest time an answer waits for the removal of the child's temporary directory. A child may leave so many files that it takes
 * longer.
 */
const RELEASE_WAIT_MS = 500;

export interface CliHandlerOptions {
  /** Absolute binaries by command name, resolved at load. No other program ever runs. */
  readonly commands: ReadonlyMap<string, string>;
  /** Absolute path of a private, empty directory: the default working directory and the home of children. */
  readonly emptyDirectory: string;
  /** PATH of children; default `/usr/local/bin:/usr/bin:/bin`. */
  readonly pathVariable?: string;
  /**
   * Checks by command name. A check returns what is wrong with the working directory of a call, for the operator, or `undefined`.
   */
  readonly inspections?: ReadonlyMap<string, (cwd: string) => string | undefined>;
  /** Confines the children; without it, only their user's permissions restrict them. */
  readonly confinement?: ChildConfinement;
  /** Bytes that all processes of one command may use together; by default half of the memory left in the service's cgroup. */
  readonly memoryBytesMax?: number | undefined;
  /** Returns the milliseconds since 1970, on the clock of `RunContext.deadline`. */
  readonly now: () => number;
  /** Returns a fresh, unguessable id for each child: `[A-Za-z0-9-]+`. */
  readonly newId: () => string;
  /** Called when descendants of a child had left its process group and were killed one by one. For the operator. */
  readonly onSurvivors?: ((survivors: Survivors) => void) | undefined;
}

export interface Survivors {
  /** The command's name in the configuration. */
  readonly command: string;
  readonly count: number;
}

/** Everything that the call will do; an approval binds to it. */
type CliPlan = ExecutionPlan & CliPlanFields;

interface CliPlanFields {
  readonly kind: "cli";
  readonly command: string;
  /** SHA-256 of the program at planning time. */
  readonly commandSha256: string;
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Absent when the handler has no `ChildConfinement`. */
  readonly confinement?: Confined | Unconfined;
  /** Set only for scripts. */
  readonly timeoutMs?: number;
}

type Spawn = Pick<CliPlan, "command" | "argv" | "cwd" | "environment"> &
  Pick<CliTool, "tool" | "options"> & { readonly confinement: CliPlan["confinement"] | undefined };

/** Creates the handler that runs command-line programs with an argument vector, never with a command line. */
export function cliHandler(options: CliHandlerOptions): Handler {
  const closing = new AbortController();
  const running = new Set<Promise<ChildResult>>();
  const memory = commandMemory(options.memoryBytesMax);
  const nameOf = (path: string): string => [...options.commands].find(([, known]) => known === path)?.[0] ?? "unknown";

  async function spawn({ confinement, tool, ...order }: Spawn, limits: SpawnLimits): Promise<ChildResult> {
    const hold =
      confinement?.level === "confined" ? holdOf(options.confinement, tool, confinement as Confined) : undefined;
    const child = runChild({
      ...order,
      ...limits,
      hold,
      memory,
      marker: options.newId(),
      signals: [limits.signal, closing.signal],
    });
    running.add(child);
    try {
      const result = await child;
      if (result.survivors > 0) options.onSurvivors?.({ command: nameOf(order.command), count: result.survivors });
      return result;
    } finally {
      running.delete(child);
      if (hold !== undefined) await endedWithin(hold.release(), RELEASE_WAIT_MS);
    }
  }

  return {
    bind: (tool) => bind(tool, { ...options, spawn }),
    async close() {
      closing.abort();
      await Promise.allSettled(running);
      options.confinement?.close();
    },
  };
}

interface SpawnLimits {
  readonly stdoutBytesMax: number;
  readonly mergesStderr?: boolean;
  readonly stderrMeans: readonly StderrMeaning[];
  readonly keepsStderr?: boolean;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

interface Parts extends CliHandlerOptions {
  spawn(order: Spawn, limits: SpawnLimits): Promise<ChildResult>;
}

/** Returns the hold for a confined plan. Throws without a `ChildConfinement`: a confined plan never runs unconfined. */
function holdOf(confinement: ChildConfinement | undefined, tool: Tool, confined: Confined): Hold {
  if (confinement === undefined) throw unbuildable("the plan is confined, and there is no confinement here");
  return confinement.hold(tool, confined);
}

function bind(tool: Tool, parts: Parts): Binding {
  const bound = cliTool(tool, parts.commands);
  // Hashing a large program is slow: do it now, not at the first call.
  binarySha256(bound.command);
  if (bound.cli.shell !== undefined) {
    return {
      describe,
      plan: (input) => planShell(bound, parts, input),
      run: (sealed, context) => runShell(bound, parts, { plan: sealed as CliPlan, context }),
    };
  }
  return {
    describe,
    plan: (input, context) => plan(bound, parts, { input, context }),
    run: (sealed, context) => run(bound, parts, { plan: sealed as CliPlan, context }),
  };
}

function describe({ confinement }: ExecutionPlan): PlanDescription {
  return { confinement: isTable(confinement) && "level" in confinement ? String(confinement["level"]) : "none" };
}

interface Planning {
  readonly input: unknown;
  readonly context: PlanContext;
}

async function plan(
  { tool, command, cli, options, parse, freeText }: CliTool,
  parts: Parts,
  { input, context }: Planning,
): Promise<CliPlan> {
  const cwd = workingDirectory(cli.cwd === undefined ? parts.emptyDirectory : cli.cwd(input as never));
  const inspected = parts.inspections?.get(cli.command)?.(cwd);
  if (inspected !== undefined) throw unusable(inspected);
  const environment = childEnvironment(parts, declaredEnvironment(cli.environment, input));
  const confinement = parts.confinement?.planned(tool, input);
  const limits = {
    stdoutBytesMax: LOOKUP_BYTES_MAX,
    stderrMeans: [],
    timeoutMs: tool.timeoutMs,
    signal: context.signal,
  };
  const inspect = (build: Build): void => {
    if (isFreeTextSafe(freeText, input, build)) return;
    throw unbuildable("free text stands where a program may take it for an option");
  };
  const found = await lookUp({
    lookups: cli.lookups ?? {},
    input,
    inspect,
    async ask(args) {
      refuseTooLong(args, environment);
      const result = await parts.spawn(
        { tool, command, argv: [...args], cwd, environment, confinement, options },
        limits,
      );
      if (endsTheCall(result)) throw refusalOf({ ...tool, classification: "read" }, result, {});
      return result;
    },
  });
  const argv = [...cli.argsBuilder(input as never, found)];
  refuseTooLong(argv, environment);
  const fault = argvFault(argv, options);
  if (fault !== undefined) throw unbuildable(fault);
  inspect((other) => [cli.argsBuilder(other, found)]);
  const kept: Record<string, Json> = typeof parse === "function" && parse.length > 1 ? { input: input as Json } : {};
  const held: Record<string, Json> = confinement === undefined ? {} : { confinement };
  return { kind: "cli", command, commandSha256: binarySha256(command), argv, cwd, environment, ...held, ...kept };
}

/** Throws unless the plan is for this command and the program is unchanged since it was planned. */
function checkProgram({ kind, command, commandSha256 }: CliPlan, bound: CliTool): void {
  if (kind !== "cli" || command !== bound.command) throw unbuildable("the plan is for another command");
  if (binarySha256(command) === commandSha256) return;
  throw new Refusal("TARGET_UNAVAILABLE", "The program was exchanged after the call was planned. Call again.");
}

interface Running {
  readonly plan: CliPlan;
  readonly context: RunContext;
}

async function run(bound: CliTool, parts: Parts, { plan: sealed, context }: Running): Promise<unknown> {
  const { tool, options, parse, textField } = bound;
  const { command, argv, cwd, environment, confinement } = sealed;
  checkProgram(sealed, bound);
  const result = await parts.spawn(
    { tool, command, argv, cwd, environment, confinement, options },
    {
      stdoutBytesMax: tool.limits.outputBytesMax + (parse === "text" ? CUT_MARGIN_BYTES : 0),
      stderrMeans: bound.cli.stderrMeans ?? [],
      keepsStderr: tool.errors === "filtered",
      timeoutMs: context.deadline - parts.now(),
      signal: context.signal,
    },
  );
  const exitCodes = bound.cli.exitCodes ?? {};
  if (!isAnswer(result, exitCodes)) throw refusalOf(tool, result, { exitCodes });
  const exitCode = result.ending.kind === "exit" ? result.ending.code : 0;
  // A parser might take partial output for the complete output.
  if (result.truncated && parse !== "text") return new PartialAnswer(undefined);
  const answer = parseStdout(result.stdout, { parse, textField, input: sealed["input"], exitCode });
  return result.truncated ? new PartialAnswer(answer, cutTextOf(result, textField ?? "text")) : answer;
}

function planShell(bound: CliTool, { pathVariable, confinement: held }: Parts, input: unknown): CliPlan {
  const environment = declaredEnvironment(bound.cli.environment, input);
  const { command } = bound;
  const scene = shellScene(bound, { input, environment, pathVariable });
  const confinement = held?.planned(bound.tool, input);
  return { kind: "cli", command, commandSha256: binarySha256(command), ...scene, ...(confinement && { confinement }) };
}

async function runShell(bound: CliTool, parts: Parts, { plan: sealed, context }: Running): Promise<unknown> {
  const { tool, options } = bound;
  const { command, argv, cwd, environment, confinement, timeoutMs = tool.timeoutMs } = sealed;
  checkProgram(sealed, bound);
  if (realDirectory(cwd) !== cwd) throw unusable("the working directory was exchanged after the call was planned");
  const left = context.deadline - parts.now();
  const limits = {
    ...{ mergesStderr: true, stderrMeans: [], signal: context.signal },
    stdoutBytesMax: tool.limits.outputBytesMax + CUT_MARGIN_BYTES,
    timeoutMs: Math.min(left - Math.min(SCRIPT_END_MS, left / 10), timeoutMs),
  };
  return shellAnswer(tool, await parts.spawn({ tool, command, argv, cwd, environment, confinement, options }, limits));
}

/** Returns true when a lookup's program did not exit by itself. A failing exit code is still a valid answer of a lookup. */
function endsTheCall({ ending }: ChildResult): boolean {
  return ending.kind !== "exit";
}

function workingDirectory(cwd: string): string {
  if (!isAbsolute(cwd)) throw unbuildable("the working directory is not absolute");
  if (realDirectory(cwd) === undefined) throw unusable("the working directory does not exist or is not to be entered");
  return cwd;
}

function declaredEnvironment(
  declared: CliTool["cli"]["environment"],
  input: unknown,
): Readonly<Record<string, string>> {
  if (typeof declared !== "function") return declared ?? {};
  const built = declared(input as never);
  refuseTooLong([], { ...built });
  const faults = environmentFaults(built);
  if (faults.length > 0) throw unbuildable(faults.map(({ field, message }) => `${field}: ${message}`).join("; "));
  return built;
}

function unbuildable(fault: string): Refusal {
  return new Refusal("INTERNAL", "The command could not be built.", { cause: new Error(fault) });
}

function unusable(fault: string): Refusal {
  const message = "The place where the command would run cannot be used.";
  return new Refusal("TARGET_UNAVAILABLE", message, { cause: new Error(fault) });
}

const HASHED_CHUNK_BYTES = 1_048_576;

interface KnownProgram {
  /** State of the file when it was hashed. */
  readonly stamp: string;
  readonly sha256: string;
}

const hashed = new Map<string, KnownProgram>();

/**
 * Returns the hex SHA-256 of a program, so that a plan names the exact binary that will run. Hashes again only when the file has
 * changed: by device, inode, size, mtime and ctime, of which nobody can set the last. Empty when the file cannot be read; then it
 * cannot run either.
 */
export function binarySha256(path: string): string {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    const stamp = [dev, ino, size, mtimeNs, ctimeNs].join(":");
    const before = hashed.get(path);
    if (before?.stamp === stamp) return before.sha256;
    const sha256 = hashFile(path);
    hashed.set(path, { stamp, sha256 });
    return sha256;
  } catch {
    return "";
  }
}

function hashFile(path: string): string {
  const descriptor = openSync(path, "r");
  try {
    const hash = createHash("sha256");
    const chunk = Buffer.allocUnsafe(HASHED_CHUNK_BYTES);
    for (let read = readSync(descriptor, chunk); read > 0; read = readSync(descriptor, chunk)) {
      hash.update(chunk.subarray(0, read));
    }
    return hash.digest("hex");
  } finally {
    closeSync(descriptor);
  }
}
