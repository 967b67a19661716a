import type { MessageFormat } from "../../../src/approvals/messages/message-format.ts";
import { type Called, isConsistent, WRITERS } from "./writers.ts";

/** One answer of the model: what it says and which calls it makes. */
export interface ModelTurn {
  readonly text?: string;
  readonly calls?: readonly Called[];
}

/** What providers ask of a tool's name. */
const NAME = /"name":"(?![a-zA-Z0-9_-]{1,64}")/;

/** A model's server that says what was recorded, and takes only conversations that the provider's would take. */
export class RecordedModel {
  readonly #server: ReturnType<typeof Bun.serve>;
  /** The conversations that it was sent, as text. */
  readonly heard: string[] = [];

  constructor(format: MessageFormat, turns: readonly ModelTurn[]) {
    const { says, calls, output } = WRITERS[format];
    const answers = turns.map(({ text, calls: made }) =>
      output(made === undefined ? says(text ?? "") : calls(made, text)),
    );
    this.#server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: async (request) => {
        const body = (await request.json()) as {
          messages?: Record<string, unknown>[];
          contents?: Record<string, unknown>[];
        };
        const messages = body.messages ?? body.contents ?? [];
        this.heard.push(JSON.stringify(messages));
        if (!isConsistent(messages, format)) return new Response("calls and results do not fit", { status: 400 });
        if (NAME.test(JSON.stringify(messages))) return new Response("a name that is none", { status: 400 });
        const answer = answers[this.heard.length - 1];
        return answer === undefined
          ? new Response("nothing more was recorded", { status: 400 })
          : Response.json(answer);
      },
    });
  }

  get url(): string {
    return this.#server.url.href;
  }

  end(): Promise<void> {
    return this.#server.stop(true);
  }
}
