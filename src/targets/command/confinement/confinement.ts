import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Refusal } from "../../../core/errors.ts";
import type { CliTarget, Tool } from "../../../core/types.ts";
import { cLibrary } from "./c-library.ts";
import type { SeccompOptions } from "./filter.ts";
import { knowsLandlock } from "./landlock.ts";
import { createLaunchers, type Launched, type Launchers } from "./launchers.ts";
import type { Orders, ProgramOrder } from "./orders.ts";
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

/** Over all threads and children that are waited for: programs use more than one processor. */
const CPU_SECONDS_PER_SECOND = 8;
const CPU_SECONDS_MIN = 10;

/**
 * Of one process, against one that allocates between two measurements. Reserved and written memory both count, so runtimes need
 * more than they use: Java and Bun do not start with half a gibibyte.
 */
const DATA_BYTES_MIN = 1_073_741_824;
const DATA_PER_MEMORY = 2;

/** Git takes the machine's settings, which it may not read here, for broken ones. */
const UNREADABLE_SETTINGS = { GIT_CONFIG_NOSYSTEM: "1" } as const;

export interface ConfinementOptions {
  /**
   * `require`: what cannot be confined is not registered, and a manifest that declares nothing gets the system's programs alone.
   * `prefer`: both run unconfined, and say so. `off`: nothing is confined.
   */
  readonly mode: "require" | "prefer" | "off";
  /** Whether a shell may run unconfined. */
  readonly unconfinedShell: boolean;
  /** How many launchers wait for orders. */
  readonly launchersMax: number;
  /** By command name, absolute. */
  readonly commands: ReadonlyMap<string, string>;
  /** By system. */
  readonly reaches: ReadonlyMap<string, SystemAccess>;
  readonly newId: () => string;
}

type Level = "confined" | "none";

/** How the children of these tools are held. Settled at start: a level that is lost later ends calls, it is never lowered. */
export interface ChildConfinement {
  /** Those that may run, and at which level; tools that start no child are in neither list. */
  readonly levels: ReadonlyMap<string, Level>;
  /** By name: why a tool may not run at all. */
  readonly withheld: ReadonlyMap<string, string>;
  /** By name: what was wrong with a profile, whether the tool runs without or not at all. */
  readonly faults: ReadonlyMap<string, string>;
  /** What the confined tools' first examples may read or change, beside the system's own. */
  readonly granted: readonly Granted[];
  /** What this call's child may do: a part of its plan. @throws {Refusal} INTERNAL when the manifest asks for what cannot be */
  planned(tool: Tool, input: unknown): Confined | Unconfined;
  /** A place and a way to run one planned child. @throws {Refusal} TARGET_UNAVAILABLE when the place cannot be made */
  hold(tool: Tool, confined: Confined): Hold;
  close(): void;
}

interface Granted {
  readonly tool: string;
  readonly command: string;
  readonly paths: readonly string[];
}

interface HoldLimits {
  readonly timeoutMs: number;
  /** Of all its processes together. */
  readonly memoryBytesMax: number;
}

/** One child's confinement. */
export interface Hold {
  /** Begins its standard error when it could not be started. */
  readonly token: string;
  /** Whether its launcher stays as its supervisor, because it may make process groups. */
  readonly isSupervised: boolean;
  launch(program: Omit<ProgramOrder, "kind">, limits: HoldLimits): Launched;
  /** Takes away what was made for it. */
  release(): Promise<void>;
}

type CliTool = Tool & { readonly target: CliTarget };

/** Tries every profile that the tools have, and settles who is held how. */
export async function openConfinement(tools: readonly Tool[], options: ConfinementOptions): Promise<ChildConfinement> {
  // A command that nobody allowed is the binding's to complain about.
  const ours = tools.filter((tool): tool is CliTool => commandOf(tool, options) !== undefined);
  const launchers = createLaunchers(options.launchersMax);
  // In the background: they may be large, and nobody waits for them.
  removeAbandoned(options.newId).catch(() => {});
  const everywhere = options.mode === "off" ? "commands.confinement is off" : kernelFault();
  const faults = everywhere === undefined ? await tryAll(ours, options, launchers) : new Map<string, string>();
  const levels = new Map<string, Level>();
  const withheld = new Map<string, string>();
  for (const tool of ours) {
    const fault = everywhere ?? faults.get(tool.name);
    if (fault === undefined) levels.set(tool.name, "confined");
    else if (mayRunUnconfined(tool, options)) levels.set(tool.name, "none");
    else withheld.set(tool.name, withholding(tool, fault));
  }
  const parts: Parts = { ...options, launchers, levels };
  return {
    levels,
    withheld,
    faults,
    granted: ours.filter(({ name }) => levels.get(name) === "confined").map((tool) => grantedTo(tool, options)),
    planned: (tool, input) => planned(tool as CliTool, input, parts),
    hold: (tool, confined) => hold(tool as CliTool, confined, parts),
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

/** A shell where that was said in so many words, whatever the mode; everything else where the mode lets it. */
function mayRunUnconfined({ target }: CliTool, { mode, unconfinedShell }: ConfinementOptions): boolean {
  return target.cli.shell === undefined ? mode !== "require" : unconfinedShell;
}

function withholding({ name, target }: CliTool, fault: string): string {
  const remedy =
    target.cli.shell === undefined
      ? "commands.confinement: prefer lets it run without"
      : "commands.unconfinedBash: true lets it run without";
  return `tool ${name}: not registered: no confinement (${fault}); ${remedy}`;
}

/** What is wrong with each tool's profile, by the tool's name. Equal rules are tried once. */
async function tryAll(
  tools: readonly CliTool[],
  options: ConfinementOptions,
  launchers: Launchers,
): Promise<ReadonlyMap<string, string>> {
  const trials = new Map<string, Promise<string | undefined>>();
  const verdicts = tools.map((tool) => {
    const trial = trialOf(tool, options);
    if (typeof trial === "string") return { tool, verdict: Promise.resolve(trial) };
    const rules = JSON.stringify(trial);
    const verdict = trials.get(rules) ?? confinementFault(launchers, trial, options.newId());
    trials.set(rules, verdict);
    return { tool, verdict };
  });
  const faults = new Map<string, string>();
  for (const { tool, verdict } of verdicts) {
    const fault = await verdict;
    if (fault !== undefined) faults.set(tool.name, fault);
  }
  return faults;
}

/** The rules of a tool's first example, or what is wrong with them. */
function trialOf(tool: CliTool, options: ConfinementOptions): Trial | string {
  // Somebody's own program may need anything; where confinement is required it has to say what.
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

function exampleProfile(tool: CliTool, { reaches }: ConfinementOptions): Confined {
  const example = tool.input.safeParse(tool.examples.accepts[0] ?? {}).data ?? {};
  return confinedBy(declaredProfile(tool.target.cli, example), { tool, reaches });
}

function grantedTo(tool: CliTool, options: ConfinementOptions): Granted {
  const { reads, writes } = exampleProfile(tool, options);
  return { tool: tool.name, command: tool.target.cli.command, paths: [...reads, ...writes] };
}

function rulesOf({ target }: CliTool, confined: Confined, place: CommandPaths): Trial {
  const filter: SeccompOptions = {
    network: confined.network !== null,
    writes: confined.writes.length > 0 || confined.temporaryDirectory,
    groups: target.cli.shell !== undefined,
  };
  return { grants: grantsOf(confined, place), ports: portsOf(confined), filter };
}

function planned(tool: CliTool, input: unknown, { levels, reaches }: Parts): Confined | Unconfined {
  if (levels.get(tool.name) !== "confined") return UNCONFINED;
  const confined = confinedBy(declaredProfile(tool.target.cli, input), { tool, reaches });
  const faults = profileFaults(confined);
  if (faults.length === 0) return confined;
  throw new Refusal("INTERNAL", "The command could not be built.", {
    cause: new Error(faults.map(({ field, message }) => `${field}: ${message}`).join("; ")),
  });
}

function hold(tool: CliTool, confined: Confined, { launchers, newId }: Parts): Hold {
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
        act: { kind: "program", ...program, environment },
      });
    },
    async release() {
      // What cannot be removed stays; nobody else can enter the directory.
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
 * Why no child can be confined here, or `undefined`. Makes the process non-dumpable on the way, so that others of its user can
 * neither trace it nor read its memory and environment; nothing keeps root from that.
 */
export function kernelFault(): string | undefined {
  if (process.platform !== "linux" || process.arch !== "x64") return "it is built for Linux on x86_64";
  try {
    const c = cLibrary();
    if (!knowsLandlock(c)) return "the kernel has no Landlock of ABI 6 or later";
    c.prctl(PR_SET_DUMPABLE, 0n, 0n, 0n, 0n);
    const isDumpable = c.prctl(PR_GET_DUMPABLE, 0n, 0n, 0n, 0n) !== 0;
    return isDumpable && c.getuid() !== 0 ? "the service can be traced by others of its user" : undefined;
  } catch (error) {
    return error instanceof Error ? error.message : "the C library cannot be used";
  }
}

/** For a launcher to start, and to try everything. */
const TIMEOUT_MS = 10_000;
const CPU_SECONDS = 10;
const DATA_BYTES = 1_073_741_824;
/** Discard: nobody listens there, and no profile should name it. */
const UNLISTENED_PORTS = [9, 11, 13];

type Trial = Pick<Orders, "grants" | "ports" | "filter">;

/**
 * Takes these rules upon a process and lets it try what must not work. Answers what is wrong with them, or nothing: then a child
 * under them is confined, on this machine, now.
 */
async function confinementFault(
  launchers: Launchers,
  { grants, ports, filter }: Trial,
  token: string,
): Promise<string | undefined> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "safe-tool-call-canary-")));
  try {
    const canary = join(folder, "canary");
    writeFileSync(canary, "not to be read", { mode: 0o600 });
    const port = UNLISTENED_PORTS.find((other) => !ports.includes(other)) ?? 1;
    const act = { kind: "probe", canary, port, readable: process.execPath } as const;
    const readable = { path: process.execPath, access: "read" } as const;
    const rules = { grants: [...grants, readable], ports, filter };
    const child = launchers.launch({
      ...rules,
      token,
      parent: process.pid,
      cpuSeconds: CPU_SECONDS,
      dataBytes: DATA_BYTES,
      act,
    });
    const timer = setTimeout(() => child.kill("SIGKILL"), TIMEOUT_MS);
    const [told, complaint] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    clearTimeout(timer);
    await child.exited;
    return faultOf(told, complaint, filter.network);
  } catch (error) {
    return error instanceof Error ? error.message : "it could not be tried";
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function faultOf(told: string, complaint: string, wantsNetwork: boolean): string | undefined {
  if (told === "") return complaint.slice(complaint.indexOf(" ") + 1).slice(0, 256) || "it ended without a word";
  const { leaks, missing, network } = JSON.parse(told) as ProbeReport;
  if (leaks.length > 0) return `it lets through: ${leaks.join(", ")}`;
  if (missing.length > 0) return `it refuses too much: ${missing.join(", ")}`;
  return network === wantsNetwork ? undefined : `sockets can${network ? "" : "not"} be made`;
}
