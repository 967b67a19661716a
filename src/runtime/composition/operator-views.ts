import type { AuditLog } from "../../audit/audit-log.ts";
import type { TenantShown } from "../../core/api/tenants.ts";
import type { EpochMs } from "../../core/types.ts";
import type { Admission } from "../../pipeline/admission.ts";
import type { AccessQuestion } from "../../pipeline/evaluation.ts";
import type { Learning } from "../../pipeline/learning/learning.ts";
import type { ObserverSlot } from "../../pipeline/output-filter.ts";
import type { LiveSnapshots } from "../reload/snapshots.ts";
import type { ExplainedCall, KnownState, StatedCaller } from "../replay/explain.ts";
import type { openHalts } from "./halts.ts";
import type { openQuotas } from "./quotas.ts";
import type { joinSnapshot, startReloading } from "./reloading.ts";

interface ViewedParts {
  readonly snapshots: LiveSnapshots<Awaited<ReturnType<typeof joinSnapshot>>>;
  readonly reloading: ReturnType<typeof startReloading>;
  readonly audit: AuditLog;
  readonly halts: ReturnType<typeof openHalts>;
  readonly approvals: KnownState["approvals"];
  readonly quotas: ReturnType<typeof openQuotas>["slot"];
  readonly ids: () => string;
  readonly clock: () => EpochMs;
  readonly admission: Pick<Admission, "inFlight">;
}

/** Returns what operators and other programs may ask a service about itself. Each loads its code at the first use. */
export function operatorViews(parts: ViewedParts) {
  const { snapshots, reloading, audit, halts, approvals, quotas, ids, clock, admission } = parts;
  return {
    /** Returns what the operators of a service see of it as one of its tenants. */
    summary(): Omit<TenantShown, "name"> {
      const state = reloading.state();
      return {
        tools: snapshots.current().registry.list().length,
        callsInFlight: admission.inFlight(),
        audit: audit.health().status,
        halted: halts.stopsAll(),
        ...(state !== undefined && {
          configuration: {
            generation: state.generation,
            since: state.since,
            problems: state.lastRefused?.problems ?? 0,
          },
        }),
      };
    },
    /** Returns the tools, systems and settings in use, for operators; loads their code at the first use. */
    inventory: async () => {
      const { inventoryOf } = await import("../inventory/inventory.ts");
      const { config: inUse, parts: current } = snapshots.current();
      const [state, problems] = [reloading.state(), reloading.problems()];
      return inventoryOf({ config: inUse, parts: current, state, problems, audit: audit.health(), nowMs: clock() });
    },
    /** Decides whether an agent may call a tool, for other programs; loads its code at the first use. */
    evaluate: async (question: AccessQuestion) => {
      const { evaluateAccess } = await import("../../pipeline/evaluation.ts");
      const { leave, registry, callers, policy } = snapshots.enter();
      const { risk } = snapshots.current().parts;
      const call = { halts, risk, session: undefined, traceId: ids() };
      return evaluateAccess({ registry, callers, policy, ...call }, question).finally(leave);
    },
    /** Returns what the policies in use say about a call, for operators; loads its code at the first use. */
    explain: async (caller: StatedCaller, call: Omit<ExplainedCall, "caller">) => {
      const { callerOf, explainCall } = await import("../replay/explain.ts");
      const { config: inUse, parts: current, version, dataFlow } = snapshots.current();
      const known: KnownState = {
        haltOf: (halting) => halts.refusalFor(halting),
        dataFlow,
        approvals,
        quotas: quotas.quotas,
      };
      const asked = { parts: current, config: inUse, policyVersion: version, known };
      return explainCall(asked, { ...call, caller: await callerOf(asked, caller) });
    },
  };
}

/**
 * Returns the operators' observations of answers; loads their code at the first use, since most services never observe a tool.
 */
export function learningFor(slot: ObserverSlot, clock: () => EpochMs, newId: () => string): () => Promise<Learning> {
  let learning: Promise<Learning> | undefined;
  return () => {
    learning ??= import("../../pipeline/learning/learning.ts").then(
      ({ Learning: Observations }) => new Observations({ slot, clock, newId }),
    );
    return learning;
  };
}
