import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RunningStc } from "../../support/stc.ts";
import { until } from "../../support/until.ts";
import { rssMb, runtimeSettings } from "../footprint.ts";
import { cpuMs } from "../processes.ts";

/** A service of the fleet, in a process and a folder of its own. */
export class FleetService {
  readonly name: string;
  readonly folder: string;
  #running: RunningStc | undefined;
  url = "";

  constructor(name: string, folder: string, configuration: object) {
    this.name = name;
    this.folder = folder;
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "stc.json"), JSON.stringify(configuration));
  }

  get auditDir(): string {
    return join(this.folder, "audit");
  }

  get pid(): number {
    if (this.#running === undefined) throw new Error(`${this.name} was not started`);
    return this.#running.child.pid;
  }

  /** Resolves when it is ready. */
  async start(): Promise<void> {
    const running = new RunningStc(["serve", "--config", join(this.folder, "stc.json")], {
      env: runtimeSettings(),
      cwd: this.folder,
    });
    this.#running = running;
    const printed = await running.printed(/"url":"[^"]+"/).catch((error: unknown) => {
      throw new Error(`${this.name}: ${error}\n${this.printed}`);
    });
    this.url = /"url":"([^"]+)"/.exec(printed)?.[1] ?? "";
    await until(`${this.name} to be ready`, async () => {
      if (running.child.exitCode !== null) throw new Error(`${this.name} has ended: ${running.out}${running.err}`);
      const answer = await fetch(`${this.url}/readyz`).catch(() => undefined);
      return answer?.ok || undefined;
    });
  }

  async end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    await this.#running?.end(signal);
  }

  /** Its output since the start. */
  get printed(): string {
    return `${this.#running?.out}${this.#running?.err}`;
  }

  get cpuMs(): number {
    return cpuMs(this.pid);
  }

  get rssMb(): number {
    return rssMb(this.pid);
  }

  /** Memory of its own, and its share of what processes share. */
  get pssMb(): number {
    const rollup = readFileSync(`/proc/${this.pid}/smaps_rollup`, "utf8");
    return Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1]) / 1_024;
  }
}
