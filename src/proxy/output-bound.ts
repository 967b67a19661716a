import { isList, isTable } from "../core/json.ts";
import { CUT_MARGIN_BYTES, textWithin } from "../core/partial-answer.ts";
import type { Json } from "../core/types.ts";

/** A text or list is never cut below this: many small ones cut short would be of use to nobody. */
const SHARE_BYTES_MIN = 1_024;

/** An answer within its tool's bound: its lists are cut, its texts are cut by `cutTexts` once they are redacted. */
export interface Fitted {
  readonly value: Json;
  /** Whether anything of it is over the bound. */
  readonly isCut: boolean;
  /** UTF-8 bytes that each text outside lists may have; infinity when nothing is over the bound. */
  readonly textBytesMax: number;
  /** Texts of which `value` holds only the beginning, by path. */
  readonly cutPaths: ReadonlySet<string>;
}

type Part = string | readonly Json[];

/**
 * Makes an answer fit. Only texts and lists that stand in no list are cut; those that are small stay whole, and the larger ones
 * share what is left. Undefined when the answer cannot be cut to `bytesMax`.
 */
export function fit(value: Json, jsonText: string, bytesMax: number): Fitted | undefined {
  const jsonBytes = Buffer.byteLength(jsonText);
  const whole = { value, isCut: false, textBytesMax: Number.POSITIVE_INFINITY, cutPaths: new Set<string>() };
  if (jsonBytes <= bytesMax) return whole;
  const sizes: number[] = [];
  let partBytes = 0;
  mapParts(value, (part) => {
    const bytes = Buffer.byteLength(JSON.stringify(part));
    partBytes += bytes;
    sizes.push(typeof part === "string" ? Buffer.byteLength(part) : bytes);
    return part;
  });
  const share = shareOf(sizes, bytesMax);
  if (share === Number.POSITIVE_INFINITY && jsonBytes - partBytes <= bytesMax) return whole;
  if (jsonBytes - partBytes > bytesMax || share < Math.min(SHARE_BYTES_MIN, bytesMax)) return undefined;
  const cutPaths = new Set<string>();
  const fitted = mapParts(value, (part, path) => {
    if (typeof part !== "string") return elementsWithin(part, share);
    const kept = textWithin(part, share + CUT_MARGIN_BYTES);
    if (kept !== part) cutPaths.add(path);
    return kept;
  });
  return { value: fitted, isCut: true, textBytesMax: share, cutPaths };
}

/** The same cuts in a value whose texts are redacted: at characters, and nothing that was read too close to where reading ended. */
export function cutTexts(value: Json, { textBytesMax, cutPaths }: Pick<Fitted, "textBytesMax" | "cutPaths">): Json {
  return mapParts(value, (part, path) => {
    if (typeof part !== "string") return part;
    const safeBytes = cutPaths.has(path) ? Buffer.byteLength(part) - CUT_MARGIN_BYTES : Number.POSITIVE_INFINITY;
    return textWithin(part, Math.min(textBytesMax, safeBytes));
  });
}

/** Replaces the texts and lists that stand in no list. */
function mapParts(value: Json, replace: (part: Part, path: string) => Json, path = ""): Json {
  if (typeof value === "string" || isList(value)) return replace(value, path);
  if (!isTable(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, mapParts(inner, replace, pathBelow(path, key))]),
  );
}

export function pathBelow(path: string, key: string): string {
  return `${path}\0${key}`;
}

/** The most that each may have so that all together stay within the budget; infinity when they do as they are. */
function shareOf(sizes: readonly number[], budget: number): number {
  const ascending = sizes.toSorted((one, other) => one - other);
  let left = budget;
  for (const [index, size] of ascending.entries()) {
    const share = Math.floor(left / (ascending.length - index));
    if (size > share) return share;
    left -= size;
  }
  return Number.POSITIVE_INFINITY;
}

function elementsWithin(list: readonly Json[], bytesMax: number): readonly Json[] {
  let bytes = 1;
  for (const [index, element] of list.entries()) {
    bytes += Buffer.byteLength(JSON.stringify(element)) + 1;
    if (bytes > bytesMax) return list.slice(0, index);
  }
  return list;
}
