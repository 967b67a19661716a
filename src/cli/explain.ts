import { readFileSync } from "node:fs";
import { type Explanation, explanation } from "../core/api/explain.ts";
import { errorText } from "../core/error-text.ts";
import { Refusal } from "../core/errors.ts";
import { printable, printableCell } from "../core/printable.ts";
import { statementSentences } from "../core/statement-words.ts";
import type { Mode } from "../core/types.ts";
import { policyVersionOf } from "../runtime/composition/reloading.ts";
import { callerOf, explainCall, type StatedCaller } from "../runtime/replay/explain.ts";
import { argumentsIn } from "./arguments.ts";
import { type ClientOptions, connectAndRequest, unknownAnswer } from "./client.ts";
import { type ConfigurationOptions, withParts } from "./configuration.ts";
import { CommandError, EXIT, print, table, wrongUsage } from "./output.ts";

interface ExplainOptions extends ConfigurationOptions, ClientOptions {
  readonly sub?: string;
  readonly iss?: string;
  readonly permissions?: string;
  readonly agentTokenFile?: string;
  readonly session?: string;
  readonly mode?: Mode;
  readonly lookups?: boolean;
  readonly service?: boolean;
}

/** `stc explain`: prints what every policy says about a call, from the configuration or from a running service. */
export async function explain(tool: string, typed: string, options: ExplainOptions): Promise<void> {
  const args = argumentsIn(typed);
  const { session, mode, lookups = false } = options;
  if (session !== undefined && options.service !== true)
    wrongUsage("--session needs --service: only a running service knows sessions");
  const caller = statedCaller(options);
  const found =
    options.service === true
      ? await askService(options, { tool, args, session, mode, lookups, ...caller })
      : await explainOffline(options, { tool, args, mode, lookups }, caller);
  if (options.json === true) print.json(found);
  const shown = explanation.safeParse(found).data ?? unknownAnswer();
  if (options.json !== true) for (const line of linesOf(tool, shown)) print.line(line);
  if (shown.verdict !== "allow") process.exitCode = EXIT.failed;
}

function statedCaller({ sub, iss, permissions, agentTokenFile }: ExplainOptions): StatedCaller {
  if (agentTokenFile === undefined) {
    const listed = permissions?.split(",").filter((name) => name !== "");
    return {
      ...(sub !== undefined && { sub }),
      ...(iss !== undefined && { iss }),
      ...(listed && { permissions: listed }),
    };
  }
  try {
    return { token: readFileSync(agentTokenFile, "utf8").trim() };
  } catch (error) {
    throw new CommandError(EXIT.noInput, `${agentTokenFile}: ${errorText(error)}`);
  }
}

async function askService(options: ClientOptions, body: object): Promise<unknown> {
  const { body: found } = await connectAndRequest(options, {
    method: "POST",
    path: "/explain",
    body: JSON.stringify(body),
  });
  return found;
}

async function explainOffline(
  options: ConfigurationOptions,
  call: Omit<Parameters<typeof explainCall>[1], "caller">,
  stated: StatedCaller,
): Promise<unknown> {
  return withParts(options, async (parts, config) => {
    const asked = { parts, config, policyVersion: policyVersionOf(config, parts) };
    try {
      return await explainCall(asked, { ...call, caller: await callerOf(asked, stated) });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return error.code === "MALFORMED_REQUEST"
        ? wrongUsage(error.message)
        : Promise.reject(new CommandError(EXIT.failed, `${error.code}: ${error.message}`));
    }
  });
}

function linesOf(tool: string, shown: Explanation): readonly string[] {
  const { caller, verdict, code, statements, permissions, rules, changes, plan, noPlan } = shown;
  const rows = statements.map((statement) => {
    const { stage, point, verdict: said } = statement;
    return [
      printable(stage),
      printableCell(point),
      printable(said),
      statementSentences(statement).map(printableCell).join(" "),
    ];
  });
  const list = (all: readonly string[]): string => all.map(printableCell).join(" ") || "-";
  return [
    `${printable(verdict)}${code === undefined ? "" : ` ${printable(code)}`}: ${printableCell(tool)} for ${printableCell(caller.sub)} (${printableCell(caller.iss)}), mode ${printable(shown.mode)}`,
    "",
    table([["STAGE", "POINT", "SAYS", "REASONS"], ...rows]),
    "",
    `permissions required: ${list(permissions.required)}; missing: ${list(permissions.missing)}`,
    ...(shown.risk === undefined ? [] : [`risk: ${printable(shown.risk)}; rules that matched: ${list(rules)}`]),
    ...(shown.dataFlow === undefined ? [] : flowLines(shown.dataFlow)),
    ...shown.approvalPolicies.map(policyLine),
    ...(changes.length === 0 ? [] : ["", "what would have to change for the call to run by itself:"]),
    ...changes.map(({ names: named, text }) => `  ${named.length === 0 ? "" : `${list(named)}: `}${printable(text)}`),
    "",
    ...(plan === undefined
      ? [`plan: ${printable(noPlan ?? "none")}`]
      : ["plan, as an approver sees it:", JSON.stringify(plan, null, 2)]),
    `configuration ${printable(shown.policyVersion)}`,
  ];
}

function flowLines({ labels, sources = [] }: NonNullable<Explanation["dataFlow"]>): readonly string[] {
  const read = labels === undefined ? "not known" : labels.map(printable).join(" and ") || "nothing";
  return [
    `the caller has read: ${read}`,
    ...sources.map(({ argument, tool, traceId, field, labels: carried, trusted }) => {
      const where = `${printableCell(tool)}, field ${printableCell(field)}, call ${printable(traceId)}`;
      const kind = trusted === true ? "trusted" : carried.map(printable).join(" and ");
      return `${printableCell(argument)} appeared in ${where}${kind === "" ? "" : `: ${kind}`}`;
    }),
  ];
}

function policyLine({ name, stages }: Explanation["approvalPolicies"][number]): string {
  const needed = stages.map(({ count, deciders }) => {
    const people = deciders.subjects?.map(({ subject }) => printableCell(subject)) ?? [];
    const who =
      people.length > 0
        ? people.join(", ")
        : `who holds ${["approvals:decide", ...deciders.permissions].map(printableCell).join(", ")}`;
    return `${count} of: ${who}`;
  });
  return `approval policy ${printableCell(name)}: ${needed.join("; then ")}`;
}
