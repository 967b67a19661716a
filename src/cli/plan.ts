import { errorText } from "../core/error-text.ts";
import { Refusal } from "../core/errors.ts";
import { isTable } from "../core/json.ts";
import type { ExecutionPlan } from "../core/types.ts";
import { assemble, type Parts } from "../runtime/composition/wiring.ts";
import { type ConfigurationOptions, configuration } from "./configuration.ts";
import { EXIT, print, StdoutError, wrongUsage } from "./output.ts";
import { printable } from "./printable.ts";

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
  const { config } = await configuration(options);
  const parts = await assemble(config);
  try {
    const made = await makePlan(parts, tool, input);
    if (made === undefined) return wrongUsage(`there is no tool ${printable(tool)}; \`stc tools\` lists them`);
    if (options.json === true) print.json(made);
    else print.json(made, 2);
  } catch (error) {
    if (error instanceof StdoutError) throw error;
    print.error(problem(error));
    process.exitCode = EXIT.failed;
  } finally {
    await parts.close();
  }
}

function parsed(args: string): unknown {
  try {
    return JSON.parse(args);
  } catch {
    return undefined;
  }
}

async function makePlan({ registry }: Parts, name: string, args: unknown): Promise<ExecutionPlan | undefined> {
  const found = registry.list().find(({ tool }) => tool.name === name);
  if (found === undefined) return undefined;
  const parsed = found.tool.input.safeParse(args);
  if (parsed.success) {
    const made = await found.binding.plan(parsed.data, { signal: AbortSignal.timeout(PLAN_TIMEOUT_MS) });
    return found.binding.preview?.(made) ?? made;
  }
  throw new Error(
    parsed.error.issues.map(({ path, message }) => `${path.join(".") || "(arguments)"}: ${message}`).join("\n"),
  );
}

function problem(error: unknown): string {
  if (error instanceof Refusal) {
    const { code, message, cause } = error;
    return cause instanceof Error ? `${code}: ${message} (${cause.message})` : `${code}: ${message}`;
  }
  return errorText(error);
}
