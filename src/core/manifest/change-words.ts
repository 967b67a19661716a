import type { Fault } from "../errors.ts";
import type { Tool } from "../types.ts";

const wordSet = (...lines: readonly string[]): ReadonlySet<string> => new Set(lines.flatMap((line) => line.split(" ")));

/** Verbs of changes. Verbs that also name pure functions (`add`, `merge`, `sort`) are left out. */
const CHANGES = wordSet(
  "apply approve cancel cordon create delete deploy destroy disable drain drop edit enable erase evict exec execute flush",
  "grant insert install kill modify move overwrite patch pay provision publish purge push reboot refund remove rename reset",
  "restart restore revoke rollback scale send shell shutdown start stop terminate transfer truncate uninstall update upload",
  "wipe write",
);
/** Change verbs that are also nouns: `update_history` and "Update history of a case" are read-only. */
const NOUNS = wordSet(
  "deploy drain drop edit flush grant install kill move patch provision push purge reboot refund reset restart restore scale",
  "shell start stop transfer update upload write",
);
/** Change verbs that a tool may use that only adds. */
const ADDS = wordSet("create grant insert install pay provision publish push refund send start transfer upload write");
const READS = wordSet(
  "analyze ask calculate can check compare compute count counts describe diff estimate explain fetch find get has history info",
  "inspect is list log logs lookup monitor notes ping plan preview query read report reports requests search show stats status",
  "summarize time times trace validate verify view watch where which who",
);
const CONJUNCTIONS = wordSet("and or then");
const DETERMINERS = wordSet("a all an any each every everything its one some that the these this those");

type Named = Pick<Tool, "name" | "description">;

/** Returns the first verb in a tool's name, or else at the start of its description, if it indicates a change. */
export function changeWord({ name, description }: Named): string | undefined {
  const [word] = wordsOf({ name, description });
  // `execute_query`, "Executes a read-only query", only reads.
  return (word === "execute" || word === "exec") && /\bread[- ]only\b/i.test(description) ? undefined : word;
}

/** Returns the first verb in a tool's name or at the start of its description that indicates more than an addition. */
export function replacingWord(tool: Named): string | undefined {
  return wordsOf(tool).find((word) => !ADDS.has(word));
}

function wordsOf({ name, description }: Named): readonly string[] {
  return [...wordsOfName(name), ...wordsOfDescription(description)];
}

function wordsOfName(name: string): readonly string[] {
  const words = name
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .toLowerCase()
    .split(/[^a-z0-9]+/);
  const first = words.findIndex((word) => READS.has(word) || CHANGES.has(word));
  const isRead = words.some((word) => READS.has(word));
  return words.filter((word, at) => {
    if (!CHANGES.has(word)) return false;
    return CONJUNCTIONS.has(words[at - 1] ?? "") || (at === first && !(NOUNS.has(word) && isRead));
  });
}

function wordsOfDescription(description: string): readonly string[] {
  const [, first = "", next = ""] = /^\s{0,16}([A-Za-z]{1,16})\s{1,16}([A-Za-z]{0,16})/.exec(description) ?? [];
  const word = first.toLowerCase();
  const stems = [word, word.replace(/s$/, ""), word.replace(/es$/, ""), word.replace(/ies$/, "y")];
  const verb = stems.find((stem) => CHANGES.has(stem));
  return verb !== undefined && (!NOUNS.has(verb) || DETERMINERS.has(next.toLowerCase())) ? [verb] : [];
}

type Classified = Named & Pick<Tool, "classification" | "category">;

/** Returns the word by which calls of a `read` tool that declares no category are approved like changes. */
export function raisingWord(tool: Classified): string | undefined {
  if (tool.classification !== "read" || tool.category === "read" || tool.category === "ask") return undefined;
  return changeWord(tool);
}

/**
 * Returns advice for a tool whose words contradict its manifest: a `read` tool without a category whose words indicate a change,
 * and an additive tool whose words indicate more than an addition.
 */
export function classificationNotes(tool: Classified & Pick<Tool, "additive">): readonly Fault[] {
  const replaces = tool.additive ? replacingWord(tool) : undefined;
  if (replaces !== undefined) {
    const message = `is true, but the tool's name or description says "${replaces}": MCP clients still get destructiveHint: true; rename the tool if it only adds`;
    return [{ field: "additive", message }];
  }
  const word = raisingWord(tool);
  if (word === undefined) return [];
  const message = `is read, but the tool's name or description says "${word}": its calls need approval, as category ${tool.category}; declare write or destructive, or category: "read" if the tool only reads`;
  return [{ field: "classification", message }];
}
