import type { CallerVerifier } from "../../pipeline/caller-context.ts";
import type { Entered, Snapshot, Snapshots } from "../../pipeline/proxy.ts";
import type { Registry } from "../../pipeline/registry.ts";

/** Returns a registry that always uses the current configuration snapshot, for listeners that outlive all snapshots. */
export function currentRegistry(snapshots: Snapshots): Registry {
  return {
    find: (name) => snapshots.current().registry.find(name),
    known: (found, admitted) => snapshots.current().registry.known(found, admitted),
    list: () => snapshots.current().registry.list(),
  };
}

/** Returns a caller verifier that always uses the current configuration snapshot. */
export function currentCallers(snapshots: Snapshots): CallerVerifier {
  return {
    verify: (...shown) => snapshots.current().callers.verify(...shown),
    recall: (...shown) => snapshots.current().callers.recall(...shown),
    verifyToken: (...shown) => snapshots.current().callers.verifyToken(...shown),
    knows: (authorization) => snapshots.current().callers.knows(authorization),
    assertOperator: (person) => snapshots.current().callers.assertOperator(person),
    configuredAgent: (agent) => snapshots.current().callers.configuredAgent(agent),
    reload: (issuers) => snapshots.current().callers.reload(issuers),
    clear: () => snapshots.current().callers.clear(),
    fetchedKeys: (...named) => snapshots.current().callers.fetchedKeys(...named),
  };
}

export interface Built extends Snapshot {
  readonly modules: ReadonlySet<string>;
  /** Closes its channels, launchers and mounts. Never rejects. */
  close(): Promise<void>;
}

/** Maximum number of replaced snapshots with running calls: each holds its own channels and launchers. */
export const LINGERING_MAX = 8;

/** The current snapshot, which new calls use, and the replaced snapshots that running calls still use. */
export class LiveSnapshots<Content extends Built> implements Snapshots {
  readonly #lingerMs: number;
  readonly #lingering = new Set<SnapshotUse<Content>>();
  #use: SnapshotUse<Content>;
  #number = 1;

  /** After `lingerMs`, the targets of a replaced snapshot are closed even if a call still uses them. */
  constructor(first: Content, lingerMs: number) {
    this.#lingerMs = lingerMs;
    this.#use = new SnapshotUse(first);
  }

  /** The number of the current snapshot, counted from 1 at the start. */
  get number(): number {
    return this.#number;
  }

  /** Number of replaced snapshots that running calls still use. */
  get lingering(): number {
    return this.#lingering.size;
  }

  current(): Content {
    return this.#use.content;
  }

  all(): readonly Content[] {
    return [this.#use, ...this.#lingering].map(({ content }) => content);
  }

  modules(): ReadonlySet<string> {
    return new Set(this.all().flatMap(({ modules }) => [...modules]));
  }

  enter(): Entered {
    const use = this.#use;
    use.calls += 1;
    return use.entered;
  }

  /** Replaces the snapshot: later calls use `next`. `ended` is called when the previous one is closed. */
  exchange(next: Content, ended: () => void): void {
    const former = this.#use;
    this.#use = new SnapshotUse(next);
    this.#number += 1;
    this.#lingering.add(former);
    former.retire(this.#lingerMs, () => {
      this.#lingering.delete(former);
      void former.content.close().then(ended);
    });
  }

  async close(): Promise<void> {
    const uses = [this.#use, ...this.#lingering];
    this.#lingering.clear();
    await Promise.all(uses.map((use) => use.close()));
  }
}

class SnapshotUse<Content extends Built> {
  readonly content: Content;
  readonly entered: Entered;
  calls = 0;
  #end: (() => void) | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(content: Content) {
    this.content = content;
    const { registry, callers, policy, gate, detector, dataFlow, version } = content;
    this.entered = { registry, callers, policy, gate, detector, dataFlow, version, leave: () => this.#leave() };
  }

  /** Calls `end` once: when the last call has ended, or after `lingerMs`. */
  retire(lingerMs: number, end: () => void): void {
    this.#end = end;
    this.#timer = setTimeout(() => this.#finish(), lingerMs);
    this.#timer.unref();
    if (this.calls === 0) this.#finish();
  }

  close(): Promise<void> {
    this.#end = undefined;
    clearTimeout(this.#timer);
    return this.content.close();
  }

  #leave(): void {
    this.calls -= 1;
    if (this.calls === 0) this.#finish();
  }

  #finish(): void {
    clearTimeout(this.#timer);
    const end = this.#end;
    this.#end = undefined;
    end?.();
  }
}
