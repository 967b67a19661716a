import type { DirectoryState } from "./moves.ts";
import type { VariableLookup } from "./word.ts";

/** What stands around a command. What changes from command to command is a `State`. */
export interface ShellScope {
  readonly home: string | undefined;
  readonly lookup: VariableLookup;
  readonly cautious: VariableLookup;
  /** `$0`. */
  readonly zero: string;
  /** Whether parameters that are not given are surely empty: in functions, and behind a `-c` with words. */
  readonly isGiven: boolean;
  readonly fedBy: readonly string[];
  /** Programs that write to the `>( )` of the same command. */
  readonly feeds: readonly string[];
  readonly readsInput: boolean;
  readonly inside: string | undefined;
  readonly background: boolean;
  readonly pipe: number | undefined;
  readonly depth: number;
  /** Literal texts that come in through the pipe. */
  readonly input: readonly string[];
  /** Whether `set -e` lets a failure pass here. */
  readonly isTested: boolean;
  readonly isLoop: boolean;
  /** Whether another shell runs it, which does not know the functions of this one. */
  readonly isChild: boolean;
  /** Functions that are being called, and where that began. */
  readonly calls: ReadonlyMap<string, readonly DirectoryState[]>;
}
