import { errorText } from "../core/error-text.ts";
import { Refusal } from "../core/errors.ts";
import type { RegisteredTool } from "../core/evidence.ts";
import { isTable } from "../core/json.ts";
import type { ExecutionPlan } from "../core/types.ts";
import { type ConfigurationOptions, findTool, withParts } from "./configuration.ts";
import { CommandError, EXIT, print, wrongUsage } from "./output.ts";

const PLAN_TIMEOUT_MS = 30_000;

/**
 * `stc plan`: prints the exact argv or gRPC message of a call and the names of the metadata sent with it. Metadata values are not
 * printed: they are secrets, or known only at call time. Runs the lookups that planning needs, but not the call.
 */
export async function plan(
  tool: string,
  args: string,
  options: ConfigurationOptions & { readonly json?: boolean },
): Promise<void> {
  const input = parsed(args);
  if (input === undefined) return wrongUsage("the arguments are not JSON");
  if (!isTable(input)) return wrongUsage("the arguments are not a JSON object");
  await withParts(options, async (parts) => {
    const found = findTool(parts, tool);
    const planned = await makePlan(found, input).catch((error: unknown) => {
      throw new CommandError(EXIT.failed, problemOf(error));
    });
    print.json(planned, options.json === true ? undefined : 2);
  });
}

function parsed(args: string): unknown {
  try {
    return JSON.parse(args);
  } catch {
    return undefined;
  }
}

async function makePlan({ tool, binding }: RegisteredTool, args: unknown): Promise<ExecutionPlan> {
  const { success, data, error } = tool.input.safeParse(args);
  if (!success) {
    const lines = error.issues.map(({ path, message }) => `${path.join(".") || "(arguments)"}: ${message}`);
    throw new Error(lines.join("\n"));
  }
  const planned = await binding.plan(data, { signal: AbortSignal.timeout(PLAN_TIMEOUT_MS) });
  return binding.preview?.(planned) ?? planned;
}

function problemOf(error: unknown): string {
  if (!(error instanceof Refusal)) return errorText(error);
  const { code, message, cause } = error;
  return cause instanceof Error ? `${code}: ${message} (${cause.message})` : `${code}: ${message}`;
}
