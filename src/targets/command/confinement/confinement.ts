import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Refusal } from "../../../core/errors.ts";
import type { CliTarget, Tool } from "../../../core/types.ts";
import { unbuildable } from "../endings.ts";
import { cLibrary } from "./c-library.ts";
import type { SeccompOptions } from "./filter.ts";
import { knowsLandlock } from "./landlock.ts";
import { type ChildRules, createLaunchers, type Launched, type Launchers, type Program } from "./launchers.ts";
import type { ProbeReport } from "./probe.ts";
import {
  type CommandPaths,
  type Confined,
  confinedBy,
  declaredProfile,
  grantsOf,
  portsOf,
  profileFaults,
  type SystemAccess,
  UNCONFINED,
  type Unconfined,
} from "./profile.ts";
import { makeTemporaryDirectory, removeAbandoned, type TemporaryDirectory } from "./temporary-directory.ts";

/** CPU seconds, over all threads of a process, per second of its timeout: programs use several processors. */
const CPU_SECONDS_PER_SECOND = 8;
const CPU_SECONDS_MIN = 10;

/** Minimum RLIMIT_DATA of one process. It counts reserved memory, too: with half a gibibyte, Java and Bun do not start. */
const DATA_BYTES_MIN = 1_073_741_824;
const DATA_PER_MEMORY = 2;

/** Makes git ignore its system-wide settings: it fails when they exist and may not be read. */
const UNREADABLE_SETTINGS = { GIT_CONFIG_NOSYSTEM: "1" } as const;

export interface ConfinementOptions {
  /**
   * `require`: a tool that cannot be confined is not registered, and a manifest without a profile gets only the system's
   * programs. `prefer`: both run unconfined, and this is reported. `off`: nothing is confined.
   */
  readonly mode: "require" | "prefer" | "off";
  readonly unconfinedShell: boolean;
  readonly launchersMax: number;
  readonly commands: ReadonlyMap<string, string>;
  readonly systemAccess: ReadonlyMap<string, SystemAccess>;
  readonly newId: () => string;
}

type Level = "confined" | "none";

/** Confinement of the tools' children. Levels are decided at start. If one is lost later, calls fail. */
export interface ChildConfinement {
  /** Level of each tool that may run, by tool name. Does not contain tools without children. */
  readonly levels: ReadonlyMap<string, Level>;
  /** Reason why a tool may not run at all, by tool name. */
  readonly withheld: ReadonlyMap<string, string>;
  /** Problem with a tool's profile, by tool name. Such a tool runs unconfined or not at all. */
  readonly faults: ReadonlyMap<string, string>;
  /** Paths that the first examples of the confined tools may access, besides the system's own. */
  readonly granted: readonly { readonly tool: string; readonly command: string; readonly paths: readonly string[] }[];
  /**
   * Returns the access of this call's child, as a part of its plan.
   *
   * @throws {Refusal} INTERNAL when the manifest's profile for this input is not valid
   */
  planned(tool: Tool, input: unknown): Confined | Unconfined;
  /**
   * Prepares one planned child, with its temporary directory.
   *
   * @throws {Refusal} TARGET_UNAVAILABLE when the temporary directory cannot be created
   */
  sandbox(tool: Tool, confined: Confined): Sandbox;
  close(): void;
}

/** One child's confinement. */
export interface Sandbox {
  /** First word on standard error when the program could not be started. */
  readonly token: string;
  /** True for programs that may create process groups: the launcher then stays as their supervisor. */
  readonly isSupervised: boolean;
  /** @param limits `memoryBytesMax` is the memory that all processes of the child may use together */
  launch(program: Program, limits: { readonly timeoutMs: number; readonly memoryBytesMax: number }): Launched;
  /** Removes the child's temporary directory, if it has one. */
  release(): Promise<void>;
}

type CliTool = Tool & { readonly target: CliTarget };

/** Tests the profile of every tool, and decides how the tool's children are confined. */
export async function openConfinement(tools: readonly Tool[], options: ConfinementOptions): Promise<ChildConfinement> {
  // Commands that are not allowed are reported when their tools are bound.
  const commandTools = tools.filter((tool): tool is CliTool => commandOf(tool, options) !== undefined);
  const launchers = createLaunchers(options.launchersMax);
  // Runs in the background: abandoned directories may be large, and nothing waits for their removal.
  removeAbandoned(options.newId).catch(() => {});
  const kernelProblem = options.mode === "off" ? "commands.confinement is off" : confinementProblem();
  const faults =
    kernelProblem === undefined ? await profileProblems(commandTools, options, launchers) : new Map<string, string>();
  const levels = new Map<string, Level>();
  const withheld = new Map<string, string>();
  for (const tool of commandTools) {
    const fault = kernelProblem ?? faults.get(tool.name);
    if (fault === undefined) levels.set(tool.name, "confined");
    else if (mayRunUnconfined(tool, options)) levels.set(tool.name, "none");
    else withheld.set(tool.name, withheldText(tool, fault));
  }
  const parts: Parts = { ...options, launchers, levels };
  return {
    levels,
    withheld,
    faults,
    granted: commandTools
      .filter(({ name }) => levels.get(name) === "confined")
      .map((tool) => {
        const { reads, writes } = exampleProfile(tool, options);
        return { tool: tool.name, command: tool.target.cli.command, paths: [...reads, ...writes] };
      }),
    planned: (tool, input) => planned(tool as CliTool, input, parts),
    sandbox: (tool, confined) => sandbox(tool as CliTool, confined, parts),
    close: () => launchers.close(),
  };
}

function commandOf({ target }: Tool, { commands }: ConfinementOptions): string | undefined {
  return "cli" in target ? commands.get(target.cli.command) : undefined;
}

interface Parts extends ConfinementOptions {
  readonly launchers: Launchers;
  readonly levels: ReadonlyMap<string, Level>;
}

/** Returns whether a tool may run unconfined. A shell needs its own setting; others a mode other than `require`. */
function mayRunUnconfined({ target }: CliTool, { mode, unconfinedShell }: ConfinementOptions): boolean {
  return target.cli.shell === undefined ? mode !== "require" : unconfinedShell;
}

function withheldText({ name, target }: CliTool, fault: string): string {
  const remedy =
    target.cli.shell === undefined
      ? "commands.confinement: prefer lets it run unconfined"
      : "commands.unconfinedBash: true lets it run unconfined";
  return `tool ${name}: not registered: no confinement (${fault}); ${remedy}`;
}

/** Returns the problems of the tools' profiles, by tool name. Equal rules are tested once. */
async function profileProblems(
  tools: readonly CliTool[],
  options: ConfinementOptions,
  launchers: Launchers,
): Promise<ReadonlyMap<string, string>> {
  const probes = new Map<string, Promise<string | undefined>>();
  const pending = tools.map((tool) => {
    const rules = exampleRules(tool, options);
    if (typeof rules === "string") return { tool, problem: Promise.resolve(rules) };
    const key = JSON.stringify(rules);
    const problem = probes.get(key) ?? probeRules(launchers, rules, options.newId());
    probes.set(key, problem);
    return { tool, problem };
  });
  const problems = new Map<string, string>();
  for (const { tool, problem } of pending) {
    const found = await problem;
    if (found !== undefined) problems.set(tool.name, found);
  }
  return problems;
}

/** Returns the rules for a tool's first example, or the problem with them. */
function exampleRules(tool: CliTool, options: ConfinementOptions): ChildRules | string {
  // An operator's own program may need any access; when confinement is required, its manifest must declare it.
  if (tool.target.cli.confinement === undefined && options.mode === "prefer") return "the manifest declares none";
  const command = commandOf(tool, options) ?? "";
  try {
    const confined = exampleProfile(tool, options);
    const [fault] = profileFaults(confined);
    if (fault !== undefined) return `${fault.field}: ${fault.message}`;
    return rulesOf(tool, confined, { command, temporary: undefined });
  } catch (error) {
    return `target.cli.confinement: ${error instanceof Error ? error.message : "throws"}`;
  }
}

function exampleProfile(tool: CliTool, { systemAccess }: ConfinementOptions): Confined {
  const example = tool.input.safeParse(tool.examples.accepts[0] ?? {}).data ?? {};
  return confinedBy(declaredProfile(tool.target.cli, example), { tool, systemAccess });
}

function rulesOf({ target }: CliTool, confined: Confined, paths: CommandPaths): ChildRules {
  const filter: SeccompOptions = {
    network: confined.network !== null,
    writes: confined.writes.length > 0 || confined.temporaryDirectory,
    groups: target.cli.shell !== undefined,
  };
  return { grants: grantsOf(confined, paths), ports: portsOf(confined), filter };
}

function planned(tool: CliTool, input: unknown, { levels, systemAccess }: Parts): Confined | Unconfined {
  if (levels.get(tool.name) !== "confined") return UNCONFINED;
  const confined = confinedBy(declaredProfile(tool.target.cli, input), { tool, systemAccess });
  const faults = profileFaults(confined);
  if (faults.length === 0) return confined;
  throw unbuildable(faults.map(({ field, message }) => `${field}: ${message}`).join("; "));
}

function sandbox(tool: CliTool, confined: Confined, { launchers, newId }: Parts): Sandbox {
  const temporary = confined.temporaryDirectory ? temporaryDirectory() : undefined;
  const token = newId();
  return {
    token,
    isSupervised: tool.target.cli.shell !== undefined,
    launch(program, { timeoutMs, memoryBytesMax }) {
      const environment = {
        ...UNREADABLE_SETTINGS,
        ...program.environment,
        ...(temporary !== undefined && { TMPDIR: temporary.path }),
      };
      return launchers.launch({
        ...rulesOf(tool, confined, { command: program.command, temporary: temporary?.path }),
        token,
        parent: process.pid,
        isSupervised: tool.target.cli.shell !== undefined,
        cpuSeconds: Math.max(CPU_SECONDS_MIN, Math.ceil((timeoutMs / 1_000) * CPU_SECONDS_PER_SECOND)),
        dataBytes: Math.max(DATA_BYTES_MIN, DATA_PER_MEMORY * memoryBytesMax),
        task: { kind: "program", ...program, environment },
      });
    },
    async release() {
      // Ignores files that cannot be removed: no other user can enter the directory.
      await temporary?.remove(newId).catch(() => {});
    },
  };
}

function temporaryDirectory(): TemporaryDirectory {
  try {
    return makeTemporaryDirectory();
  } catch (cause) {
    throw new Refusal("TARGET_UNAVAILABLE", "The command could not be run.", { cause });
  }
}

const PR_GET_DUMPABLE = 3;
const PR_SET_DUMPABLE = 4;

/**
 * Returns why no child can be confined on this machine, or `undefined`. Also makes this process non-dumpable, so that
 * other processes of its user (except root) can neither trace it nor read its memory and environment.
 */
export function confinementProblem(): string | undefined {
  if (process.platform !== "linux" || process.arch !== "x64") return "it needs Linux on x86_64";
  try {
    const c = cLibrary();
    if (!knowsLandlock(c)) return "the kernel has no Landlock of ABI 6 or later";
    c.prctl(PR_SET_DUMPABLE, 0n, 0n, 0n, 0n);
    const isDumpable = c.prctl(PR_GET_DUMPABLE, 0n, 0n, 0n, 0n) !== 0;
    return isDumpable && c.getuid() !== 0 ? "other processes of the user can trace the service" : undefined;
  } catch (error) {
    return error instanceof Error ? error.message : "the C library cannot be used";
  }
}

/** Time limit for a launcher to start and to make all attempts. */
const PROBE_TIMEOUT_MS = 10_000;
/** Discard, systat and daytime: ports on which nobody listens, and which no profile should name. */
const UNLISTENED_PORTS = [9, 11, 13];

/** Lets a process under these rules try what must not work. Returns the problem, or `undefined`. */
export async function probeRules(
  launchers: Launchers,
  { grants, ports, filter }: ChildRules,
  token: string,
): Promise<string | undefined> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "safe-tool-call-canary-")));
  try {
    const canary = join(folder, "canary");
    writeFileSync(canary, "not to be read", { mode: 0o600 });
    const port = UNLISTENED_PORTS.find((other) => !ports.includes(other)) ?? 1;
    const task = { kind: "probe", canary, port, readable: process.execPath } as const;
    const readable = { path: process.execPath, access: "read" } as const;
    const child = launchers.launch({
      grants: [...grants, readable],
      ports,
      filter,
      token,
      task,
      parent: process.pid,
      cpuSeconds: CPU_SECONDS_MIN,
      dataBytes: DATA_BYTES_MIN,
    });
    const timer = setTimeout(() => child.kill("SIGKILL"), PROBE_TIMEOUT_MS);
    const [report, error] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    clearTimeout(timer);
    await child.exited;
    return reportProblem(report, error, filter.network);
  } catch (error) {
    return error instanceof Error ? error.message : "it could not be probed";
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function reportProblem(report: string, error: string, wantsNetwork: boolean): string | undefined {
  if (report === "") return error.slice(error.indexOf(" ") + 1).slice(0, 256) || "it ended without output";
  const { leaks, missing, network } = JSON.parse(report) as ProbeReport;
  if (leaks.length > 0) return `it lets through: ${leaks.join(", ")}`;
  if (missing.length > 0) return `it refuses too much: ${missing.join(", ")}`;
  return network === wantsNetwork ? undefined : `sockets can${network ? "" : "not"} be created`;
}
