import type { EventSink } from "../http/endpoint.ts";
import { beginHold } from "../http/routes/call.ts";
import type { PageRound } from "./elicitation.ts";
import type { McpServices } from "./part.ts";
import type { RpcRequest } from "./protocol.ts";
import { eventText } from "./replies.ts";
import type { ToolCall } from "./tool-call.ts";

/** Calls on hold: the client waits for the answer while the call waits for an approver. */

/** Maximum hold for a client that did not ask for progress: such clients give up after about a minute. */
const QUIET_HOLD_MS = 50_000;
const HEARTBEAT_MS = 15_000;

interface Holding {
  readonly services: McpServices;
  readonly round: PageRound | undefined;
  /** Called when the call starts to wait for an approver, if its client reads events. */
  readonly onHold: () => void;
}

export interface Held {
  /** Whether the whole time has passed without a decision. */
  hasRunOut: boolean;
}

/** Allows the call to wait for an approver until its token expires, if its caller does not hold too many calls. */
export function allowHold(
  call: ToolCall,
  { progressToken, era }: RpcRequest,
  { services, round, onHold }: Holding,
): Held {
  const held: Held = { hasRunOut: false };
  const startedAt = services.clock();
  const readsEvents = (call.exchange.raw.headers.accept ?? "").includes("text/event-stream");
  const longestMs = services.mcp.holdSeconds * 1_000;
  const isLong = readsEvents && progressToken !== undefined && round === undefined;
  call.waitMs = isLong ? longestMs : Math.min(longestMs, QUIET_HOLD_MS);
  const isNew = async (approvalId: string): Promise<boolean> => {
    const age = await ageOf(approvalId, services);
    return age === undefined || age <= services.clock() - startedAt;
  };
  call.hold = {
    async begin(caller, approvalId) {
      // A client that does not know the page yet gets its URL first.
      if (round === "earlier" && (await isNew(approvalId))) return undefined;
      const leave = beginHold(services, caller, { keepsRequest: !readsEvents });
      if (leave === undefined) return undefined;
      const tokenLeftMs = Math.max(0, caller.expiresAt * 1_000 - services.clock());
      const waitMs = Math.min(call.waitMs, tokenLeftMs);
      const timer = setTimeout(() => {
        held.hasRunOut = tokenLeftMs > call.waitMs;
      }, waitMs);
      // The request ends here for a client that reads events: its answer is a stream.
      if (readsEvents) onHold();
      const end = (): void => {
        clearTimeout(timer);
        leave();
      };
      // In the legacy era, a connection that is lost does not cancel its call.
      return { waitMs, end, isCancelledByDisconnect: readsEvents && era === "modern" };
    },
  };
  return held;
}

/** Returns undefined when the store fails. */
export async function ageOf(approvalId: string, { approvals, logError }: McpServices): Promise<number | undefined> {
  try {
    return await approvals?.ageOf(approvalId);
  } catch (error) {
    logError(error);
    return undefined;
  }
}

interface Waiting {
  readonly request: RpcRequest;
  /** The response, as JSON. */
  readonly response: Promise<string>;
  readonly services: McpServices;
}

/** Sends a heartbeat every 15 s, as a progress notification if the client asked for progress; then sends the response. */
export async function sendWhenEnded(client: EventSink, { request, response, services }: Waiting): Promise<void> {
  const startedAt = services.clock();
  let isDisconnected = false;
  client.onDisconnect(() => {
    isDisconnected = true;
  });
  const sendHeartbeat = (): void => {
    if (!isDisconnected) client.write(heartbeatText(request, Math.floor((services.clock() - startedAt) / 1_000)));
  };
  const heartbeat = setInterval(sendHeartbeat, HEARTBEAT_MS);
  try {
    sendHeartbeat();
    const text = await response;
    if (!isDisconnected) client.write(eventText(text));
  } catch (error) {
    services.logError(error);
  } finally {
    clearInterval(heartbeat);
    client.end();
  }
}

function heartbeatText({ progressToken }: RpcRequest, seconds: number): string {
  if (progressToken === undefined) return ": waiting for an approver\n\n";
  const params = { progressToken, progress: seconds, message: "A person is asked whether this call may run." };
  return eventText(JSON.stringify({ jsonrpc: "2.0", method: "notifications/progress", params }));
}
