import type { StreamName } from "./chain.ts";
import type { Checkpoint } from "./checkpoint.ts";
import { eachNote, type FoundNote } from "./checkpoint-files.ts";

/** A checkpoint note of this service and its location. */
export interface SignedSize extends Omit<FoundNote, "checkpoint"> {
  readonly checkpoint: Checkpoint;
}

/**
 * Returns the notes of one stream as its lines pass. Notes and lines are both ordered by size, so only one note is
 * examined at a time.
 */
export class NoteCursor {
  readonly #stream: StreamName;
  readonly #notes: Iterator<FoundNote>;
  #next: SignedSize | undefined;
  #size = -1;

  /** Starts with the files of day `from`. */
  constructor(dir: string, stream: StreamName, from?: string) {
    this.#stream = stream;
    this.#notes = eachNote(dir, from);
  }

  /** Returns the next note that covers exactly this number of lines; `undefined` when there is no further one. */
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
