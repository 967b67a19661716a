import { StrictReader } from "./strict-reader.ts";

/** How many tags and lengths may still be read. */
export interface ReadBudget {
  left: number;
  /** What is thrown when none are. */
  readonly spent: () => Error;
}

/** Two bytes make a message, and each costs a hundred times that once it is read: what is made of them is counted. */
export class CountedReader extends StrictReader {
  readonly #budget: ReadBudget;

  constructor(bytes: Uint8Array, budget: ReadBudget) {
    super(bytes);
    this.#budget = budget;
  }

  override uint32(): number {
    this.#budget.left -= 1;
    if (this.#budget.left < 0) throw this.#budget.spent();
    return super.uint32();
  }
}
