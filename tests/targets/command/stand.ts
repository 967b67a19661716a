import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { z } from "zod";
import { Refusal } from "../../../src/core/errors.ts";
import type {
  CallerContext,
  CliTarget,
  ExecutionPlan,
  Handler,
  TargetErrors,
  Tool,
  ToolClassification,
} from "../../../src/core/types.ts";
import { type CliHandlerOptions, cliHandler } from "../../../src/targets/command/handler.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const BIN = resolve(import.meta.dir, "../../support/bin");

/** The fixture programs by name, without `.sh`. */
export const programs: ReadonlyMap<string, string> = new Map(
  readdirSync(BIN)
    .filter((file) => file.endsWith(".sh"))
    .map((file) => [file.slice(0, -".sh".length), join(BIN, file)]),
);

export interface Stand {
  readonly handler: Handler;
  readonly emptyDirectory: string;
}

/** Creates a handler for the fixture programs. Its clock always returns 0, so a deadline is a number of milliseconds. */
export function stand(options: Partial<CliHandlerOptions> = {}): Stand {
  const emptyDirectory = options.emptyDirectory ?? temporaryDirectory();
  const handler = cliHandler({
    commands: programs,
    now: () => 0,
    newId: () => crypto.randomUUID(),
    ...options,
    emptyDirectory,
  });
  return { handler, emptyDirectory };
}

interface ToolOptions {
  readonly classification?: ToolClassification;
  readonly outputBytesMax?: number;
  readonly timeoutMs?: number;
  readonly errors?: TargetErrors;
}

/** Returns a tool as `defineTool` would complete it. */
export function standTool(
  cli: CliTarget<never>["cli"],
  output: z.ZodType = z.strictObject({ text: z.string() }),
  { classification = "read", outputBytesMax = 65_536, timeoutMs = 10_000, errors = "withheld" }: ToolOptions = {},
): Tool {
  return {
    name: "stand_tool",
    title: "Stand tool",
    description: "a tool of the tests",
    version: "1",
    classification,
    category: classification === "read" ? "read" : "command",
    permissions: { required: ["test:run"] },
    input: z.strictObject({}),
    output,
    outputPolicy: {},
    inputPolicy: {},
    scan: {},
    approval: {},
    target: { system: "stand", cli },
    errors,
    timeoutMs,
    limits: { outputBytesMax, concurrentCallsMax: 64 },
    idempotent: false,
    additive: false,
    examples: { accepts: [], rejects: [] },
  };
}

const caller: CallerContext = {
  issuer: "https://idp.test",
  subject: "agent",
  permissions: [],
  actors: [],
  expiresAt: 0,
};

interface CallOptions {
  readonly input?: unknown;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  readonly handler?: Handler;
}

/** Plans and runs, as the pipeline does. */
export async function call(tool: Tool, options: CallOptions = {}): Promise<unknown> {
  const { input = {}, timeoutMs = 10_000, signal = new AbortController().signal } = options;
  const binding = (options.handler ?? stand().handler).bind(tool);
  const plan = await binding.plan(input, { signal });
  return binding.run(plan, { signal, deadline: timeoutMs, traceId: "trace", caller });
}

export async function planOf(tool: Tool, options: CallOptions = {}): Promise<ExecutionPlan> {
  const { input = {}, signal = new AbortController().signal } = options;
  return (options.handler ?? stand().handler).bind(tool).plan(input, { signal });
}

/** Returns the refusal with which a call ends; any other end fails the test. */
export async function refusalFrom(work: Promise<unknown>): Promise<Refusal> {
  try {
    const answer = await work;
    throw new Error(`answered ${JSON.stringify(answer)}`);
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
}

/** Waits until a process has ended, reaped or not. */
export async function gone(pid: number): Promise<void> {
  while (isAlive(pid)) await Bun.sleep(5);
}

/** Waits for the pid that a fixture writes into a file. */
export async function pidIn(file: string): Promise<number> {
  for (;;) {
    const pid = Number.parseInt(
      await Bun.file(file)
        .text()
        .catch(() => ""),
      10,
    );
    if (Number.isSafeInteger(pid)) return pid;
    await Bun.sleep(5);
  }
}

function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2));
  } catch {
    return false;
  }
}
