import { hint } from "../../core/nearest.ts";
import { conditionsHold } from "../../core/rule-conditions.ts";
import { endedWithin } from "../../core/time-limits.ts";
import type { StateOperations } from "../../database/operations.ts";
import type { QuotaSlot } from "../../pipeline/proxy.ts";
import type { Config } from "../config/config.ts";
import type { LoadedTools } from "../manifests/sources.ts";
import type { Capabilities, Hooks } from "./hooks.ts";

const TIDY_EVERY_MS = 5_000;
const SWEEP_EVERY_MS = 600_000;
/** Time for giving back what is unused, when the service ends. */
const CLOSE_MS_MAX = 3_000;

interface QuotaParts extends Pick<Capabilities, "clock" | "monotonic">, Pick<Hooks, "logError"> {
  readonly state: StateOperations;
}

/** Keeps the quotas of the configuration in use. Their code is imported when a configuration has some. */
export interface LiveQuotas {
  readonly slot: QuotaSlot;
  /** Imports what the configuration needs. */
  prepare(config: Config): Promise<void>;
  /** Applies the quotas of a prepared configuration. Never fails. */
  change(config: Config): void;
  /** Gives back what is unused. Never rejects. */
  close(): Promise<void>;
}

export function openQuotas({ state, clock, monotonic, logError = () => {} }: QuotaParts): LiveQuotas {
  const slot: QuotaSlot = { quotas: undefined };
  const timers: NodeJS.Timeout[] = [];
  let code: typeof import("../../quotas/quotas.ts") | undefined;
  const failed = (cause: unknown): void => logError("old rows of quotas could not be deleted", cause);
  return {
    slot,
    async prepare({ limits: { quotas: rules } }) {
      if (rules.length > 0) code ??= await import("../../quotas/quotas.ts");
    },
    change({ limits: { quotas: rules } }) {
      slot.quotas?.change(rules);
      if (slot.quotas !== undefined || rules.length === 0 || code === undefined) return;
      const quotas = new code.Quotas({ rules, state, clock, monotonic, log: logError });
      slot.quotas = quotas;
      timers.push(
        setInterval(() => void quotas.tidy(), TIDY_EVERY_MS).unref(),
        setInterval(() => void quotas.sweep().catch(failed), SWEEP_EVERY_MS).unref(),
      );
    },
    async close() {
      for (const timer of timers) clearInterval(timer);
      if (slot.quotas !== undefined) await endedWithin(slot.quotas.close(), CLOSE_MS_MAX);
    },
  };
}

type Loaded = Pick<LoadedTools, "tools" | "notRegistered">;

/**
 * Returns notes on quotas that are valid but probably not intended, such as one for a misspelt tool name. Names are not checked
 * while a tool is not registered because its target is missing: the name may be that tool's.
 */
export async function quotaNotes(
  { limits: { quotas: rules }, approvals: { store, storeUrlFile } }: Config,
  { tools, notRegistered, isEmbedded }: Loaded & { readonly isEmbedded: boolean },
): Promise<readonly string[]> {
  if (rules.length === 0) return [];
  const names = tools.map(({ name }) => name);
  const isShared = store !== undefined || storeUrlFile !== undefined;
  const alone = "limits.quotas: counted by this process, and forgotten when it ends: set approvals.store";
  return [
    ...(isShared || isEmbedded ? [] : [alone]),
    ...rules.flatMap(({ name, when = {}, cost }, index) => {
      const field = `limits.quotas[${index}] (${name})`;
      const unknown = (when.tools ?? []).filter((pattern) => !pattern.includes("*") && !names.includes(pattern));
      if (notRegistered.length > 0) return [];
      const concerned = tools.filter((tool) => conditionsHold(when, { tool }));
      const priced = concerned.filter((tool) => (tool.cost ?? 0) > 0);
      const tooDear = priced.filter((tool) => cost !== undefined && (tool.cost ?? 0) > cost);
      return [
        ...unknown.map((tool) => `${field}.when.tools: ${tool} is not a registered tool${hint(tool, names)}`),
        ...(concerned.length === 0 ? [`${field}: applies to no tool`] : []),
        ...(cost !== undefined && concerned.length > 0 && priced.length === 0
          ? [`${field}.cost: no tool that it applies to declares a cost, so that it counts nothing`]
          : []),
        ...tooDear.map((tool) => `${field}.cost: ${tool.name} costs ${tool.cost} and can never be called`),
      ];
    }),
  ];
}
