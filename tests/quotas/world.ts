import { z } from "zod";
import type { CallerContext, Tool } from "../../src/core/types.ts";
import { operationsOn, type StateOperations } from "../../src/database/operations.ts";
import { openSharedState, type SharedState } from "../../src/database/shared-state.ts";
import { sweepState } from "../../src/hub/methods/state.ts";
import { defineTool } from "../../src/index.ts";
import { Quotas } from "../../src/quotas/quotas.ts";
import type { QuotaRule } from "../../src/quotas/rules.ts";
import { stateInUse } from "../support/hub-state.ts";

export function toolOf(name: string, more: Record<string, unknown> = {}): Tool {
  return defineTool({
    ...({ name, description: "Reads", classification: "read" } as const),
    permissions: { required: ["things:read"] },
    ...{ input: z.strictObject({}), output: z.object({}), outputPolicy: {}, handler: () => ({}) },
    ...more,
  } as never) as unknown as Tool;
}

export function callerOf(subject: string, issuer = "https://issuer.example"): CallerContext {
  return { issuer, subject, permissions: [], actors: [], expiresAt: 0 };
}

/** What happens to the next transactions: they fail before or after their commit. */
export type Fault = "none" | "before" | "after";

/** A database in memory with a clock of its own, which several processes use. */
export class QuotaWorld {
  /** The database's clock, in Unix milliseconds. */
  now: number;
  /** Monotonic time of all processes, in milliseconds. */
  monotonic = 0;
  fault: Fault = "none";
  transactions = 0;
  readonly #state: SharedState;
  readonly #database: StateOperations;
  readonly log: string[] = [];

  constructor(now: number) {
    this.now = now;
    this.#state = openSharedState({ now: () => this.now, monotonic: () => performance.now() });
    this.#database = operationsOn(this.#faulty(), async () => {});
    this.operations = stateInUse(this.#database);
  }

  advance(ms: number): void {
    this.now += ms;
    this.monotonic += ms;
  }

  /** The state as processes reach it. */
  readonly operations: StateOperations;

  #faulty(): SharedState {
    return {
      ...this.#state,
      read: async (work) => {
        if (this.fault !== "none") throw new Error("the database is away");
        return this.#state.read(work);
      },
      write: async (work) => {
        const { fault } = this;
        this.transactions += 1;
        if (fault === "before") throw new Error("the database is away");
        const value = await this.#state.write(work);
        if (fault === "after") throw new Error("no answer");
        return value;
      },
    };
  }

  /** Starts a process, whose own clock is wrong by `skewMs`. */
  start(rules: readonly QuotaRule[], skewMs = 0): Quotas {
    return new Quotas({
      rules,
      state: this.operations,
      clock: () => this.now + skewMs,
      monotonic: () => this.monotonic,
      log: (message) => void this.log.push(message),
    });
  }

  /** Deletes old rows, as each process with a database does from time to time. */
  sweep(quotas: Quotas): Promise<void> {
    return this.operations.isRemote ? sweepState(this.#database) : quotas.sweep();
  }

  /** Returns what the rows of the quota say, without what processes know. */
  async used(quota: string): Promise<readonly number[]> {
    const rows = await this.#state.read(async (sql) => [
      ...(await sql`SELECT used FROM policy_quota_use WHERE quota = ${quota} ORDER BY starts_at, issuer, subject, tool`),
    ]);
    return rows.map((row) => Number(row["used"]));
  }

  /** Returns what the rows of the quota say, by the start of their windows. */
  async usedFrom(quota: string): Promise<ReadonlyMap<number, number>> {
    const rows = await this.#state.read(async (sql) => [
      ...(await sql`SELECT starts_at, used FROM policy_quota_use WHERE quota = ${quota}`),
    ]);
    return new Map(rows.map((row) => [Number(row["starts_at"]), Number(row["used"])]));
  }

  close(): Promise<void> {
    return this.#state.close();
  }
}

/** Makes a call: takes, starts unless told otherwise, ends. Returns the refusal's code, or "ran". */
export async function run(
  quotas: Quotas,
  call: { readonly tool: Tool; readonly caller: CallerContext },
  { starts = true, bytes }: { readonly starts?: boolean; readonly bytes?: number } = {},
): Promise<string> {
  const budget = quotas.open();
  try {
    await budget?.reserve(call);
    if (starts) budget?.start();
    if (bytes !== undefined) await budget?.charge("x".repeat(Math.max(0, bytes - 2)));
    return "ran";
  } catch (error) {
    return (error as { readonly code?: string }).code ?? String(error);
  } finally {
    budget?.end();
  }
}
