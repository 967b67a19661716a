import { isTable } from "../../core/json.ts";
import { PartialAnswer } from "../../core/partial-answer.ts";
import type {
  Binding,
  CallerContext,
  EpochMs,
  ExecutionPlan,
  FsTarget,
  Handler,
  PlanContext,
  RunContext,
  Tool,
} from "../../core/types.ts";
import { changeFrontmatter, type FrontmatterChange } from "./frontmatter.ts";
import { fsHeadline } from "./headline.ts";
import { type ListRequest, listDirectory } from "./list.ts";
import type { Mounts } from "./mounts.ts";
import { applyPatch } from "./patch.ts";
import { type ReadRequest, readFile } from "./read.ts";
import { fileRefusal } from "./refusals.ts";
import { type SearchLimits, type SearchRequest, search } from "./search.ts";
import type { WorkflowRules } from "./workflow.ts";
import { overLimit, planWrite, type WritePlan, type WriteRequest } from "./write-plan.ts";
import { runWrite } from "./write-run.ts";

interface AgentLimits {
  /** Maximum bytes that a read returns. */
  readonly maxReadBytes: number;
  /** Maximum size of a file after a write. */
  readonly maxWriteBytes: number;
}

export interface FsLimits extends AgentLimits {
  /** Larger files are neither read nor replaced. */
  readonly fileBytesMax: number;
  readonly search: SearchLimits;
  readonly agents: readonly {
    readonly issuer: string;
    readonly subject: string;
    readonly maxReadBytes?: number | undefined;
    readonly maxWriteBytes?: number | undefined;
  }[];
}

interface FsHandlerOptions {
  readonly mounts: Mounts;
  readonly limits: FsLimits;
  readonly workflow: WorkflowRules;
  /** Reads the clock of `RunContext.deadline`. */
  readonly now: () => EpochMs;
  /** Returns a fresh, unguessable id: `[A-Za-z0-9-]+`. */
  readonly newId: () => string;
}

/** Creates the handler for files in the workspace's mounts, and nothing outside them. */
export function fsHandler(options: FsHandlerOptions): Handler {
  return {
    bind: (tool) => bind(tool, options),
    async close() {
      options.mounts.close();
    },
  };
}

function bind(tool: Tool, options: FsHandlerOptions): Binding {
  const { operation } = (tool.target as FsTarget).fs;
  if (operation === "write" || operation === "apply_patch") {
    const requestOf = operation === "write" ? writeRequest : patchRequest;
    return {
      writesFiles: true,
      callsBegin: true,
      fixedParts: ({ kind, operation: planned, workflow }) => ({
        kind,
        operation: planned ?? null,
        workflow: workflow ?? null,
      }),
      headline: fsHeadline,
      plan: (input, context) => planChange(options, requestOf(input as never), context),
      run: (plan, context) => runChange(options, plan as WritePlan, context),
    };
  }
  // The plan of a read is its arguments. Files are accessed only when it runs.
  return {
    plan: (input) => ({ kind: "fs", operation, order: input as never }),
    fixedParts: ({ kind, operation: planned }) => ({ kind, operation: planned ?? null }),
    headline: fsHeadline,
    async run(plan, context) {
      const answer = await READS[operation](options, plan["order"] as never, context);
      const isPart = !PartialAnswer.is(answer) && isTable(answer) && answer["truncated"] === true;
      return isPart ? new PartialAnswer(answer) : answer;
    },
  };
}

const READS = {
  async list({ mounts }: FsHandlerOptions, order: ListRequest) {
    return listDirectory(mounts, order);
  },
  read({ mounts, limits }: FsHandlerOptions, order: ReadRequest, { caller, signal }: RunContext) {
    const { maxReadBytes } = limitsOf(limits, caller);
    return readFile(mounts, order, { maxReadBytes, fileBytesMax: limits.fileBytesMax, signal });
  },
  search({ mounts, limits, now }: FsHandlerOptions, order: SearchRequest, { signal }: RunContext) {
    return search(mounts, order, { limits: limits.search, signal, now });
  },
} as const;

type WriteInput = Omit<WriteRequest, "make" | "needsText"> & { readonly content: string };

function writeRequest({ content, ...target }: WriteInput): WriteRequest {
  return { ...target, make: () => content, needsText: false };
}

interface PatchInput {
  readonly path: string;
  readonly ifMatchSha256?: string | undefined;
  readonly patch:
    | ({ readonly operation: "updateFrontmatter" } & FrontmatterChange)
    | { readonly operation: "unifiedDiff"; readonly diff: string };
}

function patchRequest({ path, ifMatchSha256, patch }: PatchInput): WriteRequest {
  return {
    path,
    ifMatchSha256,
    createDirectories: false,
    needsText: true,
    make(before) {
      if (patch.operation === "unifiedDiff") return applyPatch(before, patch.diff);
      if (before === undefined) throw fileRefusal("ENOENT");
      return changeFrontmatter(before, patch);
    },
  };
}

function planChange(
  { mounts, limits, workflow }: FsHandlerOptions,
  order: WriteRequest,
  { signal }: PlanContext,
): Promise<ExecutionPlan> {
  const { fileBytesMax } = limits;
  return planWrite(mounts, order, { maxWriteBytes: maxWriteBytesOfAll(limits), fileBytesMax, workflow, signal });
}

async function runChange(
  { mounts, limits, now, newId }: FsHandlerOptions,
  plan: WritePlan,
  { caller, signal, deadline, begin }: RunContext,
) {
  const { maxWriteBytes } = limitsOf(limits, caller);
  if (plan.bytes > maxWriteBytes) throw overLimit(maxWriteBytes);
  return runWrite(mounts, plan, { fileBytesMax: limits.fileBytesMax, signal, begin, now, deadline, newId });
}

function limitsOf(limits: FsLimits, { issuer, subject }: Pick<CallerContext, "issuer" | "subject">): AgentLimits {
  const own = limits.agents.find((agent) => agent.issuer === issuer && agent.subject === subject);
  return {
    maxReadBytes: own?.maxReadBytes ?? limits.maxReadBytes,
    maxWriteBytes: own?.maxWriteBytes ?? limits.maxWriteBytes,
  };
}

/** Returns the highest write limit of all callers, for plans, which do not know the caller. */
function maxWriteBytesOfAll({ maxWriteBytes, agents }: FsLimits): number {
  return Math.max(maxWriteBytes, ...agents.map((agent) => agent.maxWriteBytes ?? 0));
}
