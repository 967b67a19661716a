import { z } from "zod";
import { createDefineTool } from "../../src/core/define-tool.ts";
import type { CallerContext, Json, Tool } from "../../src/core/types.ts";
import { openCedar } from "../../src/decision-points/cedar/cedar.ts";
import type { OpenedPoint, PointAnswer } from "../../src/decision-points/kind.ts";
import { MODULES } from "../../src/modules.ts";

export const NOW = Date.parse("2026-11-23T10:00:00Z");

interface Files {
  readonly policies: string;
  readonly schema?: string;
  readonly entities?: unknown;
  readonly issuers?: readonly string[];
}

/** Opens a point with these files. Returns the problems instead when there are any. */
export async function cedarPoint(
  files: string | Files,
): Promise<{ point: OpenedPoint | undefined; problems: string[] }> {
  const {
    policies,
    schema,
    entities,
    issuers = ["https://idp.test"],
  } = typeof files === "string" ? { policies: files } : (files as Files);
  const problems: string[] = [];
  const texts: Readonly<Record<string, string | undefined>> = {
    "p.cedar": policies,
    "s.cedarschema": schema,
    "e.json": typeof entities === "string" ? entities : JSON.stringify(entities),
  };
  const settings = {
    policiesFile: "p.cedar",
    ...(schema !== undefined && { schemaFile: "s.cedarschema" }),
    ...(entities !== undefined && { entitiesFile: "e.json" }),
  };
  const point = await openCedar(settings, {
    ...{ name: "rules", field: "decisionPoints[0].cedar", timeoutMs: 1_000, problems, issuers },
    ...{ now: () => NOW, random: () => 0, pathOf: (path: string) => path, watchFiles: () => () => {} },
    readFile: (path) => Buffer.from(texts[path] ?? ""),
  });
  return { point, problems };
}

const defineTool = createDefineTool(MODULES.targetKinds);

/** A tool of the system `bank` with these arguments. */
export function toolOf(name: string, input: z.ZodRawShape = {}): Tool {
  return defineTool({
    ...{ name, description: "Does a thing for a test", classification: "write", category: "network" },
    permissions: { required: ["money:send"] },
    input: z.strictObject(input),
    output: z.object({ ok: z.boolean() }),
    outputPolicy: { ok: "allow" },
    handler: () => ({ ok: true }),
  } as never) as unknown as Tool;
}

export function callerOf(more: Partial<CallerContext> = {}): CallerContext {
  const known = { issuer: "https://idp.test", subject: "ann", permissions: ["money:send"], actors: [], expiresAt: 1 };
  return { ...known, ...more };
}

interface Question {
  readonly tool?: Tool;
  readonly caller?: Partial<CallerContext>;
  readonly args?: { readonly [name: string]: Json };
}

/** Asks the point. Returns the text of the error when it cannot decide. */
export function ask(point: OpenedPoint | undefined, { tool = PAY, caller, args = {} }: Question = {}): unknown {
  try {
    const answer = point?.evaluate({ tool, caller: callerOf(caller), args, traceId: undefined }) as PointAnswer;
    return answer.allows ? "allow" : answer.reasons;
  } catch (error) {
    return error instanceof Error ? error.message : error;
  }
}

export const PAY: Tool = toolOf("pay", { amount: z.int(), to: z.string().max(100).optional() });
