import { z } from "zod";
import type { RegisteredTool } from "../../core/evidence.ts";
import { zodFromJson } from "../../core/json-schema/zod.ts";
import { classificationNotes } from "../../core/manifest/change-words.ts";
import { element, otherKey, type Step } from "../../core/output-policy/field-path.ts";
import {
  bounded,
  type FieldKind,
  followSteps,
  namesOf,
  type PolicyField,
  pathOf,
  policyFields,
} from "../../core/output-policy/output-fields.ts";
import { personalName } from "../../core/output-policy/personal-names.ts";
import type { FieldAction, Json } from "../../core/types.ts";
import { labelOf } from "../../detection/labels.ts";
import type { ObservedForms } from "./form.ts";
import type { ObservedField } from "./observed.ts";

/**
 * Proposes an output policy from what answers look like. The texts are our own words, names of the manifest and counts. Where the
 * evidence does not say what a field holds, nothing is proposed: the field stays unreleased.
 */

export interface ProposedLine {
  readonly path: string;
  /** Null: undecided, so the field is not released until somebody decides. */
  readonly action: FieldAction | null;
  readonly reason: string;
}

export interface Proposal {
  readonly outputPolicy: readonly ProposedLine[];
  /** Fields without a line: no pattern can name them, their names are not plain, or there are too many. */
  readonly unlisted: number;
  readonly hints: readonly string[];
  /** Schemas of parts that the output schema leaves open, if they were asked for. The path is empty for the whole answer. */
  readonly described: readonly DescribedPart[];
  /** Set when each answer was a text that is JSON: `described` and the policy hold for the JSON. */
  readonly result?: "json";
}

interface DescribedPart {
  readonly path: string;
  readonly schema: Json;
}

/** Observations of a tool's answers. */
export interface Seen {
  readonly answers: number;
  readonly fields: readonly ObservedField[];
  /** Describes open parts; undefined when nobody asked. */
  readonly forms: ObservedForms | undefined;
  /** The answers are texts that are JSON, and `fields` and `forms` are about the JSON. */
  readonly isJson: boolean;
}

type Decision = Omit<ProposedLine, "path">;

const LINES_MAX = 500;
/** Fewer values say nothing about a field with text. */
const VALUES_MIN = 3;
const ANSWERS_MIN = 10;
/** A list of choices: few different texts, each of which occurs again. */
const CHOICES_MAX = 16;
const REPEATED_MIN = 3;
/** Names of the schema are written into the proposal only if they are plain: the schema may come from another system. */
const PLAIN_NAME = /^[A-Za-z0-9_-]{1,64}$/;

const STRICTNESS: Readonly<Record<FieldAction, number>> = { allow: 0, mask: 1, redact: 2 };

/** One line of a policy: a field, or a part whose content the schema does not describe. */
interface Place {
  readonly steps: readonly Step[];
  readonly kinds: Set<FieldKind>;
  readonly node: PolicyField["node"];
  readonly isOpen: boolean;
}

/** Returns a policy for the fields that the tool's output schema declares, and for those that were described. */
export function propose(registered: RegisteredTool, { answers, fields, forms, isJson }: Seen): Proposal {
  const observed = new Map(fields.map((field) => [field.path, field]));
  const tool = isJson ? { output: ANYTHING, outputPolicy: {} } : registered.tool;
  const described: DescribedPart[] = [];
  const places = placesOf(policyFields(tool), (path) => {
    const schema = forms?.schemaAt(path);
    if (schema !== undefined && !described.some((part) => part.path === path)) described.push({ path, schema });
    return schema;
  });
  const nameable = [...places].filter(([, { steps }]) => isNameable(steps));
  const lines = nameable.slice(0, LINES_MAX).map(([path, place]): ProposedLine => {
    const own = place.isOpen ? undefined : observed.get(path);
    return { path, ...withManifest(decide(place, own), place.node.action) };
  });
  const prose = lines.filter(({ path }) => (observed.get(path)?.shapes.prose ?? 0) > 0).map(({ path }) => path);
  return {
    outputPolicy: lines,
    unlisted: places.size - lines.length,
    hints: hintsFor(registered, prose, answers),
    described,
    ...(isJson && { result: "json" as const }),
  };
}

const ANYTHING = z.unknown();

/** Returns the lines of a policy by path. Open parts that can be described are replaced by their fields. */
function placesOf(
  fields: readonly PolicyField[],
  schemaOf: (path: string) => Json | undefined,
): ReadonlyMap<string, Place> {
  const places = new Map<string, Place>();
  const add = (
    { steps: all, kind, node }: Pick<PolicyField, "steps" | "kind" | "node">,
    isDescribed: boolean,
  ): void => {
    const keysAreData = all.indexOf(otherKey);
    const steps = keysAreData === -1 ? all : all.slice(0, keysAreData);
    const isOpen = keysAreData !== -1 || kind === "open";
    const path = pathOf(steps);
    const schema = isOpen && !isDescribed ? schemaOf(path) : undefined;
    if (schema !== undefined) {
      const inner = policyFields({ output: zodFromJson("output", schema).schema, outputPolicy: {} });
      for (const below of inner) {
        const whole = [...steps, ...below.steps];
        add({ ...below, steps: whole, node: followSteps(node, below.steps) }, true);
      }
      return;
    }
    const known = places.get(path);
    places.set(path, {
      steps,
      node: known?.node ?? node,
      isOpen: isOpen || known?.isOpen === true,
      kinds: new Set([...(known?.kinds ?? []), kind]),
    });
  };
  for (const field of fields) add(field, false);
  return places;
}

function isNameable(steps: readonly Step[]): boolean {
  return steps.length > 0 && steps.every((step) => step === element || PLAIN_NAME.test(String(step)));
}

/** Keeps what the manifest explicitly masks or redacts: observing never weakens it. */
function withManifest({ action, reason }: Decision, declared: FieldAction | undefined): Decision {
  if (declared === undefined) return { action, reason };
  if (declared !== "allow" && STRICTNESS[declared] > (action === null ? -1 : STRICTNESS[action])) {
    return { action: declared, reason: `as the manifest says; otherwise: ${reason}` };
  }
  return { action, reason: declared === "allow" && action !== "allow" ? `${reason}; the manifest allows it` : reason };
}

function decide({ steps, kinds, isOpen }: Place, observed: ObservedField | undefined): Decision {
  const names = namesOf(steps).map(({ name }) => name);
  const isClosed = [...kinds].every((kind) => kind === "closed");
  const isNumber = !isClosed && [...kinds].every((kind) => kind === "closed" || kind === "number");
  if (!isClosed && !isNumber && names.some((name) => labelOf(name).secret !== undefined)) {
    return { action: "redact", reason: "its name says that it is a secret" };
  }
  if (isOpen) {
    const reason =
      "the schema does not say which fields it has: describe them, or allow it if no key or value is private";
    return { action: null, reason };
  }
  const personal = personalName(names);
  if (!isClosed && personal !== undefined && (!isNumber || personal.takesNumber)) {
    return { action: "mask", reason: "its name indicates personal data" };
  }
  const values = (observed?.values ?? 0) - (observed?.types.null ?? 0);
  if (observed === undefined || values === 0) return { action: null, reason: "no answer had a value" };
  return (
    detected(observed, values) ??
    (isClosed || isNumber
      ? { action: "allow", reason: isClosed ? "the schema lists its values" : `numbers in ${values} values` }
      : decideText(observed, values))
  );
}

function detected({ secrets, detected: found, shapes }: ObservedField, values: number): Decision | undefined {
  const rules = Object.entries(found).map(([rule, count]) => `${rule} ${count} times`);
  if (rules.length === 0) return undefined;
  const reason = `looked like ${rules.join(", ")} in ${values} values`;
  if (secrets > 0) return { action: "redact", reason };
  // A mask hides a value, not a part of a longer text.
  return (shapes.prose ?? 0) > 0 ? { action: "redact", reason: `${reason}, in free text` } : { action: "mask", reason };
}

function decideText({ shapes, distinct }: ObservedField, values: number): Decision {
  if ((shapes.prose ?? 0) > 0) {
    const reason = 'free text, where names have no shape: if agents need it, allow it with scan: "balanced"';
    return { action: null, reason };
  }
  if (values < VALUES_MIN) return { action: null, reason: `only ${values} values were seen` };
  const { constant = 0, word = 0, words = 0 } = shapes;
  if (word + words > 0) return { action: null, reason: "words, which may be names" };
  if (constant === 0) return { action: "allow", reason: `identifiers, numbers, times or URLs in ${values} values` };
  const isChoice = distinct !== null && distinct > 1 && distinct <= CHOICES_MAX && values >= REPEATED_MIN * distinct;
  if (isChoice)
    return { action: "allow", reason: `${distinct} different words in ${values} values: a list of choices` };
  return {
    action: null,
    reason: "single words, which may be names: too few or too many different ones for a list of choices",
  };
}

function hintsFor({ tool, binding }: RegisteredTool, prose: readonly string[], answers: number): readonly string[] {
  const doubt = binding.classificationDoubt?.();
  return [
    ...(answers < ANSWERS_MIN ? [`only ${answers} answers were seen: observe more before you trust the proposal`] : []),
    ...classificationNotes(tool).map(({ field, message }) => `${field}: ${message}`),
    ...(doubt === undefined ? [] : [`classification: ${doubt}`]),
    ...bounded(prose.map((path) => `untrusted: ${path} may hold instructions for a model: it is free text`)),
  ];
}
