import type { Work } from "../../bounds.ts";
import type { Matched } from "../../finding.ts";

/** A credential of several parts. Its words are in lower case and stand somewhere in it. */
export interface SecretShape {
  readonly words: readonly string[];
  /** What a look takes at most, apart from runs that are read once. */
  readonly steps: number;
  /** A number says that nothing of this shape begins before it, so that a long run is read once. */
  match(text: string, start: number, end: number, readers: { readonly work: Work }): Matched;
}
