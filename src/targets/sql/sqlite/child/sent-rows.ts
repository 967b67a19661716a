import type { RowCells, SentLimits } from "../protocol.ts";

/** Collects rows until they exceed the limit for all of them. */
export class CollectedRows {
  readonly rows: RowCells[] = [];
  readonly #bytesMax: number;
  #bytes = 0;

  constructor({ bytes }: SentLimits) {
    this.#bytesMax = bytes;
  }

  get areFull(): boolean {
    return this.#bytes > this.#bytesMax;
  }

  /** Adds a row. The first one that does not fit is reported and not sent. */
  add(cells: readonly (string | null)[]): void {
    if (this.areFull) return;
    for (const cell of cells) this.#bytes += cell === null ? 0 : Buffer.byteLength(cell);
    this.rows.push(this.areFull ? null : cells);
  }
}
