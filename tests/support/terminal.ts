import { environmentOf, STC } from "./stc.ts";
import { until } from "./until.ts";
import { PROJECT } from "./world.ts";

/** Whether this machine lets anybody open a pseudo-terminal. */
export const hasTerminals = canOpen();

function canOpen(): boolean {
  try {
    new Bun.Terminal({ cols: 80, rows: 24 }).close();
    return true;
  } catch {
    return false;
  }
}

export interface TerminalOptions {
  readonly env: Readonly<Record<string, string>>;
  readonly rows?: number;
  readonly columns?: number;
  /** A program that runs it. */
  readonly through?: readonly string[];
}

/** `stc` on a real pseudo-terminal: what stands on the screen so far, and a keyboard. */
export class TerminalStc {
  /** Every byte that reached the terminal. */
  out = "";
  readonly child: Bun.Subprocess;
  #seen = 0;

  constructor(args: readonly string[], { env, rows = 200, columns = 100, through = [] }: TerminalOptions) {
    const decoder = new TextDecoder();
    this.child = Bun.spawn([...through, ...STC, ...args], {
      cwd: PROJECT,
      env: environmentOf(env),
      terminal: {
        rows,
        cols: columns,
        data: (_, bytes) => {
          this.out += decoder.decode(bytes, { stream: true });
        },
      },
    });
  }

  type(keys: string): void {
    this.child.terminal?.write(keys);
  }

  /** Waits for it behind what was waited for before; answers everything up to its end. */
  async shows(what: string | RegExp): Promise<string> {
    return until(`${what} on the terminal, not ${JSON.stringify(this.out.slice(this.#seen))}`, () => {
      const rest = this.out.slice(this.#seen);
      const match = typeof what === "string" ? find(rest, what) : what.exec(rest);
      if (match !== undefined && match !== null) {
        const end = match.index + match[0].length;
        this.#seen += end;
        return rest.slice(0, end);
      }
      return undefined;
    });
  }

  ends(): Promise<number> {
    return this.child.exited;
  }

  close(): void {
    this.child.kill("SIGKILL");
    this.child.terminal?.close();
  }
}

function find(text: string, what: string): { readonly index: number; readonly 0: string } | undefined {
  const index = text.indexOf(what);
  return index === -1 ? undefined : { index, 0: what };
}
