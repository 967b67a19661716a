import { type AnswerPlaces, type DeclaredKind, declaredTarget } from "../../core/target-kind.ts";
import { endedWithin } from "../../core/time-limits.ts";
import type { Tool } from "../../core/types.ts";
import type { FlowContext } from "../../data-flow/declarations.ts";
import type { DataFlowPolicy, FlowRule } from "../../data-flow/flow.ts";
import type { FlowLedger } from "../../data-flow/ledger.ts";
import type { StoredTexts } from "../../data-flow/stored.ts";
import type { StateOperations } from "../../database/operations.ts";
import type { Config } from "../config/config.ts";
import type { Modules } from "../module-types.ts";

/** Time for writing what waits, when the service ends. */
const CLOSE_MS_MAX = 3_000;

interface DataFlowParts {
  readonly state: StateOperations;
  readonly modules: Modules;
  readonly newId: () => string;
  /** Returns 32 random bytes in hex. */
  readonly newSecret: () => string;
  readonly log: (message: string, cause: unknown) => void;
}

/** Opens what follows data for each configuration; nothing is loaded while none needs it. */
export class DataFlowOpener {
  readonly #parts: DataFlowParts;
  #ledger: FlowLedger | undefined;
  #stored: StoredTexts | undefined;

  constructor(parts: DataFlowParts) {
    this.#parts = parts;
  }

  /** What callers have read; undefined until a configuration has needed it. */
  get ledger(): FlowLedger | undefined {
    return this.#ledger;
  }

  /** Writes what waits. Never rejects. */
  async close(): Promise<void> {
    if (this.#ledger !== undefined) await endedWithin(this.#ledger.close(), CLOSE_MS_MAX);
  }

  async policyFor(
    { dataFlow, commands, systems }: Config,
    tools: readonly Tool[],
    placesOf: (tool: Tool) => AnswerPlaces,
  ): Promise<DataFlowPolicy | undefined> {
    if (!isDataFlowOn({ dataFlow }, tools)) return undefined;
    const { state, modules, newId, newSecret, log } = this.#parts;
    const [{ DataFlowPolicy: Policy, DEFAULT_RULES }, { FlowLedger: Ledger }, { StoredTexts: Texts }] =
      await Promise.all([
        import("../../data-flow/flow.ts"),
        import("../../data-flow/ledger.ts"),
        import("../../data-flow/stored.ts"),
      ]);
    this.#ledger ??= new Ledger({ state, newSecret, log });
    this.#stored ??= new Texts(state);
    const { rememberSeconds = REMEMBER_SECONDS, storedSeconds = STORED_SECONDS, trustSid = false } = dataFlow ?? {};
    return new Policy({
      tools,
      placesOf,
      context: flowContextOf({ commands, systems }, modules.targetKinds),
      ledger: this.#ledger,
      stored: this.#stored,
      storedMs: storedSeconds * 1_000,
      newId,
      log,
      trustSid,
      rules: flowRulesOf({ dataFlow }, DEFAULT_RULES),
      rememberMs: rememberSeconds * 1_000,
    });
  }
}

/** Returns the rules of a configuration in which data flow is on. */
export function flowRulesOf(
  { dataFlow }: Pick<Config, "dataFlow">,
  byDefault: readonly FlowRule[],
): readonly FlowRule[] {
  const { default: isDefault = "on", rules = [] } = dataFlow ?? {};
  return [...(isDefault === "on" ? byDefault : []), ...rules];
}

const NAMED_MAX = 5;

/**
 * Returns notes for `stc check`: tools whose answers others may have written while data flow is off, and tools whose manifests
 * declare how data flows and leave out that they send outside.
 */
export async function dataFlowNotes(
  config: Config,
  tools: readonly Tool[],
  kinds: readonly DeclaredKind[],
): Promise<readonly string[]> {
  const { mayLeaveDestinationsOut, toolFlow } = await import("../../data-flow/declarations.ts");
  const unsaid = tools.filter(
    (tool) =>
      isDataFlowOn(config, tools) &&
      tool.dataFlow?.nobody === undefined &&
      (tool.dataFlow?.destinations ?? []).length > 0 &&
      toolFlow(tool, flowContextOf(config, kinds)).sendsOutside &&
      mayLeaveDestinationsOut(tool),
  );
  const empty =
    unsaid.length === 0
      ? []
      : [
          `dataFlow: calls of ${named(unsaid)} may leave all destinations out, and then count as sending outside; declare nobody: whenEmpty where that is nobody`,
        ];
  const declaring = tools.filter(({ dataFlow }) => dataFlow !== undefined && dataFlow.sends === undefined);
  if (declaring.length > 0) {
    const sending = declaring.filter((tool) => toolFlow(tool, flowContextOf(config, kinds)).sendsOutside);
    if (sending.length === 0) return empty;
    return [
      ...empty,
      `dataFlow: sends is left out for ${named(sending)}: calls count as sending outside, as is usual for the kind; declare sends: [] or [outside]`,
    ];
  }
  if (isDataFlowOn(config, tools)) return empty;
  const reaching = tools.filter(({ target, examples }) => {
    const declared = declaredTarget({ target }, kinds);
    return declared?.kind.reachesOthers?.(declared.part, examples.accepts, isShellConfined(config)) === true;
  });
  if (reaching.length === 0) return [];
  return [`dataFlow: is off, and others may have written what ${named(reaching)} read: docs/data-flow.md`];
}

function named(tools: readonly Tool[]): string {
  const names = tools.slice(0, NAMED_MAX).map(({ name }) => name);
  const more = tools.length - names.length;
  return `${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** How long what a caller has read counts when the configuration has no section. */
const REMEMBER_SECONDS = 86_400;
const STORED_SECONDS = 7_776_000;

/** Returns what the data flow of tools depends on in a configuration. */
export function flowContextOf(
  config: Pick<Config, "commands" | "systems">,
  kinds: readonly DeclaredKind[],
): FlowContext {
  const own = Object.entries(config.systems).filter(([, entry]) => entry["own"] === true);
  return { kinds, isShellConfined: isShellConfined(config), ownSystems: new Set(own.map(([name]) => name)) };
}

/** Returns whether a shell runs only where the kernel confines it, whatever kernel this configuration meets. */
function isShellConfined({ commands }: Pick<Config, "commands">): boolean {
  return !commands.unconfinedBash;
}

/** Data flow is on when the configuration has its section or a tool declares how data flows through it. */
export function isDataFlowOn({ dataFlow }: Pick<Config, "dataFlow">, tools: readonly Tool[]): boolean {
  return dataFlow !== undefined || tools.some((tool) => tool.dataFlow !== undefined);
}
