import type { Fault } from "../errors.ts";
import { decidingPattern } from "./explain.ts";
import {
  advance,
  element,
  type FieldPattern,
  matchesAfter,
  otherKey,
  parseFieldPattern,
  type Segment,
  type Step,
  startPosition,
  wildcard,
} from "./field-path.ts";
import {
  bounded,
  type Described,
  type FieldKind,
  followSteps,
  listed,
  namesOf,
  type PolicyField,
  pathOf,
  pathToWrite,
  policyFields,
  SUGGESTIONS_MAX,
} from "./output-fields.ts";
import { compilePolicy } from "./output-policy.ts";
import { isPlural, personalName } from "./personal-names.ts";
import { actionOf, reasonOf } from "./rule-states.ts";

/** Maximum fields suggested instead of a pattern with `*`. */
const ALTERNATIVES_MAX = 10;

/**
 * Returns an error for each unintended release by a tool's policy: all content of a part that the schema does not
 * describe, or a field whose name certainly indicates personal data and that has no reason. A tool with such an error
 * does not load. Each error ends with a suggestion.
 */
export function releaseFaults(tool: Described): readonly Fault[] {
  const fields = policyFields(tool);
  const all = [...fields, ...undescribed(tool, fields)];
  const messages = [...bounded(undescribedReleases(tool, { fields, all })), ...bounded(personalReleases(tool, all))];
  return messages.map((message) => ({ field: "outputPolicy", message }));
}

/** Returns the positions that the policy's patterns match although the schema does not list them. */
function undescribed(tool: Described, fields: readonly PolicyField[]): readonly PolicyField[] {
  const { root } = compilePolicy(tool.outputPolicy, tool.output);
  const open = new Undescribed(fields);
  return Object.keys(tool.outputPolicy).flatMap((text) => {
    const pattern = parseFieldPattern(text);
    if ("fault" in pattern) return [];
    return open
      .matchedBy(pattern)
      .map(({ steps, kind }) => ({ steps, kind, path: pathOf(steps), node: followSteps(root, steps) }));
  });
}

/** Returns errors for patterns that release all of an undescribed part. `all` also has the unlisted positions. */
function undescribedReleases(
  tool: Described,
  { fields, all }: Readonly<Record<"fields" | "all", readonly PolicyField[]>>,
): readonly string[] {
  const containers = new Set(fields.flatMap(({ steps }) => containersWithKeys(steps)));
  const byPattern = new Map<string, Set<string>>();
  for (const { steps, kind, node } of all) {
    if (kind !== "open" && !steps.includes(otherKey)) continue;
    const pattern = node.action === "allow" ? decidingPattern(tool.outputPolicy, steps, "allow") : undefined;
    if (pattern === undefined) continue;
    const { length } = undescribedPath(steps, kind === "open");
    const mixed = steps.findIndex((step, at) => step === otherKey && containers.has(pathOf(steps.slice(0, at))));
    // Naming a container with both listed and unlisted keys is as broad as a `*`.
    if (!matchesWithin(pattern, steps, mixed === -1 ? length - 1 : Math.max(mixed, length))) continue;
    byPattern.set(pattern, (byPattern.get(pattern) ?? new Set()).add(pathOf(steps)));
  }
  return [...byPattern].map(([pattern, open]) => {
    const described = alternativesTo(tool, pattern, fields);
    const alternatives = described.slice(0, ALTERNATIVES_MAX).map((path) => `"${path}": "allow"`);
    const write = alternatives.length === 0 ? "" : `, such as ${alternatives.join(", ")}`;
    return `"${pattern}": "allow" releases everything that the target returns in ${listed([...open])}, which the schema does not describe; name instead the fields that may be released${write}`;
  });
}

function containersWithKeys(steps: readonly Step[]): readonly string[] {
  return steps.flatMap((step, at) => (typeof step === "string" ? [pathOf(steps.slice(0, at))] : []));
}

/** Returns the path that a pattern must name to release undescribed content. */
function undescribedPath(steps: readonly Step[], isOpen: boolean): readonly Step[] {
  const first = steps.indexOf(otherKey);
  let end = isOpen || first === -1 ? steps.length : first;
  while (end > 0 && typeof steps[end - 1] !== "string") end -= 1;
  return steps.slice(0, end);
}

/** Returns whether a pattern matches completely within this many steps, and so releases all of the part below. */
function matchesWithin(text: string, steps: readonly Step[], within: number): boolean {
  const pattern = parseFieldPattern(text);
  if ("fault" in pattern || pattern.segments.at(-1) === wildcard) return true;
  const end = matchesAfter(pattern, steps).indexOf(true);
  return end !== -1 && end < within;
}

/** Returns the described fields that the pattern releases and that could be named instead. */
function alternativesTo(
  { outputPolicy }: Described,
  pattern: string,
  fields: readonly PolicyField[],
): readonly string[] {
  const paths = fields.flatMap(({ steps, kind, node, path }) => {
    if (kind === "open" || node.action !== "allow" || isPersonal(steps)) return [];
    if (decidingPattern(outputPolicy, steps, "allow") !== pattern) return [];
    const named = steps.includes(otherKey) ? pathOf(undescribedPath(steps, false)) : path;
    return named === "" || named === pattern ? [] : [named];
  });
  return [...new Set(paths)];
}

function isPersonal(steps: readonly Step[]): boolean {
  return personalName(namesOf(steps).map(({ name }) => name)) !== undefined;
}

function personalReleases(tool: Described, fields: readonly PolicyField[]): readonly string[] {
  const releases = fields.flatMap((field) => {
    const found = personalNameOf(field);
    return found === undefined || isReasoned(tool, field, found.name) ? [] : [{ field, found }];
  });
  return releases.slice(0, SUGGESTIONS_MAX).map(({ field, found }) => {
    const prefix = field.steps.slice(0, found.at + 1);
    const path = pathToWrite(tool, field, { prefix, action: found.inKeys ? "redact" : "mask" });
    const protection = found.inKeys ? `"${path}": "redact"` : `"${path}": "mask" or "${path}": "redact"`;
    const what = found.inKeys ? "has personal data as its keys" : "is personal data";
    return `${pathOf(prefix)} ${what} by its name, and is released; write ${protection} or, if it must be released, "${path}": { action: "allow", reason: "…" }`;
  });
}

interface PersonalField {
  readonly name: string;
  /** Index among the steps. */
  readonly at: number;
  /** True when keys are the personal data, which a mask does not hide. */
  readonly inKeys: boolean;
}

/** Returns the name on the path to a released field that certainly indicates personal data. */
function personalNameOf({ steps, kind, node }: PolicyField): PersonalField | undefined {
  if (node.action !== "allow" && node.action !== "mask") return undefined;
  const names = namesOf(steps);
  const found = personalName(names.map(({ name }) => name));
  const named = found && names[found.at];
  if (found?.certainty !== "certain" || named === undefined) return undefined;
  const below = steps.slice(named.at + 1);
  const inKeys = below.find((step) => step !== element) === otherKey;
  if (inKeys) return { ...named, inKeys };
  if (node.action !== "allow" || kind === "closed") return undefined;
  const isCount = kind === "number" && (!found.takesNumber || (isPlural(named.name) && below.length === 0));
  return isCount ? undefined : { ...named, inKeys };
}

/** Returns whether the pattern that releases the field contains its name and has a reason. */
function isReasoned({ outputPolicy }: Described, { steps, node }: PolicyField, name: string): boolean {
  const text = node.action === "allow" ? decidingPattern(outputPolicy, steps, "allow") : undefined;
  if (text === undefined || reasonOf(outputPolicy[text]) === undefined) return false;
  const pattern = parseFieldPattern(text);
  return !("fault" in pattern) && pattern.segments.includes(name);
}

/** Returns the patterns of a policy that release a field for a stated reason, with the reasons. */
export function reasonedLines({
  outputPolicy,
}: Pick<Described, "outputPolicy">): readonly (readonly [string, string])[] {
  return Object.entries(outputPolicy).flatMap(([path, declared]) => {
    const reason = actionOf(declared) === "allow" ? reasonOf(declared) : undefined;
    return reason === undefined ? [] : [[path, reason] as const];
  });
}

interface UndescribedField {
  readonly steps: readonly Step[];
  readonly kind: FieldKind;
}

/** Maximum steps of all searches together. */
const SEARCH_STEPS_MAX = 10_000_000;

/** Finds the positions that patterns match in the parts that a schema does not describe. */
class Undescribed {
  readonly #open: readonly UndescribedField[];
  readonly #listed: ReadonlySet<string>;
  #left = SEARCH_STEPS_MAX;

  constructor(fields: readonly UndescribedField[]) {
    this.#open = fields.filter(({ kind, steps }) => kind === "open" || steps.includes(otherKey));
    this.#listed = new Set(fields.flatMap(({ steps }) => steps.map((_, at) => pathOf(steps.slice(0, at + 1)))));
  }

  /**
   * Returns the positions that the pattern names although the schema does not: `email` in a loose object,
   * `payload.email` in an unknown payload.
   *
   * @throws {RangeError} when the search takes too many steps: positions that are not found cannot be checked
   */
  matchedBy(pattern: FieldPattern): readonly UndescribedField[] {
    const found = new Map<string, UndescribedField>();
    for (const field of this.#open) {
      this.#search(pattern, field, (steps) => {
        const { kind } = field;
        found.set(pathOf(steps), { steps, kind });
      });
    }
    return [...found.values()];
  }

  #search(pattern: FieldPattern, { steps, kind }: UndescribedField, report: (steps: readonly Step[]) => void): void {
    const { segments } = pattern;
    const todo: SearchState[] = [{ position: startPosition(pattern), taken: [] }];
    for (let from = todo.pop(); from !== undefined; from = todo.pop()) {
      this.#left -= 1;
      if (this.#left < 0)
        throw new RangeError("the policy has too many patterns for what the schema leaves undescribed");
      const { position, taken } = from;
      const step = steps[taken.length];
      if (position === segments.length) {
        if (!isSame(taken, steps)) report([...taken, ...steps.slice(taken.length)]);
        continue;
      }
      if (step === undefined) {
        if (kind === "open") report([...taken, ...segments.slice(position).map(asStep)]);
        continue;
      }
      for (const next of advance(pattern, position, step)) todo.push({ position: next, taken: [...taken, step] });
      const awaited = segments[position];
      if (step === otherKey && typeof awaited === "string" && !this.#listed.has(pathOf([...taken, awaited]))) {
        todo.push({ position: position + 1, taken: [...taken, awaited] });
      }
    }
  }
}

interface SearchState {
  readonly position: number;
  readonly taken: readonly Step[];
}

/** Returns whether the steps taken are those of the position. */
function isSame(taken: readonly Step[], steps: readonly Step[]): boolean {
  return taken.every((step, at) => step === steps[at]);
}

function asStep(segment: Segment): Step {
  return segment === wildcard ? otherKey : segment;
}
