import { z } from "zod";
import { Refusal } from "../../core/errors.ts";
import { toAnthropic, toJson, toOpenAi } from "../../core/tool-formats.ts";
import type { Caller, Tool } from "../../core/types.ts";
import { couldUse } from "../../pipeline/permission-engine.ts";
import { json } from "../answers.ts";
import { type Endpoint, endpoint } from "../endpoint.ts";
import { TOOL, TOOL_LIST } from "../openapi.ts";

const FORMATS = { json: toJson, openai: toOpenAi, anthropic: toAnthropic } as const;

const query = z.object({ format: z.enum(["json", "openai", "anthropic"]).default("json") });

export const endpoints: readonly Endpoint[] = [
  endpoint({
    method: "GET",
    path: "/tools",
    summary: "The tools that this caller could use.",
    audience: "agents",
    query,
    responses: { 200: { schema: TOOL_LIST } },
    audited: "tools.listed",
    handle({ caller, query: { format } }, { registry }) {
      const usable = registry.list().filter(({ tool }) => isUsable(tool, caller));
      return json(200, { tools: usable.map(({ tool }) => FORMATS[format](tool)) });
    },
  }),
  endpoint({
    method: "GET",
    path: "/tools/:name",
    summary: "One tool that this caller could use.",
    audience: "agents",
    params: z.object({ name: z.string() }),
    query,
    responses: { 200: { schema: { anyOf: [TOOL, { type: "object" }] } } },
    audited: "tools.listed",
    handle({ caller, params: { name }, query: { format } }, { registry }) {
      const tool = registry.find(name).registered?.tool;
      if (tool !== undefined && isUsable(tool, caller)) return json(200, FORMATS[format](tool));
      throw new Refusal("TOOL_NOT_FOUND", "There is no tool of this name that you may use: GET /tools lists those.");
    },
  }),
];

function isUsable({ permissions: { required } }: Tool, { permissions }: Caller): boolean {
  return couldUse(permissions, required);
}
