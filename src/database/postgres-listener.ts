const LISTEN_RETRY_MS = 1_000;

/** A subscriber to the announcements of a channel. */
interface Subscriber {
  readonly channel: string;
  readonly changed: () => void;
  readonly log: (message: string, cause: unknown) => void;
}

/** A connection that listens for notifications of several channels. The runtime reconnects it and calls back each time. */
export class Listener {
  readonly #connect: () => Bun.SQL;
  #sql: Bun.SQL | undefined;
  #closed = false;

  constructor(connect: () => Bun.SQL) {
    this.#connect = connect;
  }

  /** Calls `changed` after announcements, and when some may have been missed, until the returned function is called. */
  listen({ channel, changed, log }: Subscriber): () => void {
    let hasEnded = false;
    let end = (): void => {};
    const call = (): void => {
      if (!hasEnded) changed();
    };
    const listen = async (): Promise<void> => {
      for (let isFirst = true; !(this.#closed || hasEnded); isFirst = false) {
        try {
          this.#sql ??= this.#connect();
          const subscription = await this.#sql.listen(channel, call, call);
          // The connection may be lost or closed: then there is nothing to end.
          end = () => void subscription.unlisten().catch(() => {});
          if (hasEnded) end();
          return;
        } catch (error) {
          if (isFirst && !this.#closed) log("approval events are not announced; they are polled", error);
        }
        await new Promise((resolve) => setTimeout(resolve, LISTEN_RETRY_MS).unref());
      }
    };
    void listen();
    return () => {
      hasEnded = true;
      end();
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#sql?.close({ timeout: 0 }).catch(() => {});
  }
}
