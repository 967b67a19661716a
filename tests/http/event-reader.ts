/** One event as a client of server-sent events sees it. */
export interface SeenEvent {
  readonly id: string;
  readonly type: string;
  readonly data: unknown;
}

/** A client of `GET /events`, by the rules of HTML's "server-sent events". */
export class EventClient {
  readonly response: Response;
  /** Of the last event that was taken: what a reconnecting client sends. */
  lastId = "";
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #leaving: AbortController;
  readonly #decoder = new TextDecoder();
  #text = "";
  #queue: SeenEvent[] = [];

  private constructor(response: Response, leaving: AbortController) {
    this.response = response;
    this.#leaving = leaving;
    this.#chunks = (response.body ?? new ReadableStream<Uint8Array>())[Symbol.asyncIterator]();
  }

  /** Connects; when the service lets it in, the stream is open by then. */
  static async open(url: string, token: string, lastId?: string): Promise<EventClient> {
    const leaving = new AbortController();
    const headers = { authorization: `Bearer ${token}`, ...(lastId !== undefined && { "last-event-id": lastId }) };
    const client = new EventClient(await fetch(`${url}/events`, { headers, signal: leaving.signal }), leaving);
    if (client.response.status === 200) await client.#more();
    return client;
  }

  /** The next events, as many as are asked for; fewer when the stream ends. */
  async take(count: number): Promise<readonly SeenEvent[]> {
    while (this.#queue.length < count && (await this.#more())) {}
    const taken = this.#queue.splice(0, count);
    this.lastId = taken.at(-1)?.id ?? this.lastId;
    return taken;
  }

  /** What comes until the service ends the stream. */
  rest(): Promise<readonly SeenEvent[]> {
    return this.take(Number.POSITIVE_INFINITY);
  }

  leave(): void {
    this.#leaving.abort();
  }

  async #more(): Promise<boolean> {
    const { done, value } = await this.#chunks.next().catch(() => ({ done: true, value: undefined }));
    this.#text += this.#decoder.decode(value, { stream: true });
    const blocks = this.#text.split(/\r\n\r\n|\n\n|\r\r/);
    this.#text = blocks.pop() ?? "";
    for (const block of blocks) this.#dispatch(block);
    return done !== true;
  }

  #dispatch(block: string): void {
    const fields = block.split(/\r\n|\n|\r/).map((line) => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, "")] as const;
    });
    const find = (name: string): string | undefined => fields.findLast(([field]) => field === name)?.[1];
    const id = find("id") ?? "";
    const data = find("data");
    if (data !== undefined) this.#queue.push({ id, type: find("event") ?? "message", data: JSON.parse(data) });
    else if (id !== "") this.lastId = id;
  }
}
