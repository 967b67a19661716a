import type { Entered, Snapshot, Snapshots } from "../../pipeline/snapshots.ts";

/** A generation with what it holds open. */
export interface Built extends Snapshot {
  /** Names of the modules that its manifests are. */
  readonly modules: ReadonlySet<string>;
  /** Ends its channels, launchers and mounts. Never rejects. */
  close(): Promise<void>;
}

export interface LiveSnapshotsOptions {
  /** For the last call of an exchanged generation to end; then its targets are closed all the same. */
  readonly lingerMs: number;
}

/** Exchanged generations whose calls have not ended: each holds channels and launchers of its own. */
export const LINGERING_MAX = 8;

/** The generation that calls enter, and those before it that some calls have not left yet. */
export class LiveSnapshots<Content extends Built> implements Snapshots {
  readonly #lingerMs: number;
  readonly #lingering = new Set<Hold<Content>>();
  #hold: Hold<Content>;
  #number = 1;

  constructor(first: Content, { lingerMs }: LiveSnapshotsOptions) {
    this.#lingerMs = lingerMs;
    this.#hold = new Hold(first);
  }

  /** Counted from 1 since the start. */
  get number(): number {
    return this.#number;
  }

  /** Exchanged ones that some calls have not left. */
  get lingering(): number {
    return this.#lingering.size;
  }

  current(): Content {
    return this.#hold.content;
  }

  /** Everything that some call may still use. */
  all(): readonly Content[] {
    return [this.#hold, ...this.#lingering].map(({ content }) => content);
  }

  /** Names of the modules that the manifests of all these are. */
  modules(): ReadonlySet<string> {
    return new Set(this.all().flatMap(({ modules }) => [...modules]));
  }

  enter(): Entered {
    const hold = this.#hold;
    hold.calls += 1;
    return hold.entered;
  }

  /** Later calls enter `next`. `ended` is called when the former one is closed. */
  exchange(next: Content, ended: () => void): void {
    const former = this.#hold;
    this.#hold = new Hold(next);
    this.#number += 1;
    this.#lingering.add(former);
    former.retire(this.#lingerMs, () => {
      this.#lingering.delete(former);
      void former.content.close().then(ended);
    });
  }

  async close(): Promise<void> {
    const holds = [this.#hold, ...this.#lingering];
    this.#lingering.clear();
    await Promise.all(holds.map((hold) => hold.close()));
  }
}

/** One generation and how many calls are in it. */
class Hold<Content extends Built> {
  readonly content: Content;
  readonly entered: Entered;
  calls = 0;
  #end: (() => void) | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(content: Content) {
    this.content = content;
    const { registry, callers, gate } = content;
    this.entered = { registry, callers, gate, leave: () => this.#leave() };
  }

  /** `end` is called once: when the last call has left, or after `lingerMs`. */
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
