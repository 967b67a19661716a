import type { CallerContext, Json, Tool } from "../../src/core/types.ts";
import { DataFlowPolicy, DEFAULT_RULES, type FlowRule } from "../../src/data-flow/flow.ts";
import { FlowLedger } from "../../src/data-flow/ledger.ts";
import { StoredTexts } from "../../src/data-flow/stored.ts";
import { operationsOn, type StateOperations } from "../../src/database/operations.ts";
import { openSharedState, type SharedState } from "../../src/database/shared-state.ts";
import { sqliteStore } from "../../src/database/sqlite.ts";
import { MODULES } from "../../src/modules.ts";
import { stateInUse } from "../support/hub-state.ts";
import { TOOLS } from "./flow-world.ts";

export const REMEMBER_MS = 60_000;
export const STORED_MS = 600_000;

interface PolicyParts {
  readonly limits?: ConstructorParameters<typeof StoredTexts>[1];
  /** Where it remembers; this process's memory, by the policy's clock, when left out. */
  readonly state?: SharedState;
  /** Instead of `state`. */
  readonly operations?: StateOperations;
  readonly rules?: readonly FlowRule[];
}

const monotonic = (): number => performance.now();

/** Opens what is shared in a new SQLite file. */
export async function openSqliteState(path: string): Promise<SharedState> {
  const url = `sqlite://${path}`;
  const clocks = { now: Date.now, log: () => {} };
  await (await sqliteStore.open(url, clocks)).close();
  return openSharedState({ store: { kind: sqliteStore, url }, now: Date.now, monotonic });
}

let policies = 0;

/** Data flow with a clock and with limits that tests choose, in the memory of this process or elsewhere. */
export class StoredPolicy {
  now = 1_000_000;
  readonly texts: StoredTexts;
  readonly #policy: DataFlowPolicy;
  readonly #ledger: FlowLedger;
  #ids = 0;
  readonly #number: number;

  constructor({
    limits = {},
    state = openSharedState({ now: () => this.now, monotonic }),
    operations = stateInUse(
      operationsOn(state, async () => {}),
      { losesAnswers: true },
    ),
    rules = DEFAULT_RULES,
  }: PolicyParts = {}) {
    policies += 1;
    this.#number = policies;
    this.texts = new StoredTexts(operations, limits);
    this.#ledger = new FlowLedger({ state: operations, newSecret: () => "5a".repeat(32) });
    this.#policy = new DataFlowPolicy({
      tools: TOOLS,
      context: { kinds: MODULES.targetKinds, isShellConfined: true, ownSystems: new Set() },
      rules,
      rememberMs: REMEMBER_MS,
      storedMs: STORED_MS,
      trustSid: false,
      ledger: this.#ledger,
      stored: this.texts,
      newId: () => this.#nextId(),
      log: (message, cause) => {
        throw new Error(message, { cause });
      },
    });
  }

  /** Remembers an answer. Returns what the caller has read then, and the calls that had stored what earned it. */
  async reads(tool: string, answer: Json, subject = "agent-7") {
    const traceId = this.#nextId();
    const call = { tool: toolNamed(tool), caller: callerNamed(subject), args: () => ({}), traceId };
    const { after, stored } = await this.#policy.remember(call, answer);
    return { labels: after.labels, stored: stored.map(({ tool: by }) => by) };
  }

  async writes(tool: string, input: Json, subject = "agent-7"): Promise<void> {
    await this.#policy.write({ tool: toolNamed(tool), caller: callerNamed(subject), input }, this.#nextId());
  }

  async isAsked(text: string, subject = "agent-7"): Promise<void> {
    await this.#policy.vouch(callerNamed(subject), text);
  }

  /** An approver vouches for a destination of the caller's mails. */
  async isVouched(value: string, subject = "agent-7"): Promise<void> {
    const caller = { ...callerNamed(subject), session: undefined };
    const traceId = this.#nextId();
    await this.#policy.vouchExactly({ caller, approvalId: "approval", traceId, values: [{ argument: "to", value }] });
  }

  labelsOf(subject: string) {
    return this.#policy.labelsOf(callerNamed(subject));
  }

  isCleared(subject: string): Promise<void> {
    return this.#policy.clear(callerNamed(subject));
  }

  close(): Promise<void> {
    return this.#ledger.close();
  }

  /** Returns whether a person is asked. */
  async asks(tool: string, input: Json, subject = "agent-7"): Promise<boolean> {
    const { findings } = await this.#policy.judge({ tool: toolNamed(tool), caller: callerNamed(subject), input });
    return findings.length > 0;
  }

  #nextId(): string {
    this.#ids += 1;
    return `id-${this.#number}-${this.#ids}`;
  }
}

function toolNamed(name: string): Tool {
  const tool = TOOLS.find((one) => one.name === name);
  if (tool === undefined) throw new Error(`no tool ${name}`);
  return tool;
}

function callerNamed(subject: string): CallerContext {
  return { issuer: "https://issuer.test", subject, permissions: [], actors: [], expiresAt: 0 };
}
