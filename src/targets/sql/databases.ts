import { ManifestError } from "../../core/errors.ts";
import type { ServerProcesses } from "../../core/server-process.ts";
import type {
  AnswerPlaces,
  AskedDrafts,
  ChangeFinding,
  KindReport,
  Quarantine,
  SystemState,
  ToolDraft,
} from "../../core/target-kind.ts";
import type { Binding, Tool } from "../../core/types.ts";
import type { Circuit } from "../../egress/resilience.ts";
import type { SqlContext, SqlParts, SqlSystem } from "./engine.ts";
import { engineOf } from "./engines.ts";
import { SqlFailure } from "./failures.ts";
import type { SqlEntries } from "./settings.ts";
import { SqlTool } from "./tool.ts";

/** Time to check all tools at the start, in milliseconds: an unreachable database delays the start no longer. */
const CHECK_MS_MAX = 10_000;

const NOT_KNOWN = "the server has started again since, or no longer knows the transaction";

interface DatabaseStatus extends SystemState {
  readonly circuit: Circuit;
}

/** The configured databases and their tools. */
export class Databases {
  readonly #systems: ReadonlyMap<string, SqlSystem>;
  readonly #tools = new Map<string, SqlTool>();
  readonly #notes: string[] = [];
  /** Errors of the tools that do not fit their database, by name. */
  readonly #errors = new Map<string, ManifestError>();

  readonly #closeProcesses: () => Promise<void>;

  constructor(systems: ReadonlyMap<string, SqlSystem>, closeProcesses: () => Promise<void>) {
    this.#systems = systems;
    this.#closeProcesses = closeProcesses;
  }

  has(system: string): boolean {
    return this.#systems.has(system);
  }

  /** Has the databases check the tools. */
  async prepare(tools: readonly Tool[]): Promise<ReadonlyMap<string, string>> {
    const signal = AbortSignal.timeout(CHECK_MS_MAX);
    await Promise.all(
      tools.map(async (tool) => {
        const system = this.#systems.get(tool.target.system);
        if (system === undefined) return;
        const checked = new SqlTool(tool, system);
        this.#tools.set(tool.name, checked);
        try {
          await checked.load(signal);
        } catch (error) {
          if (!(error instanceof ManifestError)) throw error;
          this.#errors.set(tool.name, error);
        }
      }),
    );
    const used = new Set(tools.map(({ target }) => target.system));
    await Promise.all([...used].map((name) => this.#noteRules(name, signal)));
    return new Map();
  }

  /** Adds a note for each rule whose column does not exist: a misspelled rule protects nothing. */
  async #noteRules(name: string, signal: AbortSignal): Promise<void> {
    const { rules, read } = this.#systems.get(name) ?? {};
    const keys = Object.keys(rules?.columns ?? {});
    if (keys.length === 0) return;
    try {
      const unknown = (await read?.unknownColumns?.(keys, signal)) ?? [];
      this.#notes.push(
        ...unknown.map((key) => `systems.${name}.sql.columns: there is no column ${key}, so its rule protects nothing`),
      );
    } catch (error) {
      if (!(error instanceof SqlFailure)) throw error;
      this.#notes.push(`systems.${name}.sql.columns: not compared with the database (${error.message})`);
    }
  }

  bind(tool: Tool): Binding {
    const error = this.#errors.get(tool.name);
    if (error !== undefined) throw error;
    const checked = this.#tools.get(tool.name);
    if (checked !== undefined) return checked;
    const message = `no database ${tool.target.system} is configured; configured: ${[...this.#systems.keys()].join(", ") || "none"}`;
    throw new ManifestError(tool.name, [{ field: "target.system", message }]);
  }

  quarantineOf({ name }: Tool): Quarantine | undefined {
    return this.#tools.get(name)?.quarantine;
  }

  /** Returns where the columns of a tool's answers come from, by path of the answer. */
  placesOf({ name }: Tool): AnswerPlaces {
    return this.#tools.get(name)?.places ?? new Map();
  }

  report(tools: readonly Tool[]): KindReport {
    const toolNotes = tools.flatMap((tool) => {
      const quarantine = this.quarantineOf(tool);
      if (this.#errors.has(tool.name)) return [];
      if (quarantine === undefined) {
        return (this.#tools.get(tool.name)?.notes ?? []).map((note) => ({ tool: tool.name, ...note }));
      }
      return [{ tool: tool.name, field: "target.sql", message: quarantine.reason, isQuarantine: true as const }];
    });
    const notes = [...this.#systems.values()].flatMap((system) => system.notes);
    return { notes: [...notes, ...this.#notes], toolNotes };
  }

  status(): Readonly<Record<string, DatabaseStatus>> {
    const states = [...this.#systems].map(([name, { resilience }]) => {
      return [name, { circuit: resilience.circuit, calls: resilience.calls }] as const;
    });
    return Object.fromEntries(states);
  }

  /** Returns the outcome of a change of an earlier process; undefined where the engine keeps no record of transactions. */
  async resolve(
    name: string,
    { transaction, server }: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<ChangeFinding | undefined> {
    const user = this.#systems.get(name)?.write;
    if (user?.outcomeOf === undefined || typeof transaction !== "string" || typeof server !== "string")
      return undefined;
    const outcome = await user.outcomeOf({ transaction, server }, signal);
    return outcome === undefined ? { outcome: "unknown", reason: NOT_KNOWN } : { outcome };
  }

  /** Whether a system keeps a record of its transactions. */
  get mayResolve(): boolean {
    return [...this.#systems.values()].some(({ write }) => write?.outcomeOf !== undefined);
  }

  /** Returns drafts of tools; a text when the database does not answer, undefined for a system of another kind. */
  async drafts(name: string, asked: AskedDrafts): Promise<readonly ToolDraft[] | string | undefined> {
    const system = this.#systems.get(name);
    if (system === undefined) return undefined;
    return (await import("./drafts/drafts.ts")).draftsOf(system, asked, AbortSignal.timeout(CHECK_MS_MAX));
  }

  async close(): Promise<void> {
    await Promise.all([...this.#systems.values()].map((system) => system.close()));
    await this.#closeProcesses();
  }
}

/** Opens the configured databases, each with the code of its engine. Adds what is wrong to `context.problems`. */
export async function openDatabases(context: SqlContext, parts: SqlParts, entries: SqlEntries): Promise<Databases> {
  const systems = new Map<string, SqlSystem>();
  let started: Promise<ServerProcesses> | undefined;
  const processes = (): Promise<ServerProcesses> => {
    const { newId, config } = context;
    started ??= parts.processes({ memoryBytesMax: config.commands.memoryBytesMax, newId });
    return started;
  };
  for (const [name, { sql }] of entries) {
    const system = await engineOf(sql)?.open({ ...context, processes }, name, sql);
    if (system !== undefined) systems.set(name, system);
  }
  return new Databases(systems, async () => (await started)?.close());
}
