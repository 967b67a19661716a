import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import type { ToolFactory } from "../../../src/core/define-tool.ts";
import { Refusal } from "../../../src/core/errors.ts";
import { compilePolicy } from "../../../src/core/output-policy/output-policy.ts";
import { compileScan } from "../../../src/core/output-policy/scan-policy.ts";
import { PartialAnswer } from "../../../src/core/partial-answer.ts";
import type { Binding, ExecutionPlan, Tool, ToolConfig } from "../../../src/core/types.ts";
import { DETECTOR } from "../../../src/detection/sensitive.ts";
import { release } from "../../../src/pipeline/output-filter.ts";
import type { ConfinementKind } from "../../../src/targets/files/confinement.ts";
import { type FsLimits, fsHandler } from "../../../src/targets/files/handler.ts";
import { type MountName, type Mounts, openMounts } from "../../../src/targets/files/mounts.ts";
import { type WorkflowSettings, workflowRules } from "../../../src/targets/files/workflow.ts";
import { fsApplyPatch } from "../../../tools/workspace/fs-apply-patch.ts";
import { fsList } from "../../../tools/workspace/fs-list.ts";
import { fsRead } from "../../../tools/workspace/fs-read.ts";
import { fsSearch } from "../../../tools/workspace/fs-search.ts";
import { fsWrite } from "../../../tools/workspace/fs-write.ts";
import { afterFile } from "../../support/after-file.ts";
import { LIMITS } from "./stand-in.ts";

const FACTORIES: Readonly<Record<string, ToolFactory>> = {
  fs_list: fsList,
  fs_read: fsRead,
  fs_search: fsSearch,
  fs_write: fsWrite,
  fs_apply_patch: fsApplyPatch,
};

export const CONFINEMENTS: readonly ConfinementKind[] = ["openat2", "walk"];

const config: ToolConfig = {
  oneOf: () => z.enum(["none"]),
  sample: () => "",
  repository: () => "",
  gitDirectory: () => "",
  setting: () => "",
  path: () => "",
  shellWorkspace: () => "",
  workspaceMounts: () => ["@project", "@pkg", "@state"],
  has: () => false,
};

export interface StandOptions {
  readonly confinement?: ConfinementKind;
  readonly limits?: Partial<FsLimits>;
  readonly workflow?: Partial<WorkflowSettings>;
  readonly protectedPaths?: readonly string[];
  /** Directories of the mounts; by default, each has a folder of its own. */
  readonly directories?: Partial<Record<MountName, string>>;
  readonly now?: () => number;
}

export interface Running {
  readonly deadline?: number;
  readonly signal?: AbortSignal;
  readonly subject?: string;
  readonly begin?: () => void;
}

type Args = Readonly<Record<string, unknown>>;

export interface FsStand {
  /** Contains the three mounts and a folder `outside`. */
  readonly folder: string;
  readonly project: string;
  readonly pkg: string;
  readonly state: string;
  readonly outside: string;
  readonly mounts: Mounts;
  tool(name: string): Tool;
  plan(name: string, args: Args): Promise<ExecutionPlan>;
  run(name: string, plan: ExecutionPlan, running?: Running): Promise<Answer>;
  /** Parses, plans, runs and parses the output, as the pipeline does. */
  call(name: string, args: Args, running?: Running): Promise<Answer>;
}

export type Answer = Readonly<Record<string, unknown>>;

export function temporaryFolder(): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-fs-")));
  afterFile(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Creates the shipped tools over new mounts. The clock is at 0 by default. */
export function fsStand(options: StandOptions = {}): FsStand {
  const folder = temporaryFolder();
  const folderOf = (name: string): string => join(folder, name);
  for (const name of ["project", "pkg", "state", "outside"]) mkdirSync(folderOf(name));
  const directories = new Map(
    (["project", "pkg", "state"] as const).map(
      (name) => [name, options.directories?.[name] ?? folderOf(name)] as const,
    ),
  );
  const { protectedPaths = [], confinement } = options;
  const mounts = openMounts({ directories, protectedPaths, ...(confinement && { confinement }) });
  if (mounts === undefined) throw new Error("nothing confines paths here");
  afterFile(() => mounts.close());
  const handler = fsHandler({
    mounts,
    limits: { ...LIMITS, ...options.limits },
    workflow: workflowRules({ stateKey: "currentNodeId", ...options.workflow }),
    now: options.now ?? (() => 0),
    newId: () => crypto.randomUUID(),
  });
  const bound = new Map<string, { readonly tool: Tool; readonly binding: Binding }>();
  const of = (name: string) => {
    const made = FACTORIES[name]?.make(config);
    if (made === undefined) throw new Error(`no tool ${name}`);
    const known = bound.get(name) ?? { tool: made, binding: handler.bind(made) };
    bound.set(name, known);
    return known;
  };
  const idle = new AbortController().signal;
  const plan: FsStand["plan"] = async (name, args) => {
    const { tool, binding } = of(name);
    return binding.plan(tool.input.parse(args), { signal: idle });
  };
  const run: FsStand["run"] = async (name, sealed, running = {}) => {
    const { deadline = 20_000, signal = idle, subject = "agent", begin } = running;
    const { tool, binding } = of(name);
    const caller = { issuer: "https://idp.test", subject, permissions: [], actors: [], expiresAt: 0 };
    // A plan must survive JSON.
    const stored = JSON.parse(JSON.stringify(sealed)) as ExecutionPlan;
    return released(tool, await binding.run(stored, { signal, deadline, traceId: "trace", caller, begin }));
  };
  return {
    ...{
      folder,
      project: folderOf("project"),
      pkg: folderOf("pkg"),
      state: folderOf("state"),
      outside: folderOf("outside"),
      mounts,
    },
    tool: (name) => of(name).tool,
    plan,
    run,
    call: async (name, args, running) => run(name, await plan(name, args), running),
  };
}

/** Returns the code of the refusal; "done" when there is none. */
export async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "done";
  } catch (error) {
    if (error instanceof Refusal) return String(error.details?.["code"] ?? error.code);
    throw error;
  }
}

export async function refusalOf(work: Promise<unknown>): Promise<Refusal> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error instanceof Refusal) return error;
  throw new Error("was not refused", { cause: error });
}

/** Returns the answer; a partial one after the output filter. */
function released(tool: Tool, raw: unknown): Answer {
  if (!PartialAnswer.is(raw)) return tool.output.parse(raw) as Answer;
  const parts = { tool, outputPolicy: compilePolicy(tool.outputPolicy, tool.output), scan: compileScan(tool.scan) };
  return release({ ...parts, raw } as never, DETECTOR).result as Answer;
}
