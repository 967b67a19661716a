import { isTable } from "../core/json.ts";
import type { Caller } from "../core/types.ts";
import { certificateOf } from "../http/connections/listening-tls.ts";
import { ConcurrencyLimit } from "../http/connections/request-limits.ts";
import { type EndpointAnswer, type Exchange, perListener } from "../http/endpoint.ts";
import { eventStream, ServerSentEvents } from "../http/server-sent-events.ts";
import type { McpServices } from "./calls.ts";
import { invalid, META, type RpcRequest } from "./protocol.ts";
import { eventText, responseText } from "./replies.ts";
import { toolsOf } from "./tools.ts";

/** Maximum numbers of open streams; a client needs one. */
const STREAMS = { totalMax: 512, perCallerMax: 8 } as const;
const CHECK_EVERY_MS = 1_000;

const limitOf = perListener(() => new ConcurrencyLimit(STREAMS));

interface Subscriber {
  readonly exchange: Exchange;
  readonly caller: Caller;
}

/**
 * Answers `subscriptions/listen`: notifies the client when its list of tools has changed. The stream ends when the token
 * expires, the client disconnects or the service stops.
 *
 * @throws {RpcError} invalid params
 * @throws {Refusal} RATE_LIMITED
 */
export function listen(request: RpcRequest, { exchange, caller }: Subscriber, services: McpServices): EndpointAnswer {
  const { notifications: asked } = request.params;
  if (!isTable(asked)) throw invalid(request.id, "notifications must be an object");
  const honored = asked["toolsListChanged"] === true ? { toolsListChanged: true } : {};
  const leave = limitOf(services).take(caller);
  return eventStream(async (client) => {
    const stream = new ServerSentEvents({
      client,
      tokenLeftMs: () => Math.max(0, caller.expiresAt * 1_000 - services.clock()),
      async verifyAgain() {
        const { raw } = exchange;
        await services.callers.verify(raw.headers.authorization, "agents", certificateOf(raw));
      },
    });
    const subscription = new ToolSubscription({ request, caller, services, stream, honored });
    await stream.run(() => subscription.step()).finally(leave);
  });
}

interface SubscriptionOptions {
  readonly request: RpcRequest;
  readonly caller: Caller;
  readonly services: McpServices;
  readonly stream: ServerSentEvents;
  readonly honored: { readonly toolsListChanged?: boolean };
}

class ToolSubscription {
  readonly #options: SubscriptionOptions;
  #registered: unknown;
  /** The caller's tools as last notified; undefined before the acknowledgement. */
  #names: string | undefined;

  constructor(options: SubscriptionOptions) {
    this.#options = options;
  }

  async step(): Promise<void> {
    const { services, stream, honored } = this.#options;
    if (this.#names === undefined) await this.#acknowledge();
    else if (this.#hasChanged()) await this.#notify("notifications/tools/list_changed", {});
    if (honored.toolsListChanged === true && !services.notReady().includes("draining")) {
      await stream.pause(CHECK_EVERY_MS);
      return;
    }
    await stream.send(eventText(responseText(this.#options.request, this.#mark())));
    stream.end();
  }

  async #acknowledge(): Promise<void> {
    this.#hasChanged();
    await this.#notify("notifications/subscriptions/acknowledged", { notifications: this.#options.honored });
  }

  /** Returns whether this caller's tools or their identities have changed: a reload replaces the list even without changes. */
  #hasChanged(): boolean {
    const { services, caller } = this.#options;
    const registered = services.registry.list();
    if (registered === this.#registered) return false;
    this.#registered = registered;
    const names = JSON.stringify(toolsOf(registered, caller).map(({ tool, identity }) => [tool.name, identity]));
    const hasChanged = names !== this.#names;
    this.#names = names;
    return hasChanged;
  }

  #notify(method: string, params: { readonly notifications?: object }): Promise<void> {
    const text = JSON.stringify({ jsonrpc: "2.0", method, params: { ...params, ...this.#mark() } });
    return this.#options.stream.send(eventText(text));
  }

  #mark() {
    return { _meta: { [META.subscription]: this.#options.request.id } };
  }
}
