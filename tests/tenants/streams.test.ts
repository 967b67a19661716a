import { describe, expect, test } from "bun:test";
import { AGENTS_SERVERS, type AgentsServer } from "../http/agents-servers.ts";
import { ENVELOPE, MODERN } from "../mcp/mcp-world.ts";
import { until } from "../support/until.ts";
import { actAs } from "./acts.ts";
import { normal } from "./normal.ts";
import { TenantsWorld } from "./tenants-world.ts";

/** The streams of one tenant, while the other uses everything. */

const SSE = { accept: "text/event-stream" };
const LEGACY = { ...SSE, "mcp-protocol-version": "2025-11-25" };
const LISTEN = {
  ...{ jsonrpc: "2.0", id: 5, method: "subscriptions/listen" },
  params: { notifications: { toolsListChanged: true }, _meta: ENVELOPE },
};

/** A stream as a client reads it. */
class Stream {
  text = "";
  readonly #end = new AbortController();

  async open(world: TenantsWorld, path: string, { token, headers = SSE, body }: Opened): Promise<this> {
    const response = await fetch(`${world.url}${path}`, {
      headers: { authorization: `Bearer ${token}`, ...headers },
      ...(body !== undefined && { method: "POST", body: JSON.stringify(body) }),
      signal: this.#end.signal,
    });
    expect(response.status).toBe(200);
    void this.#read(response).catch(() => {});
    return this;
  }

  close(): void {
    this.#end.abort();
  }

  async #read(response: Response): Promise<void> {
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) this.text += decoder.decode(chunk, { stream: true });
  }

  /** Its lines, without comments that keep the connection open, and without offsets, which depend on the digits of durations. */
  get lines(): readonly unknown[] {
    const lines = this.text.split("\n").filter((line) => line !== "" && !line.startsWith(":"));
    return lines.map((line) =>
      line.startsWith("data: ") ? normal(line.slice("data: ".length)) : line.replace(/^id: .*:\d+$/, "id: #offset"),
    );
  }
}

interface Opened {
  readonly token: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

async function seenByGlobex(http: AgentsServer, isAcmeBusy: boolean) {
  const world = new TenantsWorld();
  const opened: Stream[] = [];
  const open = async (path: string, asked: Opened): Promise<Stream> => {
    const stream = await new Stream().open(world, path, asked);
    opened.push(stream);
    return stream;
  };
  try {
    await world.start({ http });
    const [agent, operator] = [await world.agentOf("globex"), await world.operatorOf("globex")];
    const events = await open("/events", { token: operator });
    const own = await open("/events", { token: agent });
    const tail = await open("/audit/tail", { token: operator });
    const changes = await open("/mcp", { token: agent, headers: LEGACY });
    const listening = await open("/mcp", {
      token: agent,
      headers: {
        ...{ accept: "application/json, text/event-stream", "content-type": "application/json" },
        ...{ "mcp-protocol-version": MODERN, "mcp-method": "subscriptions/listen" },
      },
      body: LISTEN,
    });
    if (isAcmeBusy) await actAs(world, "acme");
    const { body } = await world.call("globex", "notes_send", "mine");
    await until("its own event", () => (events.text.includes(body.approval.id) ? true : undefined));
    await until("its own event", () => (own.text.includes(body.approval.id) ? true : undefined));
    await until("its own line", () => (tail.text.includes(body.traceId) ? true : undefined));
    // From an event that acme has had, too.
    const again = await open("/events", { token: operator, headers: { ...SSE, "last-event-id": "0" } });
    await until("its own event", () => (again.text.includes(body.approval.id) ? true : undefined));
    return {
      ...{ events: events.lines, own: own.lines, tail: tail.lines, again: again.lines },
      ...{ changes: changes.lines, listening: listening.lines },
    };
  } finally {
    for (const stream of opened) stream.close();
    await world.end();
  }
}

describe.each(AGENTS_SERVERS)("%s", (http) => {
  test("the streams of globex carry what they carry while acme does nothing, with the same event ids", async () => {
    const busy = await seenByGlobex(http, true);
    expect(busy).toEqual(await seenByGlobex(http, false));
    expect(busy.events.length).toBeGreaterThan(1);
    expect(busy.tail.length).toBeGreaterThan(1);
  });
});
