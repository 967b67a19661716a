import type { Fault } from "../errors.ts";
import type { Tool } from "../types.ts";
import { decidingPattern } from "./explain.ts";
import { element, parseFieldPattern, type Step, wildcard } from "./field-path.ts";
import {
  bounded,
  listed,
  namesOf,
  type PolicyField,
  pathOf,
  pathToWrite,
  policyFields,
  SUGGESTIONS_MAX,
  shownStep,
} from "./output-fields.ts";
import { personalName } from "./personal-names.ts";
import { reasonedLines } from "./release-faults.ts";
import { actionOf, reasonOf } from "./rule-states.ts";
import { compileScan } from "./scan-policy.ts";

type Described = Pick<Tool, "output" | "outputPolicy" | "scan">;
type NamesSecret = (name: string) => boolean;

/**
 * Returns notes on a tool's output protection: parts that may not be intended, each with a suggestion, and fields that
 * are released for a stated reason. `namesSecret` returns whether a field's name indicates a credential.
 */
export function policyNotes(tool: Described, namesSecret: NamesSecret): readonly Fault[] {
  const fields = policyFields(tool);
  if (fields.some(({ steps }) => steps.length === 0)) return [BARE_VALUE];
  return [
    ...(fields.length > 0 && fields.every(({ node }) => node.releasesNothing) ? [inPolicy(RELEASES_NOTHING)] : []),
    ...uncovered(fields),
    ...overridden(tool, fields),
    ...sensitive(tool, fields, namesSecret),
    ...unscanned(tool, fields),
    ...bounded(reasonedLines(tool).map(([path, reason]) => `${path} is released, because: ${reason}`)).map(inPolicy),
  ];
}

const BARE_VALUE: Fault = {
  field: "output",
  message: "may be a bare value, which no pattern can name: it becomes null; write z.object({ … }) around it",
};

const RELEASES_NOTHING =
  'releases nothing, so every answer is empty: write "allow" or "mask" for the fields that agents need';

function inPolicy(message: string): Fault {
  return { field: "outputPolicy", message };
}

function uncovered(fields: readonly PolicyField[]): readonly Fault[] {
  const isCovered = ({ node, kind }: PolicyField): boolean =>
    node.action !== undefined || (kind === "open" && !node.releasesNothing);
  const covered = new Set(fields.filter(isCovered).flatMap(({ steps }) => prefixes(steps)));
  const paths = fields
    .filter((field) => !isCovered(field))
    .map(({ steps, path }) => prefixes(steps).find((prefix) => !covered.has(prefix)) ?? path);
  if (paths.length === 0) return [];
  const message = `no pattern covers ${listed(paths)}: stripped from every answer; write "redact" if that is meant, else "allow" or "mask"`;
  return [inPolicy(message)];
}

/** Returns the path's prefixes, from the shortest to the path itself. */
function prefixes(steps: readonly Step[]): readonly string[] {
  return steps.map((_, index) => pathOf(steps.slice(0, index + 1)));
}

/** Reports patterns that protect a name everywhere, but lose to a more specific pattern with a milder action. */
function overridden({ outputPolicy }: Described, fields: readonly PolicyField[]): readonly Fault[] {
  const messages = Object.entries(outputPolicy).flatMap(([text, declared]) => {
    const name = nameAnywhere(text);
    const action = actionOf(declared);
    if (name === undefined || action === undefined || action === "allow") return [];
    return fields.flatMap(({ steps, node }) => {
      if (node.action === action || node.action === "redact") return [];
      if (decidingPattern({ [text]: action }, steps, action) === undefined) return [];
      const winner = node.action && decidingPattern(outputPolicy, steps, node.action);
      if (winner === undefined || namesIn(winner).includes(name)) return [];
      const path = pathOf(steps.slice(0, steps.lastIndexOf(name) + 1));
      const says = `"${winner}" has more names, and says ${node.action}`;
      return [`"${text}": "${action}" does not hold for ${path}: ${says}; write "${path}": "${action}" as well`];
    });
  });
  return bounded(messages).map(inPolicy);
}

/** Returns the name at the end of a pattern that contains a `*`. */
function nameAnywhere(text: string): string | undefined {
  const pattern = parseFieldPattern(text);
  if ("fault" in pattern || !pattern.hasWildcard) return undefined;
  return pattern.segments.findLast((segment) => segment !== element) === wildcard ? undefined : namesIn(text).at(-1);
}

function namesIn(text: string): readonly string[] {
  const pattern = parseFieldPattern(text);
  return "fault" in pattern ? [] : pattern.segments.filter((segment) => typeof segment === "string");
}

function sensitive(tool: Described, fields: readonly PolicyField[], namesSecret: NamesSecret): readonly Fault[] {
  const releases = fields.flatMap((field) => {
    if (field.node.action !== "allow" || field.kind === "closed" || isReasoned(tool, field)) return [];
    const found = sensitiveName(field, namesSecret);
    return found === undefined ? [] : [{ field, ...found }];
  });
  const messages = releases.slice(0, SUGGESTIONS_MAX).map(({ field, what, at }) => {
    const prefix = field.steps.slice(0, at + 1);
    const action = what === "is a secret" ? "redact" : "mask";
    const path = pathToWrite(tool, field, { prefix, action });
    return `${pathOf(prefix)} ${what} by its name, and allowed; unless it must be released, write "${path}": "${action}"`;
  });
  return bounded(messages).map(inPolicy);
}

interface SensitiveName {
  readonly what: "is a secret" | "may be personal data";
  /** Index among the steps. */
  readonly at: number;
}

/** Certain personal data does not occur here: `releaseFaults` refuses its release without a reason. */
function sensitiveName({ steps, kind }: PolicyField, namesSecret: NamesSecret): SensitiveName | undefined {
  const names = namesOf(steps);
  const secret = kind === "number" ? undefined : names.find(({ name }) => namesSecret(name));
  if (secret !== undefined) return { what: "is a secret", at: secret.at };
  const found = personalName(names.map(({ name }) => name));
  const name = found?.certainty === "likely" && (kind !== "number" || found.takesNumber) ? names[found.at] : undefined;
  return name && { what: "may be personal data", at: name.at };
}

function isReasoned({ outputPolicy }: Described, { steps }: PolicyField): boolean {
  const pattern = decidingPattern(outputPolicy, steps, "allow");
  return pattern !== undefined && reasonOf(outputPolicy[pattern]) !== undefined;
}

function unscanned({ scan }: Described, fields: readonly PolicyField[]): readonly Fault[] {
  const compiled = compileScan(scan);
  const levelAt = (steps: readonly Step[]) =>
    typeof compiled === "string" ? compiled : compiled(steps.map(shownStep));
  const paths = fields
    .filter(({ kind, node, steps }) => {
      const isFree = kind === "text" || kind === "open";
      return isFree && node.action === "allow" && levelAt(steps) === "off";
    })
    .map(({ path }) => path);
  if (paths.length === 0) return [];
  const message = `off for ${listed(paths)}, which may contain any text, also a secret; write "secrets", or leave it out`;
  return [{ field: "scan", message }];
}
