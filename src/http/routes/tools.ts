import { z } from "zod";
import { Refusal } from "../../core/errors.ts";
import { exportTool, TOOL_FORMATS } from "../../core/tool-export.ts";
import type { CallerContext, Tool } from "../../core/types.ts";
import { couldUse } from "../../pipeline/built-in-points.ts";
import type { Registry } from "../../pipeline/registry.ts";
import { meantTool } from "../../pipeline/registry.ts";
import { json } from "../answers.ts";
import { type Endpoint, endpointsWith } from "../endpoint.ts";
import { TOOL, TOOL_LIST } from "../openapi.ts";

/** What these endpoints need of the service. */
export interface ToolsPart {
  readonly registry: Registry;
}

const { endpoint } = endpointsWith<ToolsPart>();

/** `strict`: as the format's strict mode takes them, for the tools whose schemas it can express. */
const query = z.object({
  format: z.enum(TOOL_FORMATS).default("json"),
  strict: z.enum(["true", "false"]).default("false"),
});

export const endpoints: readonly Endpoint<ToolsPart>[] = [
  endpoint({
    method: "GET",
    path: "/tools",
    summary: "The tools that this caller could use.",
    audience: "agents",
    query,
    responses: { 200: { schema: TOOL_LIST } },
    audited: "tools.listed",
    handle({ caller, query: { format, strict } }, { registry }) {
      const usable = registry.list().filter(({ tool }) => isUsable(tool, caller));
      return json(200, { tools: usable.map(({ tool }) => exportTool(tool, { format, strict: strict === "true" })) });
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
    handle({ caller, params: { name }, query: { format, strict } }, { registry }) {
      const tool = registry.find(name).registered?.tool;
      if (tool !== undefined && isUsable(tool, caller))
        return json(200, exportTool(tool, { format, strict: strict === "true" }));
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

function isUsable({ permissions: { required } }: Tool, { permissions }: CallerContext): boolean {
  return couldUse(permissions, required);
}
