import type { HttpDoor, TargetRequest, TracedCall, TraceEnding } from "../../core/tracing.ts";
import type { AttributeValue } from "./span.ts";

export type Attributes = Readonly<Record<string, AttributeValue | undefined>>;

/** An identifier that a model's provider makes; anything else that an agent writes there stays where it is. */
const TOOL_CALL_ID = /^[A-Za-z][A-Za-z0-9_-]{0,127}$/;

/** What every span that stands for a call says of it. */
export function callAttributes({ decision, error, denial, approval }: TracedCall): Attributes {
  return {
    "stc.decision": decision,
    "stc.code": error?.code,
    "stc.stage": denial?.stage,
    "stc.approval.id": approval?.id,
    "error.type": decision === "PENDING" ? undefined : error?.code,
  };
}

/** Of the span `execute_tool`: the name of a tool that does not exist is the agent's text, and is not told. */
export function toolAttributes(
  call: TracedCall,
  traceId: string,
  isHarmless: (text: string) => boolean,
): Attributes & { readonly "gen_ai.tool.name": string } {
  const { tool, request } = call;
  const { callId } = request;
  const isKnown = tool.classification !== "unknown";
  const isShown = callId !== undefined && TOOL_CALL_ID.test(callId) && isHarmless(callId);
  return {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": isKnown ? tool.name : "unknown",
    "gen_ai.tool.type": "function",
    "gen_ai.tool.call.id": isShown ? callId : undefined,
    "stc.trace_id": traceId,
    "stc.classification": tool.classification,
    "stc.system": isKnown ? tool.targetSystem : undefined,
    ...callAttributes(call),
  };
}

export function serverAttributes({ call, http }: TraceEnding, { route, scheme }: HttpDoor): Attributes {
  return {
    "http.request.method": "POST",
    "http.route": route,
    "http.response.status_code": http,
    "url.path": route,
    "url.scheme": scheme,
    ...callAttributes(call),
    "error.type": http >= 500 ? call.error?.code : undefined,
  };
}

/** The current names, and those of before 1.38 that backends still look for. */
export function clientAttributes({ path, server }: TargetRequest, status: string): Attributes {
  const [, service = ""] = path.split("/");
  return {
    "rpc.system.name": "grpc",
    "rpc.method": path.slice(1),
    "rpc.response.status_code": status,
    "rpc.system": "grpc",
    "rpc.service": service,
    ...addressOf(server),
    "error.type": status === "OK" ? undefined : status,
  };
}

/** Of several servers the list as it is: which of them it was, only the connection knows. */
function addressOf(server: string): Attributes {
  const [, address, port] = /^([^,]{1,253}):(\d{1,5})$/.exec(server) ?? [];
  if (address === undefined || port === undefined) return { "server.address": server };
  return { "server.address": address, "server.port": Number(port) };
}
