import { errorText } from "../core/error-text.ts";
import { Refusal } from "../core/errors.ts";
import type { RegisteredTool } from "../core/evidence.ts";
import type { CallerContext, ExecutionPlan, Tool } from "../core/types.ts";
import type { Parts } from "../runtime/composition/wiring.ts";
import type { Config } from "../runtime/config/config.ts";
import { agentIssuers, callersTenant } from "../runtime/config/tenants.ts";
import { argumentsIn } from "./arguments.ts";
import { type ConfigurationOptions, findTool, withParts } from "./configuration.ts";
import { CommandError, EXIT, print, wrongUsage } from "./output.ts";

const PLAN_TIMEOUT_MS = 30_000;

interface PlanOptions extends ConfigurationOptions {
  readonly json?: boolean;
  readonly sub?: string | undefined;
  readonly iss?: string | undefined;
  readonly askExternal?: boolean;
}

/**
 * `stc plan`: prints the exact argv or gRPC message of a call and the names of the metadata sent with it. Metadata values are not
 * printed: they are secrets, or known only at call time. Runs the lookups that planning needs, but not the call. With decision
 * points, also prints what they would be asked about a call of the subject, and what they answer.
 */
export async function plan(tool: string, args: string, options: PlanOptions): Promise<void> {
  const input = argumentsIn(args);
  await withParts(options, async (parts, config) => {
    const found = findTool(parts, tool, config);
    const caller = callerOf(found.tool, config, options);
    const planned = await makePlan(found, input).catch((error: unknown) => {
      throw new CommandError(EXIT.failed, problemOf(error));
    });
    const asked = await questions(parts, { tool: found.tool, caller, input: found.tool.input.parse(input) }, options);
    print.json(
      asked === undefined ? planned : { ...planned, decisionPoints: asked },
      options.json === true ? undefined : 2,
    );
  });
}

/** The caller of a call that nobody makes, with the permissions that the configuration gives it, or else those of the tool. */
function callerOf({ permissions }: Tool, config: Config, { sub, iss, askExternal }: PlanOptions): CallerContext {
  const agents = agentIssuers(config);
  const [only] = agents;
  const named = iss === undefined && agents.length === 1 ? only : agents.find(({ issuer }) => issuer === iss);
  if (askExternal === true && sub === undefined) return wrongUsage("--ask-external needs --sub");
  if (sub !== undefined && named === undefined) {
    const known = agents.map((each) => each.issuer).join(", ");
    return wrongUsage(`--iss must name one of ${known}`);
  }
  const held = named?.subjectPermissions?.[sub ?? ""] ?? permissions.required;
  return {
    issuer: named?.issuer ?? "(issuer)",
    subject: sub ?? "(subject)",
    tenant: callersTenant(config),
    permissions: held,
    actors: [],
    expiresAt: Number.POSITIVE_INFINITY,
  };
}

/** Returns the questions to the decision points, and the answers of those that may be asked; undefined without any. */
async function questions(
  { points }: Parts,
  request: Parameters<Parts["points"]["previews"]>[0],
  { sub, askExternal = false }: PlanOptions,
): Promise<object | undefined> {
  const previews = Object.entries(points.previews(request));
  if (previews.length === 0) return undefined;
  const answers = sub === undefined ? {} : await points.decisions(request, { external: askExternal });
  const shown = previews.map(([name, asks]) => {
    const answer = answers[name];
    if (answer === undefined) return [name, { asks }];
    const reasons = "reasons" in answer ? { reasons: answer.reasons } : {};
    return [name, { asks, answer: { verdict: answer.verdict, ...reasons } }];
  });
  return Object.fromEntries(shown);
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
