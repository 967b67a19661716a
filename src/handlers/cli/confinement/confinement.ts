import { mkdtempSync, realpathSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Fault, Refusal } from "../../../core/errors.ts";
import type { CliTarget, Tool } from "../../../core/types.ts";
import type { FilterOptions } from "./filter.ts";
import { createLaunchers, type Launched, type Launchers } from "./launchers.ts";
import { kernelFault } from "./kernel.ts";
import type { Program } from "./orders.ts";
import {
  type Confined,
  confinedBy,
  declaredProfile,
  grantsOf,
  portsOf,
  profileFaults,
  type Reach,
  UNCONFINED,
  type Unconfined,
} from "./profile.ts";
import { confinementFault, type Trial } from "./self-test.ts";

/** Over all threads and children that are waited for: programs use more than one processor. */
const CPU_SECONDS_PER_SECOND = 8;
const CPU_SECONDS_MIN = 10;

export interface ConfinementOptions {
  /** `require`: what cannot be confined is not registered. `prefer`: it runs unconfined, and says so. `off`: nothing is confined. */
  readonly mode: "require" | "prefer" | "off";
  /** Whether a shell may run unconfined. */
  readonly unconfinedShell: boolean;
  /** How many launchers wait for orders. */
  readonly launchersMax: number;
  /** By command name, absolute. */
  readonly commands: ReadonlyMap<string, string>;
  /** By system. */
  readonly reaches: ReadonlyMap<string, Reach>;
  readonly newId: () => string;
}

type Level = "confined" | "none";

/** How the children of these tools are held. Settled at start: a level that is lost later ends calls, it is never lowered. */
export interface ChildConfinement {
  /** Those that may run, and at which level; tools that start no child are in neither list. */
  readonly levels: ReadonlyMap<string, Level>;
  /** By name: why a tool may not run at all. */
  readonly withheld: ReadonlyMap<string, string>;
  /** Why nothing is confined here, or what was wrong with single profiles. For operators. */
  readonly notes: readonly string[];
  /** What this call's child may do: a part of its plan. @throws {Refusal} INTERNAL when the manifest asks for what cannot be */
  planned(tool: Tool, input: unknown): Confined | Unconfined;
  /** A place and a way to run one planned child. @throws {Refusal} TARGET_UNAVAILABLE when its level is no longer to be had */
  hold(tool: Tool, confined: Confined): Hold;
  close(): void;
}

/** One child's confinement. */
export interface Hold {
  /** Begins its standard error when it could not be started. */
  readonly token: string;
  readonly sweepsSession: boolean;
  launch(program: Program, timeoutMs: number): Launched;
  /** Takes away what was made for it. */
  release(): Promise<void>;
}

type CliTool = Tool & { readonly target: CliTarget };

/** Tries every profile that the tools have, and settles who is held how. */
export async function openConfinement(
  tools: readonly Tool[],
  options: ConfinementOptions,
): Promise<ChildConfinement> {
  const ours = tools.filter((tool): tool is CliTool => "cli" in tool.target);
  const launchers = createLaunchers(options.launchersMax);
  const kernel = options.mode === "off" ? "commands.confinement is off" : kernelFault();
  const faults = kernel === undefined ? await tryAll(ours, options, launchers) : new Map<string, string>();
  const levels = new Map<string, Level>();
  const withheld = new Map<string, string>();
  for (const { name, target } of ours) {
    const fault = kernel ?? faults.get(name);
    const may = options.mode !== "require" || options.mode === "require" && target.cli.shell !== undefined;
    if (fault === undefined) levels.set(name, "confined");
    else if (target.cli.shell === undefined ? may : options.unconfinedShell) levels.set(name, "none");
    else withheld.set(name, `not registered: no confinement (${fault})${target.cli.shell === undefined ? "" : "; commands.unconfinedBash: true lets it run without"}`);
  }
  return {
    levels,
    withheld,
    notes: [],
    planned: (tool, input) => planned(tool, input, { levels, options }),
    hold: (tool, confined) => hold(tool as CliTool, confined, { levels, options, launchers }),
    close: () => launchers.close(),
  };
}
