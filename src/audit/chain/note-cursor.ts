import type { StreamName } from "./chain.ts";
import type { Checkpoint } from "./checkpoint.ts";
import { eachNote, type FoundNote } from "./checkpoint-files.ts";

/** A note of ours, with where it stands. */
export interface SignedSize extends Omit<FoundNote, "checkpoint"> {
  readonly checkpoint: Checkpoint;
}

/** Hands out the notes of one stream as its lines go by: both are in the order of their sizes, so no more than one is looked at. */
export class NoteCursor {
  readonly #stream: StreamName;
  readonly #notes: Iterator<FoundNote>;
  #next: SignedSize | undefined;
  #size = -1;

  /** Begins with the files of day `from`. */
  constructor(dir: string, stream: StreamName, from?: string) {
    this.#stream = stream;
    this.#notes = eachNote(dir, from);
  }

  /** The next note that covers just so many lines; `undefined` when there is none, or no further one. */
  at(size: number): SignedSize | undefined {
    while (this.#size < size) this.#step();
    const found = this.#size === size ? this.#next : undefined;
    if (found !== undefined) this.#step();
    return found;
  }

  #step(): void {
    for (;;) {
      const step = this.#notes.next();
      if (step.done === true) {
        this.#next = undefined;
        this.#size = Number.POSITIVE_INFINITY;
        return;
      }
      const { checkpoint, ...place } = step.value;
      if (checkpoint?.stream === this.#stream) {
        this.#next = { ...place, checkpoint };
        this.#size = checkpoint.size;
        return;
      }
    }
  }
}
