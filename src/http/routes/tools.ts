import { z } from "zod";
import { Refusal } from "../../core/errors.ts";
import { toAnthropic, toJson, toOpenAi } from "../../core/tool-formats.ts";
import type { Caller, Tool } from "../../core/types.ts";
import { couldUse } from "../../pipeline/permission-engine.ts";
import { meantTool } from "../../pipeline/registry.ts";
import { json } from "../answers.ts";
import { type Endpoint, endpoint } from "../endpoint.ts";

const FORMATS = { json: toJson, openai: toOpenAi, anthropic: toAnthropic } as const;

const query = z.object({ format: z.enum(["json", "openai", "anthropic"]).default("json") });

export const endpoints: readonly Endpoint[] = [
  endpoint({
    method: "GET",
    path: "/tools",
    summary: "The tools that this caller could use.",
    audience: "agents",
    query,
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
    audited: "tools.listed",
    handle({ caller, params: { name }, query: { format } }, { registry }) {
      const tool = registry.find(name).registered?.tool;
      if (tool !== undefined && isUsable(tool, caller)) return json(200, FORMATS[format](tool));
      const meant = meantTool(name, registry.list(), caller);
      const question = meant === undefined ? "" : `; did you mean ${meant}?`;
      throw new Refusal(
        "TOOL_NOT_FOUND",
        `There is no tool of this name that you may use: GET /tools lists those${question || "."}`,
        meant === undefined ? {} : { details: { didYouMean: meant } },
      );
    },
  }),
];

function isUsable({ permissions: { required } }: Tool, { permissions }: Caller): boolean {
  return couldUse(permissions, required);
}
