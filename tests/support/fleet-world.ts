import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { SignJWT } from "jose";
import { CutNetwork } from "./cut-network.ts";
import { EndingWorld } from "./ending-world.ts";
import { Authority, type LeafOptions, type Pair } from "./tls-files.ts";
import { makeSigningKey } from "./tokens.ts";
import { until } from "./until.ts";

const WORKLOADS = { issuer: "https://workloads.test", audience: "stc-hub" } as const;
/** A name that the hub knows: members' certificates begin so. */
const AGENTS = "spiffe://acme.test/agents/";
const SUBJECT = "system:serviceaccount:shop:agent-b";

/** JSON of which the tests say what they expect. */
type Loose = ReturnType<typeof JSON.parse>;

export interface Answer {
  readonly http: number;
  readonly body: Loose;
}

const QUOTAS = [{ name: "daily", per: ["caller"], window: "day", calls: 40, when: { tools: ["counted"] } }];

/** A tool that appends its key to a file when it runs; `body` runs before. */
function recording(name: string, file: string, { asks = false, body = "" } = {}): string {
  return `
import { appendFile } from "node:fs/promises";
import { defineTool } from "safe-tool-call";
import { z } from "zod";
export const tool = defineTool({
  name: "${name}", description: "Records a key", classification: "write", category: "write",
  limits: { concurrentCallsMax: 1_000 }, permissions: { required: ["hello:say"] },
  approval: { needsApproval: () => ${asks} },
  input: z.strictObject({ key: z.string() }),
  target: { system: "records", handler: async ({ key }) => {
    await appendFile(${JSON.stringify(file)}, key + "\\n");
    ${body}
    return { key };
  } },
  output: z.strictObject({ key: z.string() }), outputPolicy: { key: "allow" },
  examples: { accepts: [{ key: "a" }], rejects: [{ x: 1 }] },
});
`;
}

/** Returns statements of a handler that wait until the file exists. */
function waitFor(file: string): string {
  return `
    const { existsSync } = await import("node:fs");
    while (!existsSync(${JSON.stringify(file)})) await new Promise((resolve) => setTimeout(resolve, 10));`;
}

/** One or two hubs of one database behind one name, and members in processes of their own. */
export class FleetWorld {
  readonly hubs: readonly EndingWorld[];
  readonly network: CutNetwork;
  readonly #members: EndingWorld[] = [];
  readonly #authority: Authority;
  readonly #workloads = makeSigningKey("ES256", "workloads-1");

  private constructor(authority: Authority, server: Pair, { hubs, storeUrl }: FleetOptions) {
    this.#authority = authority;
    const first = this.#service({}, undefined);
    const store = storeUrl === undefined ? { store: `sqlite://${first.world.folder}/shared.sqlite` } : undefined;
    const section = {
      listen: { port: 0 },
      tls: { certFile: "./hub.crt", keyFile: "./hub.key", clientCaFile: "./ca.pem" },
      tokens: [{ ...WORKLOADS, algorithms: ["ES256"], jwks: { keys: [this.#workloads.jwk] } }],
      members: [{ certificate: `${AGENTS}*` }, { subject: SUBJECT }],
    };
    this.hubs = Array.from({ length: hubs }, (_, index) => (index === 0 ? first : this.#service({}, first)));
    for (const { world } of this.hubs) {
      if (storeUrl !== undefined) world.write("url", `${storeUrl}\n`);
      world.configure({
        jwt: { issuers: first.world.issuers.profiles() },
        approvals: { ...(store ?? { storeUrlFile: "./url" }), claimLeaseSeconds: 900 },
        hub: section,
        dataFlow: { default: "off" },
      });
      world.write("hub.crt", server.cert);
      world.write("hub.key", server.key);
      world.write("ca.pem", authority.pem);
    }
    this.network = new CutNetwork(() => this.hubs.flatMap(portOf));
  }

  static async start(options: Partial<FleetOptions> = {}): Promise<FleetWorld> {
    const authority = await Authority.create("fleet");
    const world = new FleetWorld(authority, await authority.issue("hub"), { hubs: 1, storeUrl: undefined, ...options });
    await world.network.start();
    for (const hub of world.hubs) await hub.start();
    return world;
  }

  get hub(): EndingWorld {
    return this.hubs[0] as EndingWorld;
  }

  get authority(): Authority {
    return this.#authority;
  }

  #service(changes: Readonly<Record<string, unknown>>, issuers: EndingWorld | undefined): EndingWorld {
    const jwt = issuers && { jwt: { issuers: issuers.world.issuers.profiles() } };
    const service = new EndingWorld({ approvals: {}, audit: { dir: "./audit" }, ...jwt, ...changes });
    // All services record to the first one's file.
    const folder = (issuers ?? service).world.folder;
    const { world } = service;
    world.write("tools/counted.ts", recording("counted", join(folder, "runs")));
    world.write("tools/asked.ts", recording("asked", join(folder, "runs"), { asks: true }));
    const stuck = { asks: true, body: "await new Promise(() => {});" };
    world.write("tools/stuck_asked.ts", recording("stuck_asked", join(folder, "runs"), stuck));
    const held = { asks: true, body: waitFor(join(folder, "go")) };
    world.write("tools/held_asked.ts", recording("held_asked", join(folder, "runs"), held));
    return service;
  }

  /** Lets the runs of `held_asked` end. */
  release(): void {
    this.hub.world.write("go", "");
  }

  /** Keys of all runs, of all members. */
  runs(): readonly string[] {
    const file = join(this.hub.world.folder, "runs");
    return existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean) : [];
  }

  /** Returns a member that is not started. */
  member(section: Readonly<Record<string, unknown>>, others: Readonly<Record<string, unknown>> = {}): EndingWorld {
    const member = this.#service(
      { hub: { url: this.#url, ...section }, limits: { quotas: QUOTAS }, ...others },
      this.hub,
    );
    member.world.write("ca.pem", this.#authority.pem);
    this.#members.push(member);
    return member;
  }

  /** A member with a certificate of this name. */
  async withCertificate(name: string, options: LeafOptions & { readonly from?: Authority } = {}): Promise<EndingWorld> {
    const names = [{ type: "url" as const, value: `${AGENTS}${name}` }];
    const pair = await (options.from ?? this.#authority).issue(name, { names, ...options });
    const member = this.member({
      tls: { caFile: "./ca.pem", certFile: "./member.crt", keyFile: "./member.key" },
    });
    member.world.write("member.crt", pair.cert);
    member.world.write("member.key", pair.key);
    return member;
  }

  /** A member with a workload token. */
  async withToken(changes: TokenChanges = {}): Promise<EndingWorld> {
    const member = this.member({ tls: { caFile: "./ca.pem" }, tokenFile: "./token" });
    member.world.write("token", await this.token(changes));
    return member;
  }

  /** Starts a member with a certificate and one with a token; both are connected. */
  async twoMembers(): Promise<[EndingWorld, EndingWorld]> {
    const members: [EndingWorld, EndingWorld] = [await this.withCertificate("a"), await this.withToken()];
    await Promise.all(members.map((member) => member.start()));
    await this.connected("agents/a");
    await this.connected("agent-b@");
    return members;
  }

  token({
    audience = WORKLOADS.audience,
    subject = SUBJECT,
    expires = "10 minutes",
  }: TokenChanges = {}): Promise<string> {
    const { alg, kid, privateKey } = this.#workloads;
    return new SignJWT({})
      .setProtectedHeader({ alg, kid, typ: "JWT" })
      .setIssuer(WORKLOADS.issuer)
      .setAudience(audience)
      .setSubject(subject)
      .setIssuedAt(new Date(Date.now() - 120_000))
      .setExpirationTime(expires)
      .sign(privateKey);
  }

  get #url(): string {
    return `https://localhost:${this.network.port}`;
  }

  agent(sub = "agent-7"): Promise<string> {
    return this.hub.world.issuers.token({ kind: "good", sub, permissions: ["hello:say"] });
  }

  operator(
    permissions: readonly string[] = ["approvals:decide", "halts:write", "halts:read", "metrics:read", "quotas:read"],
  ): Promise<string> {
    return this.hub.world.issuers.token({ kind: "operator", sub: "olga", permissions });
  }

  async send(
    service: EndingWorld,
    method: string,
    path: string,
    { token, body }: { readonly token?: string; readonly body?: unknown } = {},
  ): Promise<Answer> {
    const authorization = `Bearer ${token ?? (await this.operator())}`;
    const response = await fetch(`${service.url}${path}`, {
      method,
      headers: { authorization, ...(body !== undefined && { "content-type": "application/json" }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(60_000),
    });
    const text = await response.text();
    return { http: response.status, body: text.startsWith("{") ? JSON.parse(text) : text };
  }

  async call(service: EndingWorld, tool: string, key: string, more: object = {}): Promise<Answer> {
    return this.send(service, "POST", "/call", { token: await this.agent(), body: { tool, args: { key }, ...more } });
  }

  /** Approves at the hub. */
  approve(id: string, hub = this.hub): Promise<Answer> {
    return this.send(hub, "POST", `/approvals/${id}/decisions`, { body: { decision: "approve" } });
  }

  /** Waits until the member's stream is open. */
  async connected(name: string, hub = this.hub): Promise<void> {
    await until(`the member ${name}`, async () => {
      const { body } = await this.send(hub, "GET", "/members");
      const found = body.members.some((one: Loose) => one.name.includes(name) && one.connected);
      return found ? true : undefined;
    });
  }

  async end(): Promise<void> {
    for (const service of [...this.#members, ...[...this.hubs].reverse()]) await service.remove();
    await this.network.end();
  }
}

interface FleetOptions {
  readonly hubs: number;
  /** PostgreSQL in place of SQLite. */
  readonly storeUrl: string | undefined;
}

interface TokenChanges {
  readonly audience?: string;
  readonly subject?: string;
  readonly expires?: string | Date;
}

/** The port at which a running hub listens for members. */
function portOf(hub: EndingWorld): readonly number[] {
  const [, port] = /"hubUrl":"https?:\/\/[^"]*:(\d+)"/.exec(hub.log()) ?? [];
  return port === undefined ? [] : [Number(port)];
}
