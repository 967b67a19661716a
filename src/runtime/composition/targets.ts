import { createDefineTool } from "../../core/define-tool.ts";
import { type Fault, ManifestError } from "../../core/errors.ts";
import { present } from "../../core/present.ts";
import type {
  AnswerPlaces,
  AskedDrafts,
  CertificateExpiry,
  ChangeFinding,
  Channel,
  ConfinementShown,
  KindReport,
  Offers,
  OpenedKind,
  Quarantine,
  SystemState,
  TargetKind,
  ToolDraft,
  UpstreamState,
  WatchOptions,
} from "../../core/target-kind.ts";
import type { Tool } from "../../core/types.ts";
import type { HandlerTable } from "../../pipeline/registry.ts";
import { type Config, entriesOf, pathFrom, withPartOfSystems } from "../config/config.ts";
import { ownPaths } from "../config/own-paths.ts";
import { readPlainFile } from "../config/plain-file.ts";
import { watchFiles } from "../config/watched-files.ts";
import type { Offered } from "../manifests/loader.ts";
import type { LoadedTools } from "../manifests/sources.ts";
import type { KindContext, Modules } from "../module-types.ts";
import { ownCode } from "../own-code.ts";

export type KindCapabilities = Pick<KindContext, "now" | "newId" | "random" | "onSurvivors" | "onUpstream">;

export function kindContexts(
  config: Config,
  capabilities: KindCapabilities,
  problems: string[],
): (kind: TargetKind<KindContext>) => KindContext {
  const shared = {
    ...capabilities,
    config,
    problems,
    ownPaths: ownPaths(config),
    ownCode: ownCode(),
    pathOf: (path: string) => pathFrom(config, path),
    readFile: (path: string) => readPlainFile(pathFrom(config, path)),
    watchFiles: (paths: readonly string[], changed: () => void) => {
      const watching = watchFiles(() => paths, changed);
      return () => watching.close();
    },
  };
  return (kind) => ({ ...shared, systems: entriesOf(config, kind) });
}

interface Opened {
  readonly kind: TargetKind<KindContext>;
  readonly handler: OpenedKind;
}

/** All kinds of targets of a build, opened with one configuration. */
export class Targets {
  readonly #opened: Opened[] = [];

  /** Opens every kind. Problems are added to the list. Call `close` even after an error. */
  async open(config: Config, { targetKinds }: Modules, parts: KindCapabilities & { readonly problems: string[] }) {
    const { problems, ...capabilities } = parts;
    const contextOf = kindContexts(withPartOfSystems(config), capabilities, problems);
    for (const kind of targetKinds) {
      this.#opened.push({ kind, handler: await kind.open(contextOf(kind)) });
    }
  }

  offered(): Offered {
    const offers: Partial<Offers> = Object.assign({}, ...this.#opened.map(({ handler }) => handler.offers));
    const kinds = this.#opened.map(({ kind }) => kind);
    return { offers, kinds, define: createDefineTool(kinds) };
  }

  /** Prepares each kind for its tools. Returns the tools without those that may not run on this machine. */
  async prepare(loaded: LoadedTools): Promise<LoadedTools> {
    const withheld = new Map<string, string>();
    for (const { kind, handler } of this.#opened) {
      const reasons = (await handler.prepare?.(toolsOf(kind, loaded.tools))) ?? [];
      for (const [tool, reason] of reasons) withheld.set(tool, reason);
    }
    const tools = loaded.tools.filter(({ name }) => !withheld.has(name));
    return { ...loaded, tools, notRegistered: [...loaded.notRegistered, ...withheld.values()] };
  }

  /** Returns the tools whose system and program are usable. The others are reported as problems already. */
  reachable(tools: readonly Tool[]): readonly Tool[] {
    return tools.filter((tool) =>
      this.#opened.every(({ kind, handler }) => !(kind.key in tool.target) || handler.isBroken?.(tool) !== true),
    );
  }

  handlers(): HandlerTable {
    return Object.fromEntries(this.#opened.map(({ kind, handler }) => [kind.key, handler]));
  }

  report(tools: readonly Tool[]): Required<KindReport> {
    const reports = this.#opened.map(({ kind, handler }) => handler.report?.(toolsOf(kind, tools)) ?? {});
    return {
      contracts: reports.flatMap(({ contracts = [] }) => contracts),
      notes: reports.flatMap(({ notes = [] }) => notes),
      toolNotes: reports.flatMap(({ toolNotes = [] }) => toolNotes),
      problems: reports.flatMap(({ problems = [] }) => problems),
    };
  }

  facts(): Readonly<Record<string, string>> {
    return Object.assign({}, ...this.#opened.map(({ handler }) => handler.facts));
  }

  async status(): Promise<Readonly<Record<string, SystemState>>> {
    return Object.assign({}, ...(await Promise.all(this.#opened.map(({ handler }) => handler.status?.()))));
  }

  channels(): readonly Channel[] {
    return this.#opened.flatMap(({ handler }) => handler.channels?.() ?? []);
  }

  upstreams(): readonly UpstreamState[] {
    return this.#opened.flatMap(({ handler }) => handler.upstreams?.() ?? []);
  }

  /** Returns why a registered tool is not called; undefined when it is. */
  quarantineOf(tool: Tool): Quarantine | undefined {
    return this.#opened.find(({ kind }) => kind.key in tool.target)?.handler.quarantineOf?.(tool);
  }

  /** Returns where the system of a tool stores the values of its answers, by path. */
  placesOf(tool: Tool): AnswerPlaces {
    return this.#opened.find(({ kind }) => kind.key in tool.target)?.handler.placesOf?.(tool) ?? new Map();
  }

  /** Whether a system may know the outcome of a change that was interrupted. */
  get mayResolve(): boolean {
    return this.#opened.some(({ handler }) => handler.resolve !== undefined);
  }

  /** Asks a system for the outcome of such a change; undefined when it keeps no record. Throws when it does not answer now. */
  async resolve(...asked: Parameters<NonNullable<OpenedKind["resolve"]>>): Promise<ChangeFinding | undefined> {
    for (const { handler } of this.#opened) {
      const finding = await handler.resolve?.(...asked);
      if (finding !== undefined) return finding;
    }
    return undefined;
  }

  /** Maps the name of each configured system of a kind to the kind's name. */
  systemNames(config: Config): ReadonlyMap<string, string> {
    return new Map(
      this.#opened.flatMap(({ kind }) => [...entriesOf(config, kind).keys()].map((name) => [name, kind.name] as const)),
    );
  }

  /** Returns the kind of a tool's target. */
  kindOf({ target }: Tool): TargetKind<KindContext> {
    return present(
      this.#opened.find(({ kind }) => kind.key in target),
      "the kind of the target",
    ).kind;
  }

  certificates(): readonly CertificateExpiry[] {
    return this.#opened.flatMap(({ handler }) => handler.certificates?.() ?? []);
  }

  confinement(): ConfinementShown | undefined {
    return this.#opened.map(({ handler }) => handler.confinement?.()).find((shown) => shown !== undefined);
  }

  /**
   * Returns drafts of manifests for the tools of a system of a kind; a text when they cannot be read, undefined for a system that
   * this kind does not have.
   */
  async drafts(kind: string, system: string, asked?: AskedDrafts): Promise<readonly ToolDraft[] | string | undefined> {
    return this.#opened.find(({ kind: { name } }) => name === kind)?.handler.drafts?.(system, asked);
  }

  /** Returns the errors of a tool that is not part of the configuration; empty when it could be loaded. */
  async faultsOf(tool: Tool): Promise<readonly Fault[]> {
    const opened = this.#opened.find(({ kind }) => kind.key in tool.target)?.handler;
    try {
      await opened?.prepare?.([tool]);
      opened?.bind(tool);
      return [];
    } catch (error) {
      if (!(error instanceof ManifestError)) throw error;
      return error.faults;
    }
  }

  /** Starts to follow the files that may change without a reload. */
  watch(options: WatchOptions): void {
    for (const { handler } of this.#opened) handler.watch?.(options);
  }

  /** The revocation list has changed. */
  revoked(): void {
    for (const { handler } of this.#opened) handler.revoked?.();
  }

  async close(): Promise<void> {
    await Promise.all(this.#opened.map(({ handler }) => handler.close()));
  }
}

function toolsOf({ key }: TargetKind<KindContext>, tools: readonly Tool[]): readonly Tool[] {
  return tools.filter(({ target }) => key in target);
}
