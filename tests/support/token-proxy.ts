/** A loopback proxy that adds a token to each request, for clients that send none. Streams pass through as they arrive. */
export class TokenProxy {
  /** Where requests go: the address of a service, which may start after the proxy. */
  target = "";
  readonly #server: Bun.Server<undefined>;

  constructor({ token, onRequest = async () => {}, onAnswer = () => {} }: TokenProxyOptions) {
    this.#server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      idleTimeout: 0,
      fetch: async (request) => {
        const { pathname, search } = new URL(request.url);
        const headers = new Headers(request.headers);
        headers.set("authorization", `Bearer ${await token()}`);
        const { method, signal } = request;
        const body = method === "POST" ? await request.text() : null;
        if (body !== null) await onRequest(body);
        const answer = await fetch(`${this.target}${pathname}${search}`, { method, headers, body, signal });
        const decoder = new TextDecoder();
        const observed = new TransformStream<Uint8Array, Uint8Array>({
          transform(chunk, controller) {
            onAnswer(decoder.decode(chunk, { stream: true }));
            controller.enqueue(chunk);
          },
        });
        return new Response(answer.body?.pipeThrough(observed) ?? null, answer);
      },
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  async close(): Promise<void> {
    await this.#server.stop(true);
  }
}

interface TokenProxyOptions {
  /** Returns the token of the next request. */
  readonly token: () => Promise<string>;
  /** Gets the body of each request before it is sent on. */
  readonly onRequest?: (body: string) => Promise<void>;
  /** Gets the text of answers, in the pieces in which it arrives. */
  readonly onAnswer?: (text: string) => void;
}
