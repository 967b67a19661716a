import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { environmentOf } from "../support/stc.ts";
import { AGENTS_AUDIENCE, AGENTS_ISSUER, type Claims, issueToken, makeSigningKey } from "../support/tokens.ts";
import { until } from "../support/until.ts";

export const PEOPLE_ISSUER = "https://people.test";
const PEOPLE_AUDIENCE = "safe-tool-call-operators";
const OPERATOR_PERMISSIONS = [
  ...["approvals:decide", "grants:manage", "modes:manage", "halts:read", "halts:write"],
  ...["quotas:read", "data-flow:read", "audit:read", "metrics:read"],
];

/** JSON of which the tests say what they expect. */
type Loose = ReturnType<typeof JSON.parse>;

export interface Reply {
  readonly http: number;
  readonly body: Loose;
}

interface Sent {
  readonly token: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

interface CallOptions {
  readonly agent?: string;
  readonly session?: string;
  readonly approval?: string;
  readonly key?: string;
}

/** `stc serve` of any version in a folder with its configuration, and agents and operators who have tokens for it. */
export class StoredService {
  readonly folder: string;
  readonly #argv: readonly string[];
  readonly #clockMs: number;
  readonly #agents = makeSigningKey("ES256", "agents-1");
  readonly #people = makeSigningKey("ES256", "people-1");
  #child: Bun.Subprocess | undefined;
  #url = "";

  /** `clockMs`: the difference of the service's clock from the machine's, if `argv` preloads `shifted-clock.ts`. */
  constructor(folder: string, argv: readonly string[], clockMs = 0) {
    this.folder = folder;
    this.#argv = argv;
    this.#clockMs = clockMs;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** @throws {Error} with the log of a service that does not start */
  async start(): Promise<void> {
    for (const [name, { jwk }] of [["agents", this.#agents] as const, ["people", this.#people] as const]) {
      writeFileSync(join(this.folder, `${name}.json`), JSON.stringify({ keys: [jwk] }));
    }
    const log = join(this.folder, "service.log");
    writeFileSync(log, "");
    const child = Bun.spawn([...this.#argv, "serve", "--config", join(this.folder, "stc.yaml")], {
      cwd: this.folder,
      env: environmentOf({ STC_TEST_CLOCK_MS: String(this.#clockMs) }),
      stdout: Bun.file(log),
      stderr: Bun.file(log),
    });
    this.#child = child;
    this.#url = await until("the service's address", () => {
      const text = readFileSync(log, "utf8");
      if (child.exitCode !== null) throw new Error(`ended with ${child.exitCode}: ${text}`);
      return /"url":"([^"]+)"/.exec(text)?.[1];
    });
  }

  async end(signal: "SIGTERM" | "SIGKILL"): Promise<number | null> {
    this.#child?.kill(signal);
    await this.#child?.exited;
    return this.#child?.exitCode ?? null;
  }

  async send(line: string, { token, body, headers = {} }: Sent): Promise<Reply> {
    const [method = "", path = ""] = line.split(" ");
    const response = await fetch(`${this.#url}${path}`, {
      method,
      headers: {
        ...{ authorization: `Bearer ${token}`, ...headers },
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { http: response.status, body: text === "" ? undefined : JSON.parse(text) };
  }

  async call(
    tool: string,
    args: unknown,
    { agent = "agent-7", session, approval, key }: CallOptions = {},
  ): Promise<Reply> {
    const more = {
      ...(session !== undefined && { session }),
      ...(approval !== undefined && { approval: { id: approval } }),
    };
    return this.send("POST /call", {
      token: await this.agent(agent),
      body: { tool, args, ...more },
      ...(key !== undefined && { headers: { "idempotency-key": key } }),
    });
  }

  /** Makes a call that asks, and returns the id of its approval request. */
  async ask(tool: string, args: unknown, options: CallOptions = {}): Promise<string> {
    const { http, body } = await this.call(tool, args, options);
    if (http !== 202) throw new Error(`${tool}: ${http} ${JSON.stringify(body)}`);
    return body.approval.id;
  }

  async decide(id: string, decision: "approve" | "deny", { by = "alice", scope = "once" } = {}): Promise<Reply> {
    const body = { decision, ...(decision === "approve" && { scope }) };
    return this.send(`POST /approvals/${id}/decisions`, { token: await this.person(by), body });
  }

  agent(sub: string): Promise<string> {
    return issueToken(this.#agents, this.#claims(AGENTS_ISSUER, AGENTS_AUDIENCE, { sub, permissions: ["deeds:do"] }));
  }

  person(sub = "alice"): Promise<string> {
    const claims = this.#claims(PEOPLE_ISSUER, PEOPLE_AUDIENCE, { sub, permissions: OPERATOR_PERMISSIONS });
    return issueToken(this.#people, claims);
  }

  #claims(iss: string, aud: string, more: Claims): Claims {
    const iat = Math.floor((Date.now() + this.#clockMs) / 1_000) - 1;
    return { iss, aud, iat, exp: iat + 600, ...more };
  }
}

/** `200 success`, `202 pending`, `403 PERMISSION_DENIED`. */
export function outcome({ http, body }: Reply): string {
  return `${http} ${body?.error?.code ?? body?.status ?? body?.approval?.state}`;
}
