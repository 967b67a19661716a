import { bombsIn } from "./bombs.ts";
import { type Fetched, fetchedBy } from "./fetched.ts";
import type { Invocation } from "./invocation.ts";
import type { Opaque } from "./opacity.ts";
import type { ShellDirectories } from "./place.ts";
import { Walk } from "./walk.ts";
import { NOTHING_KNOWN, UNKNOWN } from "./word.ts";

/** Everything that a script would start, whatever stands around it. */
export interface ShellScript {
  readonly invocations: readonly Invocation[];
  readonly opaque: ReadonlySet<Opaque>;
  /** Names of functions that the script defines for all that follows. */
  readonly functions: ReadonlySet<string>;
  /** Those of them that start themselves again beside themselves. */
  readonly bombs: readonly string[];
  readonly fetched: Fetched;
}

/** Reads a script as the shell would and lists what it starts. Never throws; what it cannot read, it says. */
export function readScript(text: string, { cwd, home }: ShellDirectories): ShellScript {
  const walk = new Walk(cwd);
  try {
    walk.whole(text, { ...OUTERMOST, home });
  } catch (error) {
    // The parser's own faults and an exhausted stack: what was found so far stands, and the rest was not seen.
    if (!(error instanceof Error)) throw error;
    walk.opaque.add("syntax");
  }
  return {
    invocations: walk.invocations,
    opaque: walk.opaque,
    functions: walk.functions(),
    bombs: bombsIn(walk.bodies),
    fetched: fetchedBy(walk.invocations, walk.bodies),
  };
}

const OUTERMOST = {
  lookup: NOTHING_KNOWN,
  cautious: NOTHING_KNOWN,
  zero: UNKNOWN,
  isGiven: false,
  fedBy: [],
  feeds: [],
  readsInput: false,
  inside: undefined,
  background: false,
  pipe: undefined,
  depth: 0,
  input: [],
  isTested: false,
  isLoop: false,
  isChild: false,
  calls: new Map(),
} as const;
