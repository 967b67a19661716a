import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { childrenOf, isRunning } from "./processes.ts";
import { type ManifestOptions, manifest, ReloadService } from "./reload-service.ts";
import { environmentOf, STC } from "./stc.ts";
import { until } from "./until.ts";

/** What became of one call: the code of its answer, `success` and `pending` included, or that there was none. */
export interface Told {
  readonly code: string;
  readonly traceId: string | undefined;
}

export const SLOW_MS = 2_000;
const SLOW = `await new Promise((resolve) => setTimeout(resolve, ${SLOW_MS}));`;

/** Tools whose calls take a while, ask somebody, or never end. */
const TOOLS: readonly ManifestOptions[] = [
  { name: "slow_read", body: `${SLOW} return { said: "read" };` },
  { name: "slow_write", classification: "write", says: "written", body: `${SLOW} return { said: "written" };` },
  { name: "asking", classification: "write", says: "asked" },
  { name: "stuck", body: "return new Promise(() => {});" },
  {
    ...{ name: "stuck_write", classification: "write" },
    body: "return new Promise(() => {});",
  },
];
/** Changes that ask nobody. */
const FREE = /^(?:slow|stuck)_write$/;

/** A service in a process of its own, which tests end and kill. */
export class EndingWorld {
  readonly world: ReloadService;
  #child: Bun.Subprocess | undefined;
  #starts = 0;
  url = "";
  operatorUrl = "";

  constructor(changes: Readonly<Record<string, unknown>> = {}) {
    this.world = new ReloadService({
      log: { level: "info" },
      server: { port: 0, operator: { port: 0 }, drainTimeoutMs: 5_000 },
      approvals: { store: "sqlite://./approvals.sqlite" },
      audit: { dir: "./audit" },
      ...changes,
    });
    for (const tool of TOOLS) {
      const text = manifest(tool);
      const asks = FREE.test(tool.name ?? "") ? "approval: { needsApproval: () => false }," : "";
      this.world.write(`tools/${tool.name}.ts`, text.replace("  permissions:", `  ${asks}\n  permissions:`));
    }
  }

  get auditDir(): string {
    return join(this.world.folder, "audit");
  }

  get child(): Bun.Subprocess {
    if (this.#child === undefined) throw new Error("the service was not started");
    return this.#child;
  }

  /** Returns what the last start has logged. */
  log(): string {
    return readFileSync(this.#logFile, "utf8");
  }

  /** A file for each start: the former process may still be writing its own. */
  get #logFile(): string {
    return join(this.world.folder, `service-${this.#starts}.log`);
  }

  /** Milliseconds until it was ready. */
  async start(argv: readonly string[] = STC): Promise<number> {
    this.#starts += 1;
    const log = this.#logFile;
    writeFileSync(log, "");
    const begun = Bun.nanoseconds();
    this.#child = Bun.spawn([...argv, "serve", "--config", this.world.file], {
      cwd: this.world.folder,
      env: environmentOf({}),
      stdout: Bun.file(log),
      stderr: "inherit",
    });
    const [, url = "", operatorUrl = ""] = await until("the service's address", () => {
      this.#assertAlive();
      return /"url":"([^"]+)"(?:,"operatorUrl":"([^"]+)")?/.exec(this.log()) ?? undefined;
    });
    this.url = url;
    this.operatorUrl = operatorUrl;
    await until("readiness", async () => {
      this.#assertAlive();
      return (await this.ready()) === 200 ? true : undefined;
    });
    return (Bun.nanoseconds() - begun) / 1e6;
  }

  /** The status of `/readyz` at the operators' port; undefined when nobody answers. */
  async ready(): Promise<number | undefined> {
    const answer = await fetch(`${this.operatorUrl || this.url}/readyz`).catch(() => undefined);
    return answer?.status;
  }

  async call(tool: string, token: string, headers: Readonly<Record<string, string>> = {}): Promise<Told> {
    try {
      const response = await fetch(`${this.url}/call`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
        body: JSON.stringify({ tool, args: {} }),
      });
      const body = (await response.json()) as {
        readonly status: string;
        readonly traceId: string;
        readonly error?: { readonly code: string };
      };
      return { code: body.error?.code ?? body.status, traceId: body.traceId };
    } catch {
      return { code: "no answer", traceId: undefined };
    }
  }

  /** Sends the signal and waits for the end; the exit code, and the milliseconds until then. */
  async end(signal: "SIGTERM" | "SIGINT" | "SIGKILL"): Promise<{ readonly code: number | null; readonly ms: number }> {
    const begun = Bun.nanoseconds();
    this.child.kill(signal);
    await this.child.exited;
    return { code: this.child.exitCode, ms: (Bun.nanoseconds() - begun) / 1e6 };
  }

  #assertAlive(): void {
    const { exitCode, signalCode } = this.child;
    if (exitCode !== null || signalCode !== null)
      throw new Error(`ended with ${exitCode ?? signalCode}: ${this.log()}`);
  }

  /** Ends the service with all its processes, and removes its folder. */
  async remove(): Promise<void> {
    const isOver = this.#child === undefined || this.#child.exitCode !== null || this.#child.signalCode !== null;
    const workers = isOver ? [] : childrenOf(this.child.pid);
    this.#child?.kill("SIGKILL");
    await this.#child?.exited;
    for (const pid of workers) killIfRunning(pid);
    // A worker that still ends writes its log, also into a folder that is removed.
    await until("the workers' end", () => (workers.some(isRunning) ? undefined : true));
    await this.world.end();
  }
}

function killIfRunning(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}
