import type { Loose } from "./asking-service.ts";
import { environmentOf, STC } from "./stc.ts";
import { until } from "./until.ts";

/** `stc mcp` with its standard input and output in the hands of a test. */
export class StdioClient {
  readonly child: Bun.Subprocess<"pipe", "pipe", "pipe">;
  /** Every line of standard output. */
  readonly lines: string[] = [];
  err = "";

  /** `command` replaces `stc mcp` and its arguments. */
  constructor(args: readonly string[], { env = {}, command = [...STC, "mcp"] }: StdioOptions = {}) {
    this.child = Bun.spawn([...command, ...args], {
      env: environmentOf(env),
      stdin: "pipe",
      stdout: "pipe",
      stderr: "pipe",
    });
    void this.#readLines();
    void new Response(this.child.stderr).text().then((text) => {
      this.err = text;
    });
  }

  /** Sends a message as one line; text is sent as it is. */
  send(message: unknown): void {
    this.child.stdin.write(`${typeof message === "string" ? message : JSON.stringify(message)}\n`);
    this.child.stdin.flush();
  }

  /** Sends a request of 2025-11-25 and returns the message that answers it. */
  async request(id: string | number, method: string, params: object = {}): Promise<Loose> {
    this.send({ jsonrpc: "2.0", id, method, params });
    return this.answerTo(id);
  }

  call(id: string | number, name: string, args: object): Promise<Loose> {
    return this.request(id, "tools/call", { name, arguments: args });
  }

  /** Returns the first answer with this id. */
  answerTo(id: string | number | null): Promise<Loose> {
    return until(`an answer to ${id}`, () => this.messages().find((each) => each.id === id && !("method" in each)));
  }

  messages(): readonly Loose[] {
    return this.lines.map((line) => JSON.parse(line));
  }

  /** Closes standard input and returns the exit code. */
  async end(): Promise<number> {
    await this.child.stdin.end();
    return this.child.exited;
  }

  async #readLines(): Promise<void> {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const chunk of this.child.stdout) {
      const [last = "", ...whole] = (rest + decoder.decode(chunk, { stream: true })).split("\n").toReversed();
      this.lines.push(...whole.toReversed());
      rest = last;
    }
  }
}

interface StdioOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly command?: readonly string[];
}
