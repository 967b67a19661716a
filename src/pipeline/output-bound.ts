import { isList, isTable } from "../core/json.ts";
import { CUT_MARGIN_BYTES, type CutText, textWithin } from "../core/partial-answer.ts";
import type { Json } from "../core/types.ts";

/** A text or list is never cut below this size or a quarter of the bound, whichever is smaller: many tiny pieces are useless. */
const SHARE_BYTES_MIN = 1_024;

/** An answer within its tool's bound. */
export interface Fitted {
  /** True when the answer was over the bound or was cut off before. */
  readonly isCut: boolean;
  readonly value: Json;
  /** The value with slightly longer texts, so that redaction sees a secret that the cut goes through. */
  readonly beyond: Json;
  /** Maximum UTF-8 bytes of each text outside lists; infinity when the answer was within the bound. */
  readonly textBytesMax: number;
}

export interface OutputBounds {
  readonly bytesMax: number;
  /** The text that was cut off already. */
  readonly cutText?: CutText | undefined;
}

type Part = string | readonly Json[];

/**
 * Cuts an answer to `bytesMax`. Only texts and lists outside other lists are cut; small ones stay whole, and the larger ones
 * share what is left. Returns undefined when the answer cannot be cut to `bytesMax`.
 */
export function fit(whole: Json, jsonText: string, { bytesMax, cutText }: OutputBounds): Fitted | undefined {
  const textBytesMax = shareOf(whole, Buffer.byteLength(jsonText), bytesMax);
  if (textBytesMax === undefined) return undefined;
  const isCut = textBytesMax !== Number.POSITIVE_INFINITY;
  let isTextCut = false;
  const fitPart = (part: Part): Json => {
    if (typeof part !== "string") return elementsWithin(part, textBytesMax);
    isTextCut ||= Buffer.byteLength(part) > textBytesMax;
    return textWithin(part, textBytesMax + CUT_MARGIN_BYTES);
  };
  const beyond = isCut ? mapParts(whole, fitPart) : whole;
  const beginning = cutText === undefined ? beyond : withBeginning(beyond, cutText);
  const value = isTextCut ? mapTexts(beginning, textBytesMax) : beginning;
  return { isCut: isCut || cutText !== undefined, value, beyond, textBytesMax };
}

/**
 * Returns the common beginning of each text in two redacted forms of an answer. Where the cut goes through a secret, the longer
 * text hides it and the shorter one does not, so they differ from there on.
 */
export function agreed(value: Json, beyond: Json, textBytesMax: number): Json {
  if (typeof value === "string") return typeof beyond === "string" ? commonBeginning(value, beyond, textBytesMax) : "";
  if (!isTable(value) || !isTable(beyond)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      const other = Object.hasOwn(beyond, key) ? beyond[key] : undefined;
      return [key, agreed(inner as Json, (other ?? null) as Json, textBytesMax)];
    }),
  );
}

function commonBeginning(one: string, other: string, bytesMax: number): string {
  let end = 0;
  while (end < one.length && one.charCodeAt(end) === other.charCodeAt(end)) end += 1;
  // Half of a surrogate pair is not a character.
  if (end > 0 && !one.slice(end - 1, end).isWellFormed() && one.slice(end - 1, end + 1).isWellFormed()) end -= 1;
  return textWithin(one.slice(0, end), bytesMax);
}

/** Replaces the texts and lists outside other lists. */
function mapParts(value: Json, replace: (part: Part) => Json): Json {
  if (typeof value === "string" || isList(value)) return replace(value);
  if (!isTable(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, mapParts(inner as Json, replace)]));
}

/**
 * Returns the maximum size of each text and list at which the answer fits; infinity when it fits uncut, undefined when it cannot
 * be cut to fit.
 */
function shareOf(whole: Json, jsonBytes: number, bytesMax: number): number | undefined {
  if (jsonBytes <= bytesMax) return Number.POSITIVE_INFINITY;
  const sizes: number[] = [];
  let otherBytes = jsonBytes;
  mapParts(whole, (part) => {
    const bytes = Buffer.byteLength(JSON.stringify(part));
    otherBytes -= bytes;
    sizes.push(typeof part === "string" ? Buffer.byteLength(part) : bytes);
    return part;
  });
  const share = levelOf(sizes, bytesMax);
  return otherBytes > bytesMax || share < Math.min(SHARE_BYTES_MIN, bytesMax / 4) ? undefined : share;
}

/** Returns the size to which the larger items are cut so that the sum is within the budget. */
function levelOf(sizes: readonly number[], budget: number): number {
  const ascending = sizes.toSorted((one, other) => one - other);
  let left = budget;
  for (const [index, size] of ascending.entries()) {
    const share = Math.floor(left / (ascending.length - index));
    if (size > share) return share;
    left -= size;
  }
  return Number.POSITIVE_INFINITY;
}

function mapTexts(value: Json, bytesMax: number): Json {
  return mapParts(value, (part) => (typeof part === "string" ? textWithin(part, bytesMax) : part));
}

function elementsWithin(list: readonly Json[], bytesMax: number): readonly Json[] {
  let bytes = 1;
  for (const [index, element] of list.entries()) {
    bytes += Buffer.byteLength(JSON.stringify(element)) + 1;
    if (bytes > bytesMax) return list.slice(0, index);
  }
  return list;
}

function withBeginning(value: Json, { field, bytesMax }: CutText): Json {
  const text = isTable(value) ? value[field] : undefined;
  return typeof text === "string" ? { ...(value as object), [field]: textWithin(text, bytesMax) } : value;
}
