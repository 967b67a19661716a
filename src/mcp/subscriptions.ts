import { createHash } from "node:crypto";
import { Refusal } from "../core/errors.ts";
import { isTable } from "../core/json.ts";
import { CHANGES, META } from "../core/mcp.ts";
import type { CallerContext } from "../core/types.ts";
import { certificateOf } from "../http/connections/listening-tls.ts";
import { ConcurrencyLimit } from "../http/connections/request-limits.ts";
import { type EndpointAnswer, type Exchange, perListener } from "../http/endpoint.ts";
import { eventStream, ServerSentEvents } from "../http/server-sent-events.ts";
import type { McpServices } from "./part.ts";
import { invalid, type RpcRequest } from "./protocol.ts";
import { eventText, responseText } from "./replies.ts";
import { toolsOf } from "./tools.ts";

/** Maximum numbers of open streams, those of both protocol eras together; a client needs one. */
const STREAMS = { totalMax: 512, perCallerMax: 8 } as const;
const CHECK_EVERY_MS = 1_000;
/** Time after which legacy clients connect again. They try twice, so that a restart may take twice as long. */
const RETRY_MS = 5_000;

const limitOf = perListener(() => new ConcurrencyLimit(STREAMS));

interface Subscriber {
  readonly exchange: Exchange;
  readonly caller: CallerContext;
}

/**
 * Answers `subscriptions/listen`: notifies the client when its list of tools has changed. The stream ends when the token
 * expires, the client disconnects or the service stops.
 *
 * @throws {RpcError} invalid params
 * @throws {Refusal} RATE_LIMITED
 */
export function listen(request: RpcRequest, subscriber: Subscriber, services: McpServices): EndpointAnswer {
  const { notifications: asked } = request.params;
  if (!isTable(asked)) throw invalid(request.id, "notifications must be an object");
  const isHonored = asked["toolsListChanged"] === true;
  const _meta = { [META.subscription]: request.id };
  const notification = (method: string, params: object): string =>
    eventText(JSON.stringify({ jsonrpc: "2.0", method, params: { ...params, _meta } }));
  return openStream(subscriber, services, (stream) => {
    const tools = new CallersTools(subscriber, services);
    const notifications = isHonored ? { toolsListChanged: true } : {};
    let opening: string | undefined = notification(CHANGES.acknowledged, { notifications });
    return async () => {
      const hasChanged = tools.hasChanged();
      if (opening !== undefined) await stream.send(opening);
      else if (hasChanged) await stream.send(notification(CHANGES.tools, {}));
      opening = undefined;
      if (isHonored && !isDraining(services)) return stream.pause(CHECK_EVERY_MS);
      await stream.send(eventText(responseText(request, { _meta })));
      return stream.end();
    };
  });
}

/**
 * Answers `GET /mcp`, the stream on which clients before 2026-07-28 are notified; undefined when too many are open. Each event's
 * id identifies the caller's list of tools: a client that connects again, to any process, is notified if its list has changed
 * meanwhile.
 *
 * @throws {Refusal} SHUTTING_DOWN
 */
export function follow(subscriber: Subscriber, services: McpServices): EndpointAnswer | undefined {
  if (isDraining(services)) throw new Refusal("SHUTTING_DOWN", "The service is shutting down: connect again.");
  const { "last-event-id": lastId } = subscriber.exchange.raw.headers;
  const changed = eventText(JSON.stringify({ jsonrpc: "2.0", method: CHANGES.tools }));
  try {
    return openStream(subscriber, services, (stream) => {
      const tools = new CallersTools(subscriber, services);
      let isOpen = false;
      return async () => {
        const hasChanged = tools.hasChanged();
        if (!isOpen) await stream.send(`retry: ${RETRY_MS}\nid: ${tools.id}\ndata:\n\n`);
        const wasMissed = !isOpen && lastId !== undefined && lastId !== tools.id;
        if (wasMissed || (isOpen && hasChanged)) await stream.send(`id: ${tools.id}\n${changed}`);
        isOpen = true;
        if (isDraining(services)) return stream.end();
        return stream.pause(CHECK_EVERY_MS);
      };
    });
  } catch (error) {
    if (error instanceof Refusal && error.code === "RATE_LIMITED") return undefined;
    throw error;
  }
}

function isDraining(services: McpServices): boolean {
  return services.notReady().includes("draining");
}

/** @throws {Refusal} RATE_LIMITED when too many streams are open */
function openStream(
  { exchange: { raw }, caller }: Subscriber,
  services: McpServices,
  stepsOn: (stream: ServerSentEvents) => () => Promise<void>,
): EndpointAnswer {
  const leave = limitOf(services).take(caller);
  return eventStream(async (client) => {
    const stream = new ServerSentEvents({
      client,
      tokenLeftMs: () => Math.max(0, caller.expiresAt * 1_000 - services.clock()),
      async verifyAgain() {
        await services.callers.verify(raw.headers.authorization, "agents", certificateOf(raw));
      },
    });
    await stream.run(stepsOn(stream)).finally(leave);
  });
}

/** The caller's list of tools, as a stream follows it. */
class CallersTools {
  readonly #subscriber: Subscriber;
  readonly #services: McpServices;
  #caller: CallerContext;
  #seen: { readonly registered: unknown; readonly caller: CallerContext } | undefined;
  #id = "";

  constructor(subscriber: Subscriber, services: McpServices) {
    this.#subscriber = subscriber;
    this.#caller = subscriber.caller;
    this.#services = services;
  }

  /** Identifies the tools and what they do, as a decimal number; the same in every process with the same configuration. */
  get id(): string {
    return this.#id;
  }

  /**
   * Returns whether the tools have changed since the last call: a reload replaces the list even without changes, and roles of the
   * caller may begin or end.
   */
  hasChanged(): boolean {
    const registered = this.#services.registry.list();
    const caller = this.#latestCaller();
    if (registered === this.#seen?.registered && caller === this.#seen.caller) return false;
    this.#seen = { registered, caller };
    const tools = toolsOf(registered, caller).map(({ tool, identity }) => [tool.name, identity]);
    const id = createHash("sha256").update(JSON.stringify(tools)).digest().readBigUInt64BE().toString();
    const hasChanged = id !== this.#id;
    this.#id = id;
    return hasChanged;
  }

  /** Returns the caller as of the last verification of its token, which calls and heartbeats cause. */
  #latestCaller(): CallerContext {
    const { raw } = this.#subscriber.exchange;
    try {
      const known = this.#services.callers.recall(raw.headers.authorization, "agents", certificateOf(raw));
      this.#caller = known?.caller ?? this.#caller;
    } catch {
      // The token is revoked: the next heartbeat ends the stream.
    }
    return this.#caller;
  }
}
