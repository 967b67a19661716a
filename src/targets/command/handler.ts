import { statSync } from "node:fs";
import { isAbsolute } from "node:path";
import { Refusal } from "../../core/errors.ts";
import { CUT_MARGIN_BYTES, PartialAnswer } from "../../core/partial-answer.ts";
import { endedWithin } from "../../core/time-limits.ts";
import type {
  Binding,
  ExecutionPlan,
  Handler,
  Json,
  PlanContext,
  RunContext,
  StderrMeaning,
  Tool,
} from "../../core/types.ts";
import { argvFault, refuseTooLong } from "./argv.ts";
import { binarySha256 } from "./binary-identity.ts";
import { runChild } from "./child.ts";
import { commandMemory } from "./command-memory.ts";
import type { ChildConfinement, Hold } from "./confinement/confinement.ts";
import type { Confined, Unconfined } from "./confinement/profile.ts";
import { type ChildResult, isAnswer, refusalOf } from "./endings.ts";
import { childEnvironment, environmentFaults } from "./environment.ts";
import { type Build, isFreeTextSafe } from "./examples.ts";
import { LOOKUP_BYTES_MAX, lookUp } from "./lookups.ts";
import { type CliTool, cliTool } from "./manifest.ts";
import { cutTextOf, parseStdout } from "./parser.ts";
import { realDirectory, shellAnswer, shellScene } from "./shell.ts";

/** How much earlier than its call a script ends, at most, so that what it has written is still heard; a tenth of the time at most. */
const SCRIPT_END_MS = 1_000;
/** How long an answer waits until what was made for its child is gone. A child may leave so much that it takes longer. */
const RELEASE_WAIT_MS = 500;

export interface CliHandlerOptions {
  /** Names to absolute binaries, resolved at load. No other program ever runs. */
  readonly commands: ReadonlyMap<string, string>;
  /** Absolute, private and empty: the working directory and home of children. */
  readonly emptyDirectory: string;
  /** PATH of children; default `/usr/local/bin:/usr/bin:/bin`. */
  readonly pathVariable?: string;
  /** By command name: what is wrong with a working directory that a call is about to use, or `undefined`. For the operator. */
  readonly inspections?: ReadonlyMap<string, (cwd: string) => string | undefined>;
  /** Holds the children; without it nothing but their user's rights does. */
  readonly confinement?: ChildConfinement;
  /** Bytes that all processes of one command may use together; by default half of what the service's memory cgroup leaves. */
  readonly memoryBytesMax?: number | undefined;
  /** Milliseconds since 1970, the clock of `RunContext.deadline`. */
  readonly now: () => number;
  /** A fresh, unguessable id for each child: `[A-Za-z0-9-]+`. */
  readonly newId: () => string;
  /** Told when descendants of a child had to be hunted down one by one. For the operator. */
  readonly onSurvivors?: (survivors: Survivors) => void;
}

export interface Survivors {
  /** The command's name in the configuration. */
  readonly command: string;
  readonly count: number;
}

/** Everything that will happen, for the approval to bind to. */
type CliPlan = ExecutionPlan & CliPlanFields;

interface CliPlanFields {
  readonly kind: "cli";
  readonly command: string;
  /** Of the program as it is now. */
  readonly commandSha256: string;
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Left out where there is no confinement to be had or not. */
  readonly confinement?: Confined | Unconfined;
  /** Of a script alone. */
  readonly timeoutMs?: number;
}

type Spawn = Pick<CliPlan, "command" | "argv" | "cwd" | "environment"> &
  Pick<CliTool, "tool" | "options"> & { readonly confinement: CliPlan["confinement"] | undefined };

/** Reaches command-line programs: an argv, never a command line. */
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

/** A plan that says confined runs confined or not at all. */
function holdOf(confinement: ChildConfinement | undefined, tool: Tool, confined: Confined): Hold {
  if (confinement === undefined) throw unbuildable("the plan is confined, and there is no confinement here");
  return confinement.hold(tool, confined);
}

function bind(tool: Tool, parts: Parts): Binding {
  const bound = cliTool(tool, parts.commands);
  // A large program takes a while: now, not at the first call.
  binarySha256(bound.command);
  if (bound.cli.shell !== undefined) {
    return {
      plan: (input) => planShell(bound, parts, input),
      run: (sealed, context) => runShell(bound, parts, { plan: sealed as CliPlan, context }),
    };
  }
  return {
    plan: (input, context) => plan(bound, parts, { input, context }),
    run: (sealed, context) => run(bound, parts, { plan: sealed as CliPlan, context }),
  };
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

/** The program that was planned, and no other that came to its place. */
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
  // A parser that sees a part might take it for the whole.
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

/** A lookup's own no is an answer; a program that could not run to its end is none. */
function endsTheCall({ ending }: ChildResult): boolean {
  return ending.kind !== "exit";
}

function workingDirectory(cwd: string): string {
  if (!isAbsolute(cwd)) throw unbuildable("the working directory is not absolute");
  if (!isDirectory(cwd)) throw unusable("the working directory does not exist or is not to be entered");
  return cwd;
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
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
