import { Refusal } from "../../core/errors.ts";
import { linearTest } from "../../core/pattern/match.ts";
import type { Lookup, LookupAttempt } from "../../core/types.ts";
import type { Build } from "./argv.ts";
import type { ChildResult } from "./endings.ts";
import { operatorText } from "./endings.ts";
import { decode } from "./parser.ts";

/** Maximum bytes of one answer. */
export const LOOKUP_BYTES_MAX = 4_096;
const ATTEMPTS_MAX = 8;

type Run = (args: readonly string[]) => Promise<ChildResult>;

interface LookupRun {
  readonly lookups: Readonly<Record<string, Lookup>>;
  readonly input: unknown;
  /** Runs the tool's command. Throws to end the call. */
  readonly run: Run;
  /** Checks how the lookup builds arguments from other inputs. Throws to end the call. */
  readonly inspect?: (build: Build) => void;
}

/**
 * Runs all lookups of the manifest in declaration order, before the argv is built.
 *
 * @throws {Refusal} TARGET_REFUSED with status NOT_FOUND when all attempts of a lookup fail
 */
export async function lookUp({ lookups, input, run, inspect }: LookupRun): Promise<Readonly<Record<string, string>>> {
  const found: Record<string, string> = {};
  for (const [name, lookup] of Object.entries(lookups)) {
    const known = { ...found };
    inspect?.((other) => lookup(other, known).map(({ args }) => args));
    const attempts = lookup(input as never, { ...found });
    const answer = await firstAnswer(attempts, run);
    if (typeof answer !== "string")
      throw notFound(name, { fields: fieldsOf(lookup, input, found), cause: answer.cause });
    found[name] = answer;
  }
  return found;
}

async function firstAnswer(
  attempts: readonly LookupAttempt[],
  run: Run,
): Promise<string | { readonly cause: unknown }> {
  if (attempts.length > ATTEMPTS_MAX) throw new RangeError(`a lookup has more than ${ATTEMPTS_MAX} attempts`);
  let cause: unknown = new Error("the lookup makes no attempt");
  for (const { args, answer } of attempts) {
    const result = await run(args);
    cause = operatorText(result);
    if (result.ending.kind !== "exit" || result.ending.code !== 0 || result.truncated) continue;
    const text = decode(result.stdout).trim();
    if (linearTest(anchored(answer))(text)) return text;
  }
  return { cause };
}

/** Returns the manifest's pattern with the addition that it must match the whole text, on one line. */
function anchored({ source, flags }: RegExp): RegExp {
  return new RegExp(`^(?:${source})$`, flags.replace(/[gmy]/g, ""));
}

/** Names the input fields, so that the agent can fix them. The lookup's arguments and output are not returned. */
function notFound(
  lookup: string,
  { fields, cause }: { readonly fields: readonly string[]; readonly cause: unknown },
): Refusal {
  const named = fields.map((field) => `"${field}"`).join(", ");
  return new Refusal("TARGET_REFUSED", `Nothing was found for ${named}. Check that it exists and is spelled exactly.`, {
    details: { status: "NOT_FOUND", lookup, fields },
    cause,
  });
}

/** Returns the input fields that a lookup reads, or all fields when it reads none. */
function fieldsOf(lookup: Lookup, input: unknown, found: Readonly<Record<string, string>>): readonly string[] {
  const target = typeof input === "object" && input !== null ? input : {};
  const read = new Set<string>();
  const recording = new Proxy(target, {
    get(object, key, receiver) {
      if (typeof key === "string" && Object.hasOwn(object, key)) read.add(key);
      return Reflect.get(object, key, receiver);
    },
  });
  lookup(recording as never, { ...found });
  return read.size > 0 ? [...read] : Object.keys(target);
}
