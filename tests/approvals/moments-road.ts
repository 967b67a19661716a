import { z } from "zod";
import { createRiskRules } from "../../src/approvals/risk.ts";
import type { Approvals } from "../../src/approvals/types.ts";
import type { Announced, EntryDraft } from "../../src/audit/entry.ts";
import { Refusal } from "../../src/core/errors.ts";
import { mint, type Receipt } from "../../src/core/evidence.ts";
import type { Category, ToolClassification } from "../../src/core/types.ts";
import { DETECTOR } from "../../src/detection/sensitive.ts";
import { defineTool } from "../../src/index.ts";
import { MODULES } from "../../src/modules.ts";
import { createAdmission } from "../../src/pipeline/admission.ts";
import type { Answer } from "../../src/pipeline/answer.ts";
import { type ApprovalGate, createApprovalGate } from "../../src/pipeline/approval/gate.ts";
import { createCallRecords } from "../../src/pipeline/call-record.ts";
import type { CallRequest } from "../../src/pipeline/call-request.ts";
import type { Disconnect } from "../../src/pipeline/call-scope.ts";
import { type Audience, createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import { createExecutor } from "../../src/pipeline/executor.ts";
import { createPolicyEvaluator } from "../../src/pipeline/policy-points.ts";
import { createProxy, type ToolProxy } from "../../src/pipeline/proxy.ts";
import { createRegistry } from "../../src/pipeline/registry.ts";
import { createWaitingRoom, type WaitingRoom } from "../../src/pipeline/waiting-room.ts";
import { inlineHandler } from "../../src/targets/function/kind.ts";
import { type ApprovalWorld, createApprovalWorld, OPERATOR } from "../support/approvals.ts";
import { agentsProfile, goodClaims, issueToken, makeSigningKey, NOW_SECONDS } from "../support/tokens.ts";
import { until } from "../support/until.ts";

/** Where on the road something can happen. Of the store: when it is asked, and when it has answered. */
export type Moment = "verify" | "admit" | "intent" | "handler" | "record" | `before ${StoreAct}` | `after ${StoreAct}`;

const STORE_ACTS = ["beginKey", "findSession", "priorOf", "ask", "wait", "claim", "settle", "endKey"] as const;
type StoreAct = (typeof STORE_ACTS)[number];

/** Of all roads: replicas write one journal. */
let traces = 0;

const key = makeSigningKey("ES256", "agents-1");

/** A client that a test sends away. */
export class Client implements Disconnect {
  disconnected = false;
  readonly #listeners = new Set<() => void>();

  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  leave(): void {
    this.disconnected = true;
    for (const listener of [...this.#listeners]) listener();
  }
}

interface RoadOptions {
  readonly classification?: ToolClassification;
  readonly category?: Category;
  /** The session of the tokens. */
  readonly sid?: string;
  readonly world?: ApprovalWorld;
}

/** Sets the world's clock to the time at which the tokens of the tests are valid. */
export function atTokenTime(world: ApprovalWorld): ApprovalWorld {
  world.now = NOW_SECONDS * 1_000;
  return world;
}

/** The real road over a real store, on which a test makes something happen at any moment. */
export class MomentsRoad {
  readonly world: ApprovalWorld;
  readonly entries: EntryDraft[] = [];
  readonly logged: string[] = [];
  readonly intents: Announced[] = [];
  readonly deeds: unknown[] = [];
  /** How long a run takes after its deed is done. */
  during: (() => Promise<void>) | undefined;
  /** In milliseconds since 1970; the tokens' clock. */
  now = NOW_SECONDS * 1_000;
  /** Told of each moment that comes; what it throws fails there. */
  at: (moment: Moment) => void = () => {};
  /** How long the store takes at a moment. */
  stall: ((moment: Moment) => Promise<void>) | undefined;
  readonly approvals: Approvals;
  readonly room: WaitingRoom;
  readonly #proxy: ToolProxy;
  readonly #sid: string | undefined;

  /** With `world`, another replica over the same store. */
  static async open({ world = atTokenTime(createApprovalWorld()), ...options }: RoadOptions = {}) {
    return new MomentsRoad(world, await world.open(), options);
  }

  private constructor(world: ApprovalWorld, approvals: Approvals, options: Omit<RoadOptions, "world">) {
    this.#sid = options.sid;
    this.world = world;
    this.approvals = approvals;
    const store = this.#watched(approvals);
    const callers = createCallerVerifier({ issuers: [agentsProfile([key])], clock: () => this.now });
    const admission = createAdmission({
      ...{ concurrentCallsMax: 100, concurrentCallsPerCallerMax: 100 },
      auditReady: () => {
        this.at("admit");
        return true;
      },
    });
    this.room = createWaitingRoom(store);
    const generation = {
      registry: createRegistry([this.#tool(options)], { handler: inlineHandler }, ({ name }) => name),
      callers: {
        ...callers,
        recall: (authorization: string | undefined, door: Audience) => {
          const verified = callers.recall(authorization, door);
          if (verified !== undefined) this.at("verify");
          return verified;
        },
        verify: async (authorization: string | undefined, door: Audience) => {
          const verified = await callers.verify(authorization, door);
          this.at("verify");
          return verified;
        },
      },
      policy: createPolicyEvaluator(MODULES.policyPoints, createRiskRules({ rules: [] }), DETECTOR),
      gate: this.#gate(store),
      detector: DETECTOR,
      version: "v",
      dataFlow: undefined,
      leave: () => {},
    };
    this.#proxy = createProxy({
      halts: { refusalFor: () => undefined },
      snapshots: { current: () => generation, enter: () => generation },
      admission,
      waitingRoom: this.room,
      approvals: store,
      executor: createExecutor({
        intend: async (announced) => {
          this.at("intent");
          this.intents.push(announced);
        },
      }),
      callRecords: this.#callRecords(),
    });
  }

  async call(more: Partial<CallRequest> = {}): Promise<Answer> {
    const token = await issueToken(
      key,
      goodClaims({ permissions: ["deeds:do"], exp: NOW_SECONDS + 60, sid: this.#sid }),
    );
    const request = { tool: "deed", args: { what: "a" }, authorization: `Bearer ${token}`, source: "test" };
    return this.#proxy.call({ ...request, ...more });
  }

  /** The id of the question that waits. */
  pending(): Promise<string> {
    return until("the question", async () => {
      const { approvals } = await this.approvals.list({ state: "pending", limit: 2 });
      return approvals[0]?.id;
    });
  }

  approve(id: string): Promise<unknown> {
    return this.approvals.decide({ id, by: OPERATOR, decision: "approve" });
  }

  /** A question and the yes to it. */
  async approved(more: Partial<CallRequest> = {}): Promise<string> {
    await this.call(more);
    const id = await this.pending();
    await this.approve(id);
    return id;
  }

  close(): Promise<void> {
    return this.world.end();
  }

  #watched(store: Approvals): Approvals {
    const watched: Record<string, unknown> = { ...store };
    for (const act of STORE_ACTS) {
      const real = store[act] as (...args: unknown[]) => Promise<unknown>;
      watched[act] = async (...args: unknown[]) => {
        this.at(`before ${act}`);
        await this.stall?.(`before ${act}`);
        const answer = await real(...args);
        this.at(`after ${act}`);
        await this.stall?.(`after ${act}`);
        return answer;
      };
    }
    return watched as unknown as Approvals;
  }

  #gate(approvals: Approvals): ApprovalGate {
    return createApprovalGate({
      attaches: true,
      approvals,
      ...{ mode: "default", callbackTimeoutMs: 1_000, newId: () => crypto.randomUUID() },
      detector: DETECTOR,
    });
  }

  #callRecords() {
    return createCallRecords({
      clock: () => this.now,
      monotonic: () => 0,
      ids: () => {
        traces += 1;
        return `trace-${traces}`;
      },
      ...{ hashArgs: () => "hash", hashAlg: "sha256" },
      record: async (entry) => {
        this.at("record");
        this.entries.push(entry);
        return mint<Receipt>({ traceId: entry.traceId });
      },
      observe: () => {},
      log: ({ code }) => void this.logged.push(code),
    });
  }

  #tool({ classification = "write", category = "network" }: RoadOptions) {
    return defineTool({
      ...({ name: "deed", description: "Does it" } as const),
      category,
      classification,
      permissions: { required: ["deeds:do"] },
      input: z.strictObject({ what: z.string().max(20) }),
      output: z.object({ done: z.string() }),
      outputPolicy: { done: "allow" },
      handler: ({ what }) => {
        this.at("handler");
        this.deeds.push(what);
        return this.during === undefined ? { done: what } : this.during().then(() => ({ done: what }));
      },
    });
  }
}

/** What an answer is called: a code, or how it stands. */
export function nameOf({ result }: Answer): string {
  return "error" in result ? result.error.code : result.status;
}

export const failure = (): never => {
  throw new Error("injected");
};

export const refuse = (): never => {
  throw new Refusal("AUDIT_UNAVAILABLE", "The call was not run: its intent could not be recorded.", {
    details: { outcome: "not_run" },
  });
};
