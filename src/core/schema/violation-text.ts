import { z } from "zod";
import { closestName } from "../nearest.ts";
import { printable } from "../printable.ts";

/** A violation as Zod hands it to the function that words it; violations inside those of a union may have no message yet. */
type Violation = z.core.$ZodRawIssue;
type Kind<Code extends Violation["code"]> = Extract<Violation, { readonly code: Code }>;

const TEXT_CHARACTERS_MAX = 400;
const VALUES_SHOWN_MAX = 20;
const VALUE_CHARACTERS_MAX = 64;
const LIST_CHARACTERS_MAX = 300;
const KEYS_SHOWN_MAX = 10;
const PATTERN_CHARACTERS_MAX = 200;
const FORMS_SHOWN_MAX = 3;
const TYPES_SHOWN_MAX = 10;

/** Zod's own words, whatever language a manifest has chosen for its messages. */
const { localeError: english } = z.locales.en();

/**
 * Returns what is wrong with a value and what is allowed in its place. Contains nothing of the value but the names of keys that
 * the schema does not know. Bounded, whatever the schema and the value.
 */
export function violationText(violation: Violation): string {
  return cut(worded(violation), TEXT_CHARACTERS_MAX);
}

/** Returns a name that came with the arguments, on one line and with every character visible. */
export function shownKey(key: PropertyKey, max = VALUE_CHARACTERS_MAX): string {
  return cut(printable(cut(String(key), max)), max);
}

function worded(violation: Violation): string {
  switch (violation.code) {
    case "invalid_type":
      return violation.expected === "nonoptional" ? "Invalid input: is required" : inEnglish(violation);
    case "invalid_value":
      return valueText(violation);
    case "invalid_format":
      return formatText(violation);
    case "invalid_union":
      return unionText(violation);
    case "unrecognized_keys":
      return keysText(violation);
    case "invalid_key":
      return [inEnglish(violation), ...violation.issues.slice(0, 1).map(reasonOf)].join(": ");
    case "too_small":
    case "too_big":
      return violation.origin === "object"
        ? `${inEnglish(violation)} keys`.replace("to be", "to have")
        : inEnglish(violation);
    case "custom":
      return "Invalid input: breaks a rule of the tool that its schema does not state";
    default:
      return inEnglish(violation);
  }
}

function inEnglish(violation: Violation): string {
  const worded = english(violation);
  return (typeof worded === "string" ? worded : worded?.message) ?? "Invalid input";
}

function cut(text: string, max: number): string {
  return text.length <= max
    ? text
    : `${text
        .slice(0, max - 1)
        .toWellFormed()
        .replace(/\ufffd$/, "")}…`;
}

/** Returns the values as Zod writes them, bounded, and the number of those left out. */
function listed(values: readonly unknown[], between: string): { readonly text: string; readonly more: number } {
  const shown: string[] = [];
  let characters = 0;
  for (const value of values.slice(0, VALUES_SHOWN_MAX)) {
    const text = cut(z.core.util.stringifyPrimitive(value as z.core.util.Primitive), VALUE_CHARACTERS_MAX);
    characters += text.length + between.length;
    if (shown.length > 0 && characters > LIST_CHARACTERS_MAX) break;
    shown.push(text);
  }
  const more = values.length - shown.length;
  return { text: `${shown.join(between)}${more > 0 ? ` and ${more} more` : ""}`, more };
}

function valueText({ values, input }: { readonly values: readonly unknown[]; readonly input?: unknown }): string {
  const { text, more } = listed(values, "|");
  if (values.length === 1) return `Invalid input: expected ${text}`;
  const texts = values.filter((value) => typeof value === "string");
  const meant = more > 0 && typeof input === "string" ? closestName(input, texts) : undefined;
  return `Invalid option: expected one of ${text}${meantText(meant)}`;
}

function meantText(meant: string | undefined): string {
  return meant === undefined ? "" : `; did you mean ${JSON.stringify(meant)}?`;
}

/** Returns the values of a discriminator as Zod writes them. */
function quoted(options: readonly unknown[]): string {
  return listed(options, " | ").text.replaceAll('"', "'");
}

/** A value of each format, for those whose name does not say how they are written. */
const FORMAT_EXAMPLES: Readonly<Record<string, string>> = {
  datetime: "2026-01-31T09:30:00Z",
  date: "2026-01-31",
  time: "09:30:00",
  duration: "PT1H30M",
  e164: "+14155550100",
  cidrv4: "192.0.2.0/24",
  cidrv6: "2001:db8::/32",
};

function formatText(violation: Kind<"invalid_format">): string {
  const { format, pattern } = violation;
  if (format === "regex" || format === "template_literal") {
    if (pattern === undefined) return inEnglish(violation);
    if (pattern.length <= PATTERN_CHARACTERS_MAX) return `Invalid string: must match pattern ${pattern}`;
    return `Invalid string: must match a pattern of ${pattern.length} characters, which the tool's schema shows`;
  }
  const example = Object.hasOwn(FORMAT_EXAMPLES, format) ? FORMAT_EXAMPLES[format] : undefined;
  // The time of a manifest may be local, with fewer digits or with an offset: an example would then mislead.
  const isOurs = (format !== "datetime" && format !== "time") || hasNoOptions(violation);
  return `${inEnglish(violation)}${example === undefined || !isOurs ? "" : `: expected, for example, ${example}`}`;
}

function hasNoOptions({ inst }: Violation): boolean {
  const def = { ...inst?._zod.def } as Readonly<Record<string, unknown>>;
  return ["precision", "local", "offset"].every((option) => !def[option]);
}

/** Names the keys that the schema does not know, and those that were probably meant. */
function keysText(violation: Kind<"unrecognized_keys">): string {
  const { keys } = violation;
  const declared = declaredKeys(violation);
  const shown = keys.slice(0, KEYS_SHOWN_MAX).map((key) => {
    const meant = closestName(key, declared);
    return { key: `"${shownKey(key)}"`, meant: meant === undefined ? undefined : `"${shownKey(meant)}"` };
  });
  const [only, another] = shown;
  if (only !== undefined && another === undefined)
    return `Unrecognized key: ${only.key}${only.meant === undefined ? "" : `; did you mean ${only.meant}?`}`;
  const texts = shown.map(({ key, meant }) => (meant === undefined ? key : `${key} (did you mean ${meant}?)`));
  const more = keys.length > shown.length ? ` and ${keys.length - shown.length} more` : "";
  return `Unrecognized keys: ${texts.join(", ")}${more}`;
}

/** Returns the keys that an object may have: those of its shape, or those that the violation of a JSON Schema names. */
function declaredKeys(violation: Kind<"unrecognized_keys">): readonly string[] {
  const { allowed, inst } = violation as typeof violation & { readonly allowed?: readonly string[] };
  if (allowed !== undefined) return allowed;
  const def = inst?._zod.def;
  return def !== undefined && "shape" in def ? Object.keys(def.shape as object) : [];
}

/** A violation inside a union, at a path that begins at the union's value. */
interface Inner {
  readonly code?: string;
  readonly path?: readonly PropertyKey[];
  readonly message?: string;
  readonly expected?: unknown;
  readonly keys?: unknown;
  readonly values?: unknown;
}
type Form = readonly Inner[];

function unionText(violation: Kind<"invalid_union">): string {
  const { errors, input } = violation;
  const { options } = violation as { readonly options?: readonly unknown[] };
  if (options !== undefined) return `Invalid discriminator value. Expected ${quoted(options)}`;
  const forms = errors as unknown as readonly Form[];
  const wrong = forms.filter(isOfOtherType);
  const near = forms.filter((form) => !isOfOtherType(form));
  if (forms.length === 0) return inEnglish(violation);
  if (near.length === 0) {
    const types = [...new Set(wrong.flatMap(typesOf))];
    const more = types.length > TYPES_SHOWN_MAX ? " or another type" : "";
    return `Invalid input: expected ${types.slice(0, TYPES_SHOWN_MAX).join(" or ")}${more}, received ${kindOf(input)}`;
  }
  const values = near.flatMap((form) => fixedValues(form) ?? []);
  if (near.every(fixedValues)) return valueText({ values, input });
  const least = Math.min(...near.map(distance));
  const nearest = [...new Set(near.filter((form) => distance(form) === least).map(formText))];
  const shown = nearest.slice(0, FORMS_SHOWN_MAX).join("; or ");
  if (near.length === 1) return shown;
  return `Invalid input: matches none of ${forms.length} forms. Nearest: ${shown}`;
}

function isOfOtherType(form: Form): boolean {
  return form.some(({ code, path = [] }) => code === "invalid_type" && path.length === 0);
}

/** Returns the values of a form that is nothing else. */
function fixedValues([only, another]: Form): readonly z.core.util.Primitive[] | undefined {
  const isOnly = another === undefined && only?.code === "invalid_value" && (only.path ?? []).length === 0;
  return isOnly ? (only.values as readonly z.core.util.Primitive[]) : undefined;
}

function typesOf(form: Form): readonly string[] {
  return form.flatMap(({ code, expected }) => (code === "invalid_type" ? [String(expected)] : []));
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

/** A member with another fixed value, such as `kind`, says that another form was meant. */
const OTHER_FORM = 100;
const KEYS_COUNTED_MAX = 10;

/** Returns how much of a value must change before a form takes it. */
function distance(form: Form): number {
  return form.reduce((sum, { code, path = [], keys }) => {
    if (code === "invalid_value" && path.length === 1) return sum + OTHER_FORM;
    return sum + (code === "unrecognized_keys" && Array.isArray(keys) ? Math.min(keys.length, KEYS_COUNTED_MAX) : 1);
  }, 0);
}

function formText(form: Form): string {
  const texts = form.slice(0, FORMS_SHOWN_MAX).map((inner) => {
    const path = (inner.path ?? []).map((step) => shownKey(step)).join(".");
    return path === "" ? reasonOf(inner) : `${path}: ${reasonOf(inner)}`;
  });
  return `${texts.join("; ")}${form.length > texts.length ? `; and ${form.length - texts.length} more` : ""}`;
}

function reasonOf(inner: Inner): string {
  const text = inner.message ?? violationText(inner as unknown as Violation);
  return text.replace(/^Invalid input: /, "");
}
