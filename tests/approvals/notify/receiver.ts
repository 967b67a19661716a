import { until } from "../../support/until.ts";

/** One message as it arrived. */
export interface Arrived {
  readonly id: string;
  readonly timestamp: string;
  readonly signature: string;
  readonly body: string;
  /** The members of the body's JSON. */
  readonly json: ReturnType<typeof JSON.parse>;
}

type Answer = Response | Promise<Response>;

/** Somebody who is told, over a real socket. */
export class Receiver {
  readonly arrived: Arrived[] = [];
  /** How the next ones are answered; 204 without it. */
  answer: (arrived: Arrived) => Answer = () => new Response(null, { status: 204 });
  readonly #server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    fetch: async (request) => {
      const body = await request.text();
      const header = (name: string): string => request.headers.get(name) ?? "";
      const arrived = {
        ...{ id: header("webhook-id"), timestamp: header("webhook-timestamp"), signature: header("webhook-signature") },
        ...{ body, json: body === "" ? undefined : JSON.parse(body) },
      };
      this.arrived.push(arrived);
      return this.answer(arrived);
    },
  });

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}/hook`;
  }

  /** The kinds of events that came, in order. */
  get types(): readonly string[] {
    return this.arrived.map(({ json }) => json.type);
  }

  async untilArrived(count: number): Promise<readonly Arrived[]> {
    return until(`${count} messages`, () => (this.arrived.length >= count ? this.arrived : undefined));
  }

  async close(): Promise<void> {
    await this.#server.stop(true);
  }
}
