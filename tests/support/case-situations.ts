import { Database } from "bun:sqlite";
import { mkdirSync, openSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { SituationName } from "./case-row.ts";
import { startJwksServer } from "./jwks-server.ts";
import { type RawAnswer, sendRaw } from "./raw-http.ts";
import type { HostOrder, HostReport } from "./service-host.ts";
import { until } from "./until.ts";
import { openWorld, PROJECT, type World } from "./world.ts";

/** One running service and what a row may want of it. */
export interface Place {
  readonly url: string;
  readonly auditDir: string;
  /** Brings the service into the situation; once, whichever row comes first. */
  ready(): Promise<void>;
  /** Resolves when a call is under way. */
  oneInFlight(): Promise<void>;
  /** What happens in the middle of sending, for the modes that have a middle. */
  between(): Promise<void>;
}

export interface Stage {
  readonly world: World;
  readonly places: Readonly<Record<SituationName, Place>>;
  /** Everything that the services logged. */
  log(): string;
  close(): Promise<void>;
}

interface Situation {
  /** Sections that differ from the plain configuration. */
  readonly config?: Readonly<Record<string, unknown>>;
  prepare?(house: House, name: SituationName): Promise<void>;
  between?(house: House, name: SituationName): Promise<void>;
}

const heldBy = (sub: string) => (house: House, name: SituationName) => house.holdOne(name, sub);

const FORBIDDEN = {
  name: "never-this",
  when: { tool: "case_write_may_ask", args: { how: "yes" } },
  verdict: "deny",
  examples: { matches: [{ how: "yes" }], misses: [{ how: "no" }] },
};

function asking(name: string): Readonly<Record<string, unknown>> {
  return { store: `sqlite://./${name}.sqlite`, rules: [FORBIDDEN] };
}

const TABLE: Readonly<Record<SituationName, Situation>> = {
  plain: { between: (house, name) => house.waitUntilOneIsInFlight(name) },
  "small limits": { config: { server: { port: 0, bodyBytesMax: 2_048, requestTimeoutMs: 100, bodyKeysMax: 50 } } },
  "keys down": {},
  "caller at its limit": { config: { limits: { concurrentCallsPerCallerMax: 1 } }, prepare: heldBy("agent-7") },
  "service at its limit": { config: { limits: { concurrentCallsMax: 1 } }, prepare: heldBy("somebody-else") },
  "listener at its limit": {
    config: { limits: { concurrentCallsMax: 1 }, server: { port: 0, requestTimeoutMs: 600_000 } },
    prepare: async (house, name) => {
      await house.holdAtTheDoor(name);
      await house.holdAtTheDoor(name);
    },
  },
  "tool at its limit": { prepare: heldBy("somebody-else") },
  asking: { config: { approvals: asking("asking") } },
  "asking in a hurry": { config: { approvals: { ...asking("hurry"), decideBySeconds: 1, sweepEverySeconds: 1 } } },
  "questions lost": {
    config: { approvals: asking("lost") },
    prepare: async (house) => house.spoil("lost.sqlite"),
  },
  draining: { between: (house, name) => house.drain(name) },
  "few unauthenticated lines": { config: { limits: { strangerLinesPerMinute: 5 } } },
  "audit deleted": { prepare: (house, name) => house.breakAudit(name, deleteDayFiles) },
  "audit replaced": { prepare: (house, name) => house.breakAudit(name, replaceDirectory) },
  "audit failing": {
    prepare: async (house, name) => {
      await house.callOnce(name);
      deleteDayFiles(house.auditDir(name));
    },
  },
};

function deleteDayFiles(dir: string): void {
  const files = readdirSync(dir).filter((name) => name.endsWith(".jsonl"));
  for (const file of files) rmSync(join(dir, file));
}

function replaceDirectory(dir: string): void {
  renameSync(dir, `${dir}-moved`);
  mkdirSync(join(dir, "journal"), { recursive: true });
}

const NAMES = Object.keys(TABLE) as SituationName[];

/** Starts the world and, in one process of their own, the services of all situations. */
export async function setStage(): Promise<Stage> {
  const world = await openWorld();
  const keyServer = await startJwksServer();
  keyServer.answer = (response) => void response.destroy();
  const start = Object.fromEntries(NAMES.map((name) => [name, configOf(name, world, keyServer.url)]));
  const house = new House(world);
  await house.open(start);
  const place = (name: SituationName): Place => {
    let prepared: Promise<void> | undefined;
    return {
      url: house.url(name),
      auditDir: house.auditDir(name),
      ready: () => {
        prepared ??= TABLE[name].prepare?.(house, name) ?? Promise.resolve();
        return prepared;
      },
      oneInFlight: () => house.waitUntilOneIsInFlight(name),
      between: async () => TABLE[name].between?.(house, name),
    };
  };
  return {
    world,
    places: Object.fromEntries(NAMES.map((name) => [name, place(name)])) as Record<SituationName, Place>,
    log: () => readFileSync(house.logFile, "utf8"),
    async close() {
      await house.close();
      keyServer.close();
      await world.close();
    },
  };
}

function configOf(name: SituationName, world: World, keysUrl: string): Readonly<Record<string, unknown>> {
  const [agents, operators] = world.issuers.profiles();
  const { issuer, audience, algorithms } = agents as { issuer: string; audience: string; algorithms: string[] };
  const down = { issuer, audience, algorithms, jwksUri: keysUrl };
  const own = { server: { port: 0 }, ...TABLE[name].config };
  return {
    ...own,
    tools: [join(PROJECT, "tests/cases/tools"), ...(name === "plain" ? [join(PROJECT, "tools")] : [])],
    audit: { dir: join(world.folder, "audit", NAMES.indexOf(name).toString()) },
    jwt: { issuers: [name === "keys down" ? down : agents, operators] },
    ...world.targets,
  };
}

/** The process with the services, and the levers that situations pull. */
class House {
  readonly logFile: string;
  readonly #world: World;
  readonly #held: Promise<unknown>[] = [];
  #urls: Readonly<Record<string, string>> = {};
  #child: Bun.Subprocess | undefined;

  constructor(world: World) {
    this.#world = world;
    this.logFile = join(world.folder, "service.log");
  }

  async open(start: Readonly<Record<string, unknown>>): Promise<void> {
    const output = openSync(this.logFile, "a");
    const report = await new Promise<HostReport>((resolve) => {
      this.#child = Bun.spawn([process.execPath, join(import.meta.dir, "service-host.ts")], {
        stdio: ["ignore", output, "inherit"],
        ipc: resolve,
        onExit: (_child, code) => resolve({ failed: `the host ended with ${code}` }),
      });
      this.#send({ start, folder: this.#world.folder });
    });
    if ("failed" in report) throw new Error(report.failed);
    this.#urls = report.urls;
  }

  url(name: SituationName): string {
    return this.#urls[name] ?? "";
  }

  auditDir(name: SituationName): string {
    return join(this.#world.folder, "audit", NAMES.indexOf(name).toString());
  }

  /** Leaves one call waiting inside the service until the end. */
  async holdOne(name: SituationName, sub: string): Promise<void> {
    this.#held.push(this.#call(name, "case_hold", sub));
    await this.waitUntilOneIsInFlight(name);
  }

  /** Leaves one request unfinished until the end: its headers are in, its body never comes. */
  async holdAtTheDoor(name: SituationName): Promise<void> {
    const headers = ["Host: localhost", "Content-Type: application/json"];
    const body = Buffer.from("{}");
    await new Promise<void>((arrived) => {
      const between = (): Promise<never> => {
        arrived();
        return new Promise(() => {});
      };
      const request = { url: this.url(name), method: "POST", path: "/call", headers, body, between };
      this.#held.push(sendRaw({ ...request, send: "late" }));
    });
  }

  /** So that there is a file of the day. */
  async callOnce(name: SituationName): Promise<void> {
    await this.#call(name, "case_echo", "watcher");
  }

  async waitUntilOneIsInFlight(name: SituationName): Promise<void> {
    await until("a call in flight", async () => {
      const metrics = await this.#get(name, "/metrics", { kind: "operator", permissions: ["metrics:read"] });
      return /^stc_calls_in_flight [1-9]/m.test(metrics?.body ?? "") ? true : undefined;
    });
  }

  async drain(name: SituationName): Promise<void> {
    this.#send({ drain: name });
    await until("the drain", () =>
      readFileSync(this.logFile, "utf8").includes('"msg":"draining"') ? true : undefined,
    );
  }

  /** Breaks the files and waits until the service has noticed, which it does when it writes. */
  async breakAudit(name: SituationName, damage: (dir: string) => void): Promise<void> {
    await this.callOnce(name);
    damage(this.auditDir(name));
    await until("the service to notice", async () => {
      const listing = await this.#get(name, "/tools", { kind: "good", permissions: [] });
      return listing?.status === 200 ? undefined : true;
    });
  }

  /** Takes the questions away from under the service. */
  spoil(file: string): void {
    const database = new Database(join(this.#world.folder, file));
    database.run("DROP TABLE approvals");
    database.close();
  }

  async close(): Promise<void> {
    this.#child?.kill();
    await this.#child?.exited;
    await Promise.all(this.#held);
  }

  async #call(name: SituationName, tool: string, sub: string): Promise<unknown> {
    const body = Buffer.from(JSON.stringify({ tool }));
    const authorization = await this.#authorization({ kind: "good", sub, permissions: ["case:run"] });
    const headers = ["Host: localhost", "Content-Type: application/json", `Authorization: ${authorization}`];
    return sendRaw({ url: this.url(name), method: "POST", path: "/call", headers, body });
  }

  async #get(
    name: SituationName,
    path: string,
    token: Pick<Order, "kind" | "permissions">,
  ): Promise<RawAnswer | undefined> {
    const authorization = await this.#authorization({ sub: "watcher", ...token });
    const headers = ["Host: localhost", `Authorization: ${authorization}`];
    return sendRaw({ url: this.url(name), method: "GET", path, headers, body: new Uint8Array() });
  }

  async #authorization(order: Order): Promise<string> {
    return (await this.#world.issuers.authorization(order)) ?? "";
  }

  #send(order: HostOrder): void {
    this.#child?.send(order);
  }
}

type Order = Parameters<World["issuers"]["authorization"]>[0];
