import { closeSync, openSync, statSync } from "node:fs";
import { isAbsolute } from "node:path";
import { Refusal } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { CUT_MARGIN_BYTES, PartialAnswer } from "../../core/partial-answer.ts";
import { present } from "../../core/present.ts";
import { endedWithin } from "../../core/time-limits.ts";
import type {
  Binding,
  EpochMs,
  ExecutionPlan,
  Handler,
  Json,
  PlanContext,
  PlanDescription,
  RunContext,
  Tool,
} from "../../core/types.ts";
import { argvFault, type Build, isFreeTextSafe, refuseDashedValues, refuseTooLong } from "./argv.ts";
import { type ChildSpec, runChild } from "./child.ts";
import { commandMemory } from "./command-memory.ts";
import type { ChildConfinement, Sandbox } from "./confinement/confinement.ts";
import type { Confined, Unconfined } from "./confinement/profile.ts";
import { type ChildResult, isAnswer, refusalOf, unbuildable } from "./endings.ts";
import { childEnvironment, cwdOf, environmentFaults } from "./environment.ts";
import { commandHeadline } from "./headline.ts";
import { LOOKUP_BYTES_MAX, lookUp } from "./lookups.ts";
import { type CliTool, cliTool } from "./manifest.ts";
import { cutTextOf, parseStdout } from "./parser.ts";
import { hashOpenFile, realDirectory, shellAnswer, shellPlan, shellPlanForRules } from "./shell.ts";

/** Time for returning the output of a script that timed out: at most this, or a tenth of the time left. */
const SCRIPT_END_MS = 1_000;
/** Time that a script that timed out has between SIGTERM and SIGKILL: at most this, or half of the time left. */
const END_GRACE_MS = 400;
/** Longest wait for the removal of a temporary directory, which takes long when a child leaves many files. */
const RELEASE_WAIT_MS = 500;

export interface CliHandlerOptions {
  /** Absolute paths of the allowed programs by command name, resolved at load. */
  readonly commands: ReadonlyMap<string, string>;
  /** Absolute path of a private, empty directory: the default working directory and the home of children. */
  readonly emptyDirectory: string;
  /** PATH of children; default `/usr/local/bin:/usr/bin:/bin`. */
  readonly pathVariable?: string;
  /** Checks of a call's working directory, by command name. They return the problem, for the operator. */
  readonly inspections?: ReadonlyMap<string, (cwd: string) => string | undefined>;
  /** Confines the children; without it, only their user's permissions restrict them. */
  readonly confinement?: ChildConfinement;
  /** Bytes that all processes of one command may use together; by default half of the memory left in the service's cgroup. */
  readonly memoryBytesMax?: number | undefined;
  /** Reads the clock of `RunContext.deadline`. */
  readonly now: () => EpochMs;
  /** Returns a fresh, unguessable id for each child: `[A-Za-z0-9-]+`. */
  readonly newId: () => string;
  /** Receives the number of descendants that had left a child's process group, for the operator. */
  readonly onSurvivors?: ((survivors: Survivors) => void) | undefined;
}

export interface Survivors {
  readonly command: string;
  readonly count: number;
}

/** The complete call. An approval is bound to it. */
type CliPlan = ExecutionPlan & {
  readonly kind: "cli";
  readonly command: string;
  /** SHA-256 of the program at planning time. */
  readonly commandSha256: string;
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Absent when the handler has no `ChildConfinement`. */
  readonly confinement?: Confined | Unconfined;
  readonly timeoutMs?: number;
};

type PlannedProgram = Pick<CliPlan, "command" | "argv" | "cwd" | "environment"> & {
  readonly confinement: CliPlan["confinement"] | undefined;
};
type SpawnLimits = Pick<
  ChildSpec,
  "stdoutBytesMax" | "mergesStderr" | "stderrMeans" | "keepsStderr" | "observe" | "onStart" | "timeoutMs" | "endGraceMs"
> & {
  readonly signal: AbortSignal;
};

interface Parts extends CliHandlerOptions {
  spawn(bound: CliTool, program: PlannedProgram, limits: SpawnLimits): Promise<ChildResult>;
}

/** Creates the handler that runs command-line programs with an argument vector, never with a command line. */
export function cliHandler(options: CliHandlerOptions): Handler {
  const closing = new AbortController();
  const running = new Set<Promise<ChildResult>>();
  const memory = commandMemory(options.memoryBytesMax);
  const nameOf = (path: string): string => [...options.commands].find(([, known]) => known === path)?.[0] ?? "unknown";

  function sandboxOf(tool: Tool, confinement: CliPlan["confinement"]): Sandbox | undefined {
    if (confinement?.level !== "confined") return undefined;
    if (options.confinement !== undefined) return options.confinement.sandbox(tool, confinement as Confined);
    // A confined plan never runs unconfined.
    throw unbuildable("the plan is confined, but this handler has no confinement");
  }

  const spawn: Parts["spawn"] = async ({ tool, options: argvOptions }, program, { signal, ...limits }) => {
    const { command, argv, cwd, environment } = program;
    const sandbox = sandboxOf(tool, program.confinement);
    const child = runChild({
      command,
      argv,
      options: argvOptions,
      cwd,
      environment,
      sandbox,
      memory,
      ...limits,
      marker: options.newId(),
      signals: [signal, closing.signal],
    });
    running.add(child);
    try {
      const result = await child;
      if (result.survivors > 0) options.onSurvivors?.({ command: nameOf(command), count: result.survivors });
      return result;
    } finally {
      running.delete(child);
      if (sandbox !== undefined) await endedWithin(sandbox.release(), RELEASE_WAIT_MS);
    }
  };

  return {
    bind: (tool) => bind(tool, { ...options, spawn }),
    async close() {
      closing.abort();
      await Promise.allSettled(running);
      options.confinement?.close();
    },
  };
}

function bind(tool: Tool, parts: Parts): Binding {
  const bound = cliTool(tool, parts.commands);
  // Hashing a large program is slow: do it now, not at the first call.
  binarySha256(bound.command);
  const isShell = bound.cli.shell !== undefined;
  return {
    describe,
    headline: commandHeadline,
    // A script is approved as a whole.
    ...(!isShell && { fixedParts: (plan: ExecutionPlan) => fixedParts(bound, plan as CliPlan) }),
    ...(isShell && {
      planForRules(input: unknown) {
        const environment = declaredEnvironment(bound.cli.environment, input);
        return shellPlanForRules(bound, { input, environment, pathVariable: parts.pathVariable });
      },
    }),
    plan: (input, context) =>
      isShell ? planShell(bound, parts, input) : planProgram(bound, parts, { input, context }),
    planWithLookups: (input, found) => planWithLookups(bound, input, found),
    readStdout: (stdout, input) => parseStdout(stdout, { ...bound, input, exitCode: 0 }),
    callsBegin: true,
    async run(sealed, context) {
      const plan = sealed as CliPlan;
      checkProgram(plan, bound);
      return await (isShell ? runShell : runProgram)(bound, parts, { plan, context });
    },
  };
}

/** @throws {Error} for an argv that would be refused, or that needs the answer of a lookup that is missing */
function planWithLookups(
  { cli, options }: CliTool,
  input: unknown,
  found: Readonly<Record<string, string>>,
): ExecutionPlan {
  const missing = Object.keys(cli.lookups ?? {}).filter((name) => !Object.hasOwn(found, name));
  if (missing.length > 0) throw new Error(`lookups: the argv needs the answers of ${missing.join(", ")}`);
  const argv = [...cli.argsBuilder(input as never, found)];
  const fault = cli.shell === undefined ? argvFault(argv, options) : undefined;
  if (fault !== undefined) throw new Error(fault);
  return { kind: "cli", command: cli.command, argv, environment: declaredEnvironment(cli.environment, input) };
}

function describe({ confinement }: ExecutionPlan): PlanDescription {
  return { confinement: isTable(confinement) && "level" in confinement ? String(confinement["level"]) : "none" };
}

/** The environment belongs to the fixed parts unless the manifest builds it from the arguments. */
function fixedParts({ cli }: CliTool, { kind, command, commandSha256, environment, confinement }: CliPlan): Json {
  const isBuilt = typeof cli.environment === "function";
  return { kind, command, commandSha256, level: confinement?.level ?? null, ...(!isBuilt && { environment }) };
}

async function planProgram(
  bound: CliTool,
  parts: Parts,
  { input, context }: { readonly input: unknown; readonly context: PlanContext },
): Promise<CliPlan> {
  const { tool, command, cli, options, parse, freeText } = bound;
  const cwd = workingDirectory(cwdOf(cli, input) ?? parts.emptyDirectory);
  const inspected = parts.inspections?.get(cli.command)?.(cwd);
  if (inspected !== undefined) throw unusable(inspected);
  const environment = childEnvironment(parts, declaredEnvironment(cli.environment, input));
  const confinement = parts.confinement?.planned(tool, input);
  const { timeoutMs } = tool;
  const { signal, observe } = context;
  const limits = { stdoutBytesMax: LOOKUP_BYTES_MAX, stderrMeans: [], timeoutMs, signal, observe };
  const inspect = (build: Build): void => {
    if (isFreeTextSafe(freeText, input, build)) return;
    throw unbuildable("free text appears where a program may take it for an option");
  };
  const found = await lookUp({
    lookups: cli.lookups ?? {},
    input,
    inspect,
    async run(args) {
      refuseTooLong(args, environment);
      refuseDashedValues(args, options);
      const result = await parts.spawn(bound, { command, argv: [...args], cwd, environment, confinement }, limits);
      // A failing exit code is still a valid answer of a lookup.
      if (result.ending.kind !== "exit") throw refusalOf({ ...tool, classification: "read" }, result, {});
      return result;
    },
  });
  const argv = [...cli.argsBuilder(input as never, found)];
  refuseTooLong(argv, environment);
  inspect((other) => [cli.argsBuilder(other, found)]);
  refuseDashedValues(argv, options);
  const fault = argvFault(argv, options);
  if (fault !== undefined) throw unbuildable(fault);
  const parserInput: Record<string, Json> =
    typeof parse === "function" && parse.length > 1 ? { input: input as Json } : {};
  return {
    kind: "cli",
    command,
    commandSha256: binarySha256(command),
    argv,
    cwd,
    environment,
    ...(confinement && { confinement }),
    ...parserInput,
  };
}

/** Throws unless the plan is for this command and the program is unchanged since it was planned. */
function checkProgram({ kind, command, commandSha256 }: CliPlan, bound: CliTool): void {
  if (kind !== "cli" || command !== bound.command) throw unbuildable("the plan is for another command");
  if (binarySha256(command) === commandSha256) return;
  throw new Refusal("TARGET_UNAVAILABLE", "The program was replaced after the call was planned. Call again.");
}

interface PlannedRun {
  readonly plan: CliPlan;
  readonly context: RunContext;
}

async function runProgram(bound: CliTool, parts: Parts, { plan, context }: PlannedRun): Promise<unknown> {
  const { tool, parse, textField } = bound;
  const result = await parts.spawn(
    bound,
    { ...plan, confinement: plan.confinement },
    {
      stdoutBytesMax: tool.limits.outputBytesMax + (parse === "text" ? CUT_MARGIN_BYTES : 0),
      stderrMeans: bound.cli.stderrMeans ?? [],
      keepsStderr: tool.errors === "filtered",
      observe: context.observe,
      onStart: context.begin,
      timeoutMs: context.deadline - parts.now(),
      signal: context.signal,
    },
  );
  const exitCodes = bound.cli.exitCodes ?? {};
  if (!isAnswer(result, exitCodes)) throw refusalOf(tool, result, { exitCodes });
  const exitCode = result.ending.kind === "exit" ? result.ending.code : 0;
  // A parser might take partial output for the complete output.
  if (result.truncated && parse !== "text") return new PartialAnswer(undefined);
  const { observe } = context;
  const onError = observe && ((error: unknown) => observe("parse", { error }));
  const answer = parseStdout(result.stdout, { parse, textField, input: plan["input"], exitCode, onError });
  return result.truncated ? new PartialAnswer(answer, cutTextOf(result, textField ?? "text")) : answer;
}

function planShell(bound: CliTool, parts: Parts, input: unknown): CliPlan {
  const environment = declaredEnvironment(bound.cli.environment, input);
  const { command } = bound;
  const script = shellPlan(bound, { input, environment, pathVariable: parts.pathVariable });
  const confinement = parts.confinement?.planned(bound.tool, input);
  return { kind: "cli", command, commandSha256: binarySha256(command), ...script, ...(confinement && { confinement }) };
}

async function runShell(bound: CliTool, parts: Parts, { plan, context }: PlannedRun): Promise<unknown> {
  const { tool } = bound;
  const { cwd, timeoutMs = tool.timeoutMs } = plan;
  if (realDirectory(cwd) !== cwd) throw unusable("the working directory was replaced after the call was planned");
  const left = context.deadline - parts.now();
  const endsAfterMs = Math.min(left - Math.min(SCRIPT_END_MS, left / 10), timeoutMs);
  const limits = {
    mergesStderr: true,
    stderrMeans: [],
    signal: context.signal,
    observe: context.observe,
    onStart: context.begin,
    stdoutBytesMax: tool.limits.outputBytesMax + CUT_MARGIN_BYTES,
    timeoutMs: endsAfterMs,
    endGraceMs: Math.min(END_GRACE_MS, (left - endsAfterMs) / 2),
  };
  return shellAnswer(tool, await parts.spawn(bound, { ...plan, confinement: plan.confinement }, limits));
}

function workingDirectory(cwd: string): string {
  if (!isAbsolute(cwd)) throw unbuildable("the working directory is not absolute");
  if (realDirectory(cwd) === undefined) throw unusable("the working directory does not exist or cannot be entered");
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

function unusable(fault: string): Refusal {
  const message = "The working directory of the command cannot be used.";
  return new Refusal("TARGET_UNAVAILABLE", message, { cause: new Error(fault) });
}

/** Hashes of programs by path, with the state of the file at that time. */
const hashed = new Map<string, { readonly stamp: string; readonly sha256: string }>();

/**
 * Returns the hex SHA-256 of a program, so that a plan names the exact binary. Hashes again only when device, inode,
 * size, mtime or ctime has changed; nobody can set the ctime. Empty when the file cannot be read; then it cannot run
 * either.
 */
export function binarySha256(path: string): string {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    const stamp = [dev, ino, size, mtimeNs, ctimeNs].join(":");
    const before = hashed.get(path);
    if (before?.stamp === stamp) return before.sha256;
    const descriptor = openSync(path, "r");
    try {
      const { sha256 } = present(hashOpenFile(descriptor), "the hash of the program");
      hashed.set(path, { stamp, sha256 });
      return sha256;
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return "";
  }
}
