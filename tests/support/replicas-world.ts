import { expect } from "bun:test";
import { join } from "node:path";
import { EndingWorld } from "./ending-world.ts";
import { manifest } from "./reload-service.ts";
import { ReplicaLoad } from "./replica-load.ts";
import { ServiceBalancer } from "./service-balancer.ts";
import { runStc, SIGNATURES_NOT_CHECKED } from "./stc.ts";
import { until } from "./until.ts";

/** Few enough for a busy machine with two cores; `STC_ROLL_CALLS_PER_SECOND=500` is a real load. */
const CALLS_PER_SECOND = Number(process.env["STC_ROLL_CALLS_PER_SECOND"] ?? 100);
/** How late the balancer learns that an endpoint is not ready, and how long a replica serves meanwhile. */
const LEAVES_AFTER_MS = 1_000;
const DELAY_MS = 4_500;
/** Calls between two events. */
const CALLS = 2 * CALLS_PER_SECOND;

const VERSION = "tools/version.ts";
const version = (says: string): string => manifest({ name: "version", says });

/** A change that appends its key to a file. */
export const recording = (name: string, file: string, asks: boolean): string => `
import { appendFile } from "node:fs/promises";
import { defineTool } from "safe-tool-call";
import { z } from "zod";
export const tool = defineTool({
  name: "${name}", description: "Records a key", classification: "write", category: "write",
  limits: { concurrentCallsMax: 1_000 }, permissions: { required: ["hello:say"] },
  approval: { needsApproval: () => ${asks} },
  input: z.strictObject({ key: z.string() }),
  target: {
    system: "records",
    handler: async ({ key }) => {
      await appendFile(${JSON.stringify(file)}, key + "\\n");
      return { key };
    },
  },
  output: z.strictObject({ key: z.string() }), outputPolicy: { key: "allow" },
  examples: { accepts: [{ key: "a" }], rejects: [{ x: 1 }] },
});
`;

/** Two replicas in processes of their own, each with its audit, on one PostgreSQL, behind a balancer and under load. */
export class ReplicasWorld {
  readonly replicas: readonly EndingWorld[];
  readonly #balancer: ServiceBalancer;
  #load: ReplicaLoad | undefined;

  private constructor(url: string) {
    const changes = {
      server: { port: 0, operator: { port: 0 }, drainTimeoutMs: 10_000, shutdownDelayMs: DELAY_MS },
      approvals: { storeUrlFile: "./url" },
      limits: { shared: true },
    };
    const first = new EndingWorld(changes);
    this.replicas = [first, new EndingWorld({ ...changes, jwt: { issuers: first.world.issuers.profiles() } })];
    for (const { world } of this.replicas) {
      world.write("url", `${url}\n`);
      world.write("tools/record.ts", recording("record", this.#runsFile, false));
      world.write("tools/approved.ts", recording("approved", this.#runsFile, true));
      world.write(VERSION, version("first"));
    }
    this.#balancer = new ServiceBalancer(this.replicas, LEAVES_AFTER_MS);
  }

  /** Starts the replicas on the database, the balancer, and clients that try again or do not. */
  static async start(url: string, options: { readonly triesAgain: boolean }): Promise<ReplicasWorld> {
    const world = new ReplicasWorld(url);
    try {
      await Promise.all(world.replicas.map((each) => each.start()));
      await world.#balancer.start();
      await Promise.all(world.replicas.map((each) => world.#chosen(each)));
      world.#load = await world.#begin(options);
      await world.moreCalls();
      return world;
    } catch (error) {
      await world.end();
      throw error;
    }
  }

  get load(): ReplicaLoad {
    if (this.#load === undefined) throw new Error("there is no load");
    return this.#load;
  }

  get #first(): EndingWorld {
    return this.replicas[0] as EndingWorld;
  }

  get #runsFile(): string {
    return join(this.#first.world.folder, "runs");
  }

  async #begin({ triesAgain }: { readonly triesAgain: boolean }): Promise<ReplicaLoad> {
    const { issuers } = this.#first.world;
    const operator = await issuers.token({ kind: "operator", sub: "olga", permissions: ["approvals:decide"] });
    return new ReplicaLoad({
      ...{ url: () => this.#balancer.url, agent: `Bearer ${await this.#agent()}`, operator: `Bearer ${operator}` },
      ...{ file: this.#runsFile, callsPerSecond: CALLS_PER_SECOND, triesAgain },
    });
  }

  #agent(): Promise<string> {
    return this.#first.world.issuers.token({ kind: "good", sub: "agent-7", permissions: ["hello:say"] });
  }

  async moreCalls(): Promise<void> {
    const { calls, approved } = this.load;
    await until("more calls", () =>
      this.load.calls >= calls + CALLS && this.load.approved > approved ? true : undefined,
    );
  }

  async #chosen(replica: EndingWorld): Promise<void> {
    await until("the endpoint", () => (this.#balancer.has(replica) ? true : undefined));
  }

  /** Starts a replica that has ended, with another version of a manifest. */
  async comeBack(replica: EndingWorld): Promise<void> {
    replica.world.write(VERSION, version("second"));
    await replica.start();
    await this.#chosen(replica);
    await this.moreCalls();
    const answer = await fetch(`${replica.url}/call`, {
      method: "POST",
      headers: { authorization: `Bearer ${await this.#agent()}`, "content-type": "application/json" },
      body: JSON.stringify({ tool: "version", args: {} }),
    });
    expect(await answer.json()).toMatchObject({ result: { said: "second" } });
  }

  /** Stops the load. No change that was answered is lost, none ran twice, none ran that nobody knows of; the audits verify. */
  async expectExact(): Promise<void> {
    const { load } = this;
    await load.stop();
    expect(load.exactness()).toMatchObject({ lost: [], twice: [], unexplained: [] });
    for (const { auditDir } of this.replicas) {
      const { code, err } = await runStc(["audit", "verify", "--dir", auditDir]);
      expect({ code, err }).toEqual({ code: SIGNATURES_NOT_CHECKED, err: "" });
    }
    console.log(load.summary());
  }

  async end(): Promise<void> {
    await this.#load?.stop();
    await this.#balancer.end();
    await Promise.all(this.replicas.map((each) => each.remove()));
  }
}
