import { type Leaf, leaves, type Run } from "./runs.ts";
import type { Called } from "./stand.ts";

/** What was really read before a call, found by comparing texts: what the proxy says about origins is measured against it. */

/** The part of a manifest's declaration that says what an answer holds, and which arguments are destinations. */
export interface Flow {
  readonly reads?: readonly string[];
  readonly sends?: readonly string[];
  readonly destinations?: readonly string[];
  readonly trusted?: readonly string[];
}

export type Flows = Readonly<Record<string, Flow>>;

/** A value of an answer that the agent got. */
interface Seen {
  readonly traceId: string;
  readonly text: string;
  readonly isTrusted: boolean;
  /** The tool's answers hold untrusted text as well: a trusted field vouches for its whole value only. */
  readonly isMixed: boolean;
  /** It is the name of a member: agents read it, and where names are data, the proxy reads it as well. */
  readonly isKey: boolean;
}

/** Returns a text in a form that does not depend on case, spacing or punctuation. */
export function plain(value: unknown): string {
  return String(value)
    .normalize("NFKC")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
}

/** Returns whether whole words of a text are the value. */
export function contains(text: string, value: string): boolean {
  return value !== "" && ` ${text} `.includes(` ${value} `);
}

/** Answers that one agent got, in order. */
export class Memory {
  readonly #flows: Flows;
  readonly #seen: Seen[] = [];

  constructor(flows: Flows) {
    this.#flows = flows;
  }

  see({ tool, result, outcome, traceId }: Called): void {
    if (outcome !== "success") return;
    const { reads = [], trusted = [] } = this.#flows[tool] ?? { reads: [] };
    const isMixed = reads.includes("untrusted");
    for (const { path, value } of leaves(result))
      this.#seen.push({ traceId, text: plain(value), isTrusted: isBelow(path, trusted), isMixed, isKey: false });
    for (const key of keysOf(result))
      this.#seen.push({ traceId, text: plain(key), isTrusted: false, isMixed, isKey: true });
  }

  /** Returns whether a trusted value is this one, or the answer of a tool without untrusted text contains it in a trusted field. */
  vouchesFor(value: string): boolean {
    return this.#seen.some(
      ({ isTrusted, isMixed, text }) => isTrusted && (isMixed ? text === value : contains(text, value)),
    );
  }

  /** Returns whether an answer contains the value, or telling words of it in a row; in names of members only where those are data. */
  shares({ traceId, field }: { readonly traceId: string; readonly field: string }, value: string): boolean {
    const isOfKeys = field.endsWith("*");
    const words = value.split(" ");
    const parts = words.flatMap((word, index) => {
      const two = words[index + 1] === undefined ? [] : [`${word} ${words[index + 1]}`];
      return word.length >= TELLING_CHARACTERS ? [word, ...two] : two;
    });
    const compact = value.replaceAll(" ", "");
    return this.#seen.some(
      (seen) =>
        seen.traceId === traceId &&
        (isOfKeys || !seen.isKey) &&
        (contains(seen.text, value) ||
          (compact.length >= TELLING_CHARACTERS && seen.text.replaceAll(" ", "").includes(compact)) ||
          parts.some((part) => contains(seen.text, part))),
    );
  }
}

/** Returns the names of all members of a JSON value. */
function keysOf(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(keysOf);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => [key, ...keysOf(inner)]);
}

const TELLING_CHARACTERS = 6;

/** Returns whether a path of a value is one of these paths of a manifest, or below one. */
function isBelow(path: string, declared: readonly string[]): boolean {
  return declared.some((one) => path === one || path.startsWith(`${one}.`) || path.startsWith(`${one}[`));
}

/** Returns the arguments of a call that say where something goes. */
export function destinationsOf({ tool, args }: Pick<Called, "tool" | "args">, flows: Flows): readonly Leaf[] {
  const declared = flows[tool]?.destinations ?? [];
  return leaves(args).filter(({ path, value }) => isBelow(path, declared) && value !== "");
}

/** Goes through the calls of a run, with what the agent had read before each of them. */
export function eachCall(
  run: Run,
  flows: Flows,
  visit: (call: Called, memory: Memory, isAttack: boolean) => void,
): void {
  const memory = new Memory(flows);
  for (const call of run.userCalls) {
    visit(call, memory, false);
    memory.see(call);
  }
  for (const call of run.attackCalls) {
    visit(call, memory, true);
    memory.see(call);
  }
}
