import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { BundleServer } from "../../src/bundles/server.ts";
import { configuration } from "../../src/cli/configuration.ts";
import { type RunningService, startService } from "../../src/cli/service.ts";
import { type JournalEntry, journalEntries } from "./audit-files.ts";
import type { BundleFleet } from "./bundle-fleet.ts";
import { LiveIssuers } from "./live-tokens.ts";

/** JSON of which the tests say what they expect. */
type Loose = ReturnType<typeof JSON.parse>;

/** A member of a fleet: its own configuration, the system that its tool calls, and a real service. */
export class FleetMember {
  readonly issuers = new LiveIssuers();
  readonly folder: string;
  readonly #fleet: BundleFleet;
  readonly #greetings: Bun.Server<undefined>;
  readonly #changes: Readonly<Record<string, unknown>>;
  #service: RunningService | undefined;

  constructor(fleet: BundleFleet, name: string, changes: Readonly<Record<string, unknown>> = {}) {
    this.#fleet = fleet;
    this.folder = join(fleet.folder, name);
    this.#changes = changes;
    mkdirSync(this.folder);
    // Says the last part of the path, which tells the versions apart.
    this.#greetings = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: ({ url }) => Response.json({ said: new URL(url).pathname.slice(1) }),
    });
  }

  get file(): string {
    return join(this.folder, "stc.yaml");
  }

  get running(): RunningService {
    if (this.#service === undefined) throw new Error("the member was not started");
    return this.#service;
  }

  configure(url: string, bundle: Readonly<Record<string, unknown>> = {}): void {
    const written = {
      instance: "member-1",
      server: { port: 0, operator: { port: 0 } },
      log: { level: "silent" },
      audit: { dir: "./audit", durability: "write" },
      jwt: { issuers: this.issuers.profiles() },
      reload: { perMinuteMax: 6_000 },
      systems: {
        greetings: { http: { baseUrl: this.#greetings.url.href.replace(/\/$/, ""), addresses: ["loopback"] } },
      },
      ...this.#changes,
      bundle: {
        url: `${url}bundle.tar.gz`,
        dir: "./bundle",
        fleet: "shop",
        environment: "test",
        keysFile: join(this.#fleet.folder, "keys.pem"),
        timestampKeysFile: join(this.#fleet.folder, "online.pem"),
        ...bundle,
      },
    };
    writeFileSync(this.file, JSON.stringify(written));
  }

  /** Starts the service as `stc serve` does. */
  async start(): Promise<this> {
    const { config, readAgain, bundle } = await configuration({ config: this.file });
    this.#service = await startService(config, readAgain, { bundle });
    return this;
  }

  async stop(): Promise<void> {
    await this.#service?.drain();
    this.#service = undefined;
  }

  async end(): Promise<void> {
    await this.stop();
    await this.#greetings.stop(true);
  }

  /** The tool's answer, or the code of its refusal. */
  async says(tool = "hello"): Promise<string> {
    const token = await this.issuers.token({ kind: "good", sub: "agent-7", permissions: ["hello:say"] });
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const body = JSON.stringify({ tool, args: {} });
    const answer: Loose = await (await fetch(`${this.running.url}/call`, { method: "POST", headers, body })).json();
    return answer.result?.said ?? answer.error?.code ?? answer.status;
  }

  /** The bundle's state in `/readyz`, as operators see it. */
  async status(): Promise<Loose> {
    const token = await this.issuers.token({ kind: "operator", sub: "olga", permissions: ["metrics:read"] });
    const answer: Loose = await (
      await fetch(`${this.running.operatorUrl}/readyz`, { headers: { authorization: `Bearer ${token}` } })
    ).json();
    return answer.bundle;
  }

  async metrics(): Promise<string> {
    const token = await this.issuers.token({ kind: "operator", sub: "olga", permissions: ["metrics:read"] });
    const headers = { authorization: `Bearer ${token}` };
    return (await fetch(`${this.running.operatorUrl}/metrics`, { headers })).text();
  }

  journal(type: string): readonly JournalEntry[] {
    return journalEntries(join(this.folder, "audit")).filter((entry) => entry.type === type);
  }

  remembered(): Loose {
    return JSON.parse(readFileSync(join(this.folder, "bundle/state.json"), "utf8"));
  }
}

export function serveFleet(
  { served }: Pick<BundleFleet, "served">,
  options: Partial<ConstructorParameters<typeof BundleServer>[0]> = {},
): BundleServer {
  return new BundleServer({ folder: served, host: "127.0.0.1", port: 0, ...options });
}
