import type { FastifyInstance } from "fastify";
import { Refusal } from "../../core/errors.ts";
import { toAnthropic, toJson, toOpenAi } from "../../core/tool-formats.ts";
import type { Caller, Tool } from "../../core/types.ts";
import type { CallerContext } from "../../pipeline/caller-context.ts";
import { couldUse } from "../../pipeline/permission-engine.ts";
import type { Registry } from "../../pipeline/registry.ts";
import { certificateOf } from "../connections/listening-tls.ts";
import type { RequestRateLimiter } from "../connections/request-rate.ts";
import { sendJson } from "../error-reply.ts";
import { checkPeerHeaders, type PeerLimits } from "../request-guard.ts";

export interface ToolRoutesOptions extends PeerLimits {
  readonly registry: Registry;
  readonly callers: CallerContext;
  /** Rate limit per caller; without it, requests are not rate-limited. */
  readonly pace?: RequestRateLimiter | undefined;
  /** Resolves when the line is durable; the listing is answered only then. */
  readonly journal: (line: {
    readonly type: "tools.listed";
    readonly sub: string;
    readonly iss: string;
  }) => Promise<void>;
}

export const FORMATS = { json: toJson, openai: toOpenAi, anthropic: toAnthropic } as const;

/** Declares `GET /tools` and `GET /tools/:name`, which show only the tools that this caller could use. */
export function toolRoutes(app: FastifyInstance, options: ToolRoutesOptions): void {
  const { registry, callers, journal } = options;

  app.get<{ Querystring: { format?: string } }>("/tools", async (request, reply) => {
    checkPeerHeaders(request.raw, options);
    const { caller } = await callers.verify(request.headers.authorization, "agents", certificateOf(request.raw));
    options.pace?.take(caller);
    const format = formatOf(request.query.format);
    await recordListing(journal, caller);
    return sendJson(reply, 200, { tools: usable(registry, caller).map((tool) => format(tool)) });
  });

  app.get<{ Params: { name: string }; Querystring: { format?: string } }>("/tools/:name", async (request, reply) => {
    checkPeerHeaders(request.raw, options);
    const { caller } = await callers.verify(request.headers.authorization, "agents", certificateOf(request.raw));
    options.pace?.take(caller);
    const format = formatOf(request.query.format);
    const { registered } = registry.find(request.params.name);
    const tool = registered === undefined ? undefined : ifUsable(registered.tool, caller);
    if (tool === undefined)
      throw new Refusal("TOOL_NOT_FOUND", "There is no tool of this name that you may use: GET /tools lists those.");
    await recordListing(journal, caller);
    return sendJson(reply, 200, format(tool));
  });
}

/** @throws {Refusal} AUDIT_UNAVAILABLE */
async function recordListing(journal: ToolRoutesOptions["journal"], { subject, issuer }: Caller): Promise<void> {
  try {
    await journal({ type: "tools.listed", sub: subject, iss: issuer });
  } catch (cause) {
    throw new Refusal("AUDIT_UNAVAILABLE", "The listing could not be recorded.", {
      details: { outcome: "not_run" },
      cause,
    });
  }
}

function usable(registry: Registry, caller: Caller): readonly Tool[] {
  return registry.list().flatMap(({ tool }) => ifUsable(tool, caller) ?? []);
}

function ifUsable(tool: Tool, { permissions }: Caller): Tool | undefined {
  return couldUse(permissions, tool.permissions.required) ? tool : undefined;
}

function formatOf(format: unknown = "json"): (tool: Tool) => unknown {
  if (typeof format === "string" && Object.hasOwn(FORMATS, format)) return FORMATS[format as keyof typeof FORMATS];
  throw new Refusal("MALFORMED_REQUEST", "format must be json, openai or anthropic.");
}
