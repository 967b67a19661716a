import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { openApprovals } from "../../src/approvals/approvals.ts";
import type { NotifiedApprovals } from "../../src/approvals/notify/webhooks.ts";
import type { Approval, Approvals, NewApproval } from "../../src/approvals/types.ts";
import { sha256Hex } from "../../src/core/digest.ts";
import { createServer } from "../../src/http/server.ts";
import { MODULES } from "../../src/modules.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import { OPERATORS_AUDIENCE, OPERATORS_ISSUER } from "../support/live-tokens.ts";
import {
  AGENTS_ISSUER,
  agentsProfile,
  type Claims,
  goodClaims,
  issueToken,
  makeSigningKey,
  NOW_SECONDS,
} from "../support/tokens.ts";
import { until } from "../support/until.ts";
import { endpointsWith, serverParts } from "./server-parts.ts";

const LIMITS = {
  ...{ decideBySeconds: 600, executeBySeconds: 300, claimLeaseSeconds: 900 },
  ...{ pendingPerCallerMax: 20, pendingPerSessionMax: 10, coolDownSeconds: 600, grantSeconds: 28_800 },
  ...{ sessionSeconds: 28_800, sessionsPerCallerMax: 100, modeSecondsMax: 28_800, retentionDays: 30 },
  ...{ idempotencySeconds: 86_400, sweepEverySeconds: 5 },
} as const;

export interface Sent {
  readonly token?: string | undefined;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
  /** The members of the answer's JSON; none when it has none. */
  readonly json: Members;
}

export type Members = Readonly<Record<string, unknown>>;

export function codeOf({ json }: Reply): unknown {
  return membersOf(json["error"])["code"];
}

export function membersOf(value: unknown): Members {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

export function listOf({ json }: Reply, name: string): readonly Members[] {
  const list = json[name];
  if (!Array.isArray(list)) throw new Error(`no list of ${name} in the answer`);
  return list.map(membersOf);
}

export type Line = { readonly type: string } & Readonly<Record<string, unknown>>;

interface World {
  readonly folder: string;
  nowMs: number;
  isDiskFull: boolean;
  readonly lines: Line[];
  readonly faults: unknown[];
  waits: number;
  waitsEnded: number;
  isDraining: boolean;
}

/** Approvals' doors over a real store, real tokens and a clock that the test moves. Calls have no place here. */
export class ApprovalStand {
  readonly approvals: Approvals;
  readonly app: FastifyInstance;
  /** What was journaled, in order. */
  readonly lines: readonly Line[];
  /** What operators' logs were told. */
  readonly faults: readonly unknown[];
  readonly #world: World;
  #questions = 0;

  private constructor(world: World, app: FastifyInstance, approvals: Approvals) {
    this.approvals = approvals;
    this.app = app;
    this.lines = world.lines;
    this.faults = world.faults;
    this.#world = world;
  }

  /** `more` stands beside the store's own: those who are told, and those who may answer. */
  static async open(more: Pick<NotifiedApprovals, "webhooks"> = {}): Promise<ApprovalStand> {
    const folder = mkdtempSync(join(tmpdir(), "stc-doors-"));
    const world: World = {
      folder,
      nowMs: NOW_SECONDS * 1_000,
      isDiskFull: false,
      lines: [],
      faults: [],
      waits: 0,
      waitsEnded: 0,
      isDraining: false,
    };
    const now = (): number => world.nowMs;
    const journal = async (line: Line): Promise<void> => {
      if (world.isDiskFull) throw new Error("the disk is full");
      world.lines.push(line);
    };
    const approvals = await openApprovals({
      stores: MODULES.approvalStores,
      url: `sqlite://${join(folder, "approvals.sqlite")}`,
      ...{ now, newId: randomUUID, newToken: () => randomUUID(), journal, limits: LIMITS },
    });
    const watched: NotifiedApprovals = {
      ...approvals,
      ...more,
      wait(id, options) {
        world.waits += 1;
        options.signal?.addEventListener("abort", () => {
          world.waitsEnded += 1;
        });
        return approvals.wait(id, options);
      },
    };
    const parts = serverParts({
      ...{ approvals: watched, journal, clock: now, draining: () => world.isDraining },
      callers: createCallerVerifier({ issuers: profiles(), clock: now }),
      logError: (error) => void world.faults.push(error),
    });
    const app = createServer(parts, await endpointsWith(parts));
    return new ApprovalStand(world, app, approvals);
  }

  /** As the service ends. May be called twice. */
  async close(): Promise<void> {
    this.#world.isDraining = true;
    await this.app.close();
    await this.approvals.close();
    rmSync(this.#world.folder, { recursive: true, force: true });
  }

  advance(seconds: number): void {
    this.#world.nowMs += seconds * 1_000;
  }

  /** How many polls have begun to wait. */
  async untilWaiting(count: number): Promise<void> {
    await until(`${count} who wait`, () => (this.#world.waits >= count ? true : undefined));
  }

  /** Number of polls that were ended before their time. */
  get waitsEnded(): number {
    return this.#world.waitsEnded;
  }

  /** From now on nothing can be written. */
  failJournal(): void {
    this.#world.isDiskFull = true;
  }

  /** Asks another question every time, in the name of agent-7 unless told otherwise. */
  async ask(changes: Partial<NewApproval> = {}): Promise<Approval> {
    this.#questions += 1;
    const planDigest = sha256Hex(`plan ${this.#questions}`);
    const asked = await this.approvals.ask({
      requester: { issuer: AGENTS_ISSUER, subject: "agent-7", actors: [], session: undefined },
      ...{ tool: "customer_block", category: "network", classification: "write", risk: "medium" },
      ...{ rules: ["default"], planDigest, viewDigest: sha256Hex(`view of ${planDigest}`) },
      view: { tool: "customer_block", command: ["git", "push"], workingDir: "/srv/x", arguments: { id: "secret-arg" } },
      summary: "customer_block on customer-master-service (write, medium risk)",
      ...{ scopes: ["once"], grantKey: undefined, traceId: randomUUID(), ...changes },
    });
    if (asked.outcome !== "asked") throw new Error(`not asked: ${asked.outcome}`);
    return asked.approval;
  }

  async send(request: string, { token, body, headers = {} }: Sent = {}): Promise<Reply> {
    const [method = "", url = ""] = request.split(" ");
    const answer = await this.app.inject({
      method: method as "GET",
      url,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { payload: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const isJson = String(answer.headers["content-type"]).startsWith("application/json");
    const json = membersOf(isJson && answer.payload !== "" ? JSON.parse(answer.payload) : undefined);
    return { status: answer.statusCode, headers: answer.headers, text: answer.payload, json };
  }

  /** Where a real socket finds it. */
  listen(): Promise<string> {
    return this.app.listen({ host: "127.0.0.1", port: 0 });
  }
}

const agentsKey = makeSigningKey("ES256", "agents-1");
const operatorsKey = makeSigningKey("ES256", "operators-1");

function profiles(): readonly ReturnType<typeof agentsProfile>[] {
  const operators = { issuer: OPERATORS_ISSUER, audience: OPERATORS_AUDIENCE, operators: true };
  return [agentsProfile([agentsKey]), agentsProfile([operatorsKey], operators)];
}

export function agentToken(claims: Claims = {}): Promise<string> {
  return issueToken(agentsKey, goodClaims(claims));
}

/** Of Olga, who may do everything unless told otherwise. */
export function operatorToken(claims: Claims = {}): Promise<string> {
  const permissions = ["approvals:decide", "grants:manage", "modes:manage"];
  const own = { iss: OPERATORS_ISSUER, aud: OPERATORS_AUDIENCE, sub: "olga", permissions };
  return issueToken(operatorsKey, goodClaims({ ...own, ...claims }));
}
