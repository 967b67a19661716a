import type { z } from "zod";
import { type Canonical, NotJsonError, sha256Hex } from "../core/digest.ts";
import { Refusal } from "../core/errors.ts";
import { type Executed, mint, type RegisteredTool, type Released } from "../core/evidence.ts";
import { isList, isTable } from "../core/json.ts";
import { applyPolicy } from "../core/output-policy/output-policy.ts";
import { CUT_MARGIN_BYTES, type CutText, PartialAnswer, textWithin, textWithinJson } from "../core/partial-answer.ts";
import type { Json, Tool } from "../core/types.ts";
import type { Detector } from "../detection/sensitive.ts";
import { plainAnswer } from "./answer-json.ts";
import { redactFiltered } from "./redactor.ts";
import { parseOutput } from "./schema-validator.ts";

const DEPTH_MAX = 64;
const NODES_MAX = 500_000;
/** Largest answer, in UTF-8 bytes of JSON, that is cut to its tool's bound; a larger answer is not processed. */
const CUT_FROM_BYTES_MAX = 33_554_432;

/** Sees answers as the output schema returns them, before the policy is applied. Never throws, and changes nothing. */
export interface AnswerObserver {
  observe(registered: RegisteredTool, answer: unknown, detector: Detector): void;
}

/** Holds the observer of a service, while there is one. */
export interface ObserverSlot {
  observer: AnswerObserver | undefined;
}

interface ReleaseOptions {
  /** A bound of the caller's protocol, in addition to the tool's. */
  readonly bytesMax?: number | undefined;
  readonly observer?: AnswerObserver | undefined;
}

/**
 * Releases what the policy permits: answer → plain JSON → tool's bound → output schema → output policy → redaction → cut texts.
 * The raw answer is not used after that.
 *
 * @throws {Refusal} OUTPUT_TOO_LARGE for a tool that reads, INVALID_OUTPUT
 */
export function release(executed: Executed, detector: Detector, options: ReleaseOptions = {}): Released {
  try {
    return mint<Released>(filtered(executed, executed.raw, { detector, ...options }));
  } catch (error) {
    const isTooLarge = error instanceof Refusal && error.code === "OUTPUT_TOO_LARGE";
    if (!isTooLarge || executed.tool.classification === "read") throw error;
    // The change has happened: the bound withholds its output, but the call still succeeds.
    return mint<Released>(WITHHELD);
  }
}

type Kept = Pick<Filtered, "result" | "filteredFields" | "truncated" | "outputHash">;

/**
 * Cuts what is released to its bound: an answer to a repeated call, or one that redaction or the schema's defaults have made
 * longer. Its texts are already redacted.
 *
 * @throws {Refusal} OUTPUT_TOO_LARGE for a tool that reads
 */
export function cutAgain<K extends Kept>(tool: Tool, kept: K, bytesMax: number): K | Filtered {
  const text = JSON.stringify(kept.result);
  if (Buffer.byteLength(text) <= bytesMax) return kept;
  const whole = marked(tool, kept.result);
  const fitted = fit(whole, JSON.stringify(whole), { bytesMax });
  const cut = fitted && { ...kept, result: fitted.value, truncated: true as const };
  // A filtered answer need not fit the output schema. One that does must fit it after the cut, too.
  if (cut !== undefined && (fits(tool, cut.result) || !fits(tool, kept.result))) return cut;
  if (tool.classification === "read") throw tooLarge(tool);
  return { ...WITHHELD, outputHash: kept.outputHash };
}

function fits({ output }: Tool, result: Json): boolean {
  try {
    return output.safeParse(result).success;
  } catch {
    return false;
  }
}

/** Returns what may be released of the output of a run that was cut off; undefined when nothing may. */
export function releaseOutputSoFar(
  registered: RegisteredTool,
  soFar: PartialAnswer,
  detector: Detector,
): Released | undefined {
  try {
    return mint<Released>(filtered(registered, soFar, { detector }));
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

/** Returns the same release without its content. */
export function withheld({ outputHash, by }: Released): Released {
  return mint<Released>({ ...WITHHELD, outputHash, ...(by !== undefined && { by }) });
}

type Filtered = Parameters<typeof mint<Released>>[0];

const WITHHELD: Filtered = { result: null, filteredFields: ["*"], truncated: true, outputHash: sha256Hex("null") };

interface FilterOptions extends ReleaseOptions {
  readonly detector: Detector;
}

function filtered(registered: RegisteredTool, raw: unknown, options: FilterOptions): Filtered {
  const { tool } = registered;
  const bytesMax = Math.min(tool.limits.outputBytesMax, options.bytesMax ?? Number.POSITIVE_INFINITY);
  return cutAgain(tool, filteredWithin(registered, raw, { ...options, bytesMax }), bytesMax);
}

/** Cuts the answer before redaction, which may make it a little longer. */
function filteredWithin(
  registered: RegisteredTool,
  raw: unknown,
  { detector, bytesMax, observer }: FilterOptions & { readonly bytesMax: number },
): Filtered {
  const { tool, outputPolicy } = registered;
  const partial = PartialAnswer.is(raw) ? raw : undefined;
  if (partial !== undefined && partial.kept === undefined) throw tooLarge(tool);
  const { text, value } = asJson(registered, partial === undefined ? raw : partial.kept);
  const outputHash = sha256Hex(text);
  const redacted = (parsed: unknown) => applyPolicyAndRedact(registered, parsed, detector);
  const fitted = fit(value, text, { bytesMax, cutText: partial?.cutText });
  if (fitted === undefined) throw tooLarge(tool);
  if (partial === undefined && !fitted.isCut) {
    const parsed = parseOutput(tool, value, outputPolicy);
    observer?.observe(registered, parsed, detector);
    const { result, filteredFields, redactions } = redacted(parsed);
    return { result, filteredFields, redactions, outputHash };
  }
  const part = parsePart(registered, fitted, fitted.value);
  observer?.observe(registered, part, detector);
  const { result, ...hidden } = redacted(part);
  const truncated = true;
  // Only lists were cut.
  if (fitted.beyond === fitted.value) return { ...hidden, result, truncated, outputHash };
  const beyond = redacted(parsePart(registered, fitted, fitted.beyond)).result;
  return { ...hidden, result: agreed(result, beyond, fitted.textBytesMax), truncated, outputHash };
}

function applyPolicyAndRedact({ outputPolicy, scan }: RegisteredTool, parsed: unknown, detector: Detector) {
  const permitted = applyPolicy(outputPolicy, parsed as Json);
  const { value, filteredFields, redactions } = redactFiltered(permitted, { level: scan, detector }, outputPolicy);
  return { result: value, filteredFields, redactions };
}

/** Parses a part of an answer. An answer that no longer fits its schema after the cut is refused as too large. */
function parsePart({ tool, outputPolicy }: RegisteredTool, { isCut }: Fitted, part: Json): unknown {
  const value = marked(tool, part);
  if (!isCut) return parseOutput(tool, value, outputPolicy);
  try {
    return parseOutput(tool, value, outputPolicy);
  } catch (error) {
    throw tooLarge(tool, error);
  }
}

/** Sets `truncated` in the answer itself, when the schema declares that field. */
function marked(tool: Tool, value: Json): Json {
  if (!isTable(value)) return value;
  const { def } = tool.output._zod;
  const declared = def.type === "object" ? (def as z.core.$ZodObjectDef).shape["truncated"] : undefined;
  const takesTrue = declared !== undefined && (declared as z.ZodType).safeParse(true).success;
  return takesTrue ? { ...value, truncated: true } : value;
}

function tooLarge(tool: Tool, cause?: unknown): Refusal {
  const { outputBytesMax } = tool.limits;
  return new Refusal("OUTPUT_TOO_LARGE", "The target's answer is over the tool's limit. Ask for less.", {
    details: { outputBytesMax },
    cause,
  });
}

function asJson(registered: RegisteredTool, raw: unknown): Canonical {
  const { tool } = registered;
  const bytesMax = Math.max(tool.limits.outputBytesMax, CUT_FROM_BYTES_MAX);
  try {
    return plainAnswer(registered, raw, { depthMax: DEPTH_MAX, nodesMax: NODES_MAX, bytesMax });
  } catch (error) {
    if (!(error instanceof NotJsonError)) throw error;
    if (error.reason === "size") throw tooLarge(tool, error);
    throw new Refusal("INVALID_OUTPUT", "The target's answer is not JSON and was withheld.", { cause: error });
  }
}

/** A text or list is never cut below this size or a quarter of the bound, whichever is smaller: many tiny pieces are useless. */
const SHARE_BYTES_MIN = 1_024;
/** An empty text or list. */
const EMPTY_BYTES = 2;

/** An answer within its tool's bound. */
export interface Fitted {
  /** The answer was over the bound, or was cut off before. */
  readonly isCut: boolean;
  readonly value: Json;
  /** The value with slightly longer texts, so that redaction sees a secret that the cut goes through. */
  readonly beyond: Json;
  /** Maximum UTF-8 bytes of each text outside lists, as JSON; infinity when the answer was within the bound. */
  readonly textBytesMax: number;
}

export interface OutputBounds {
  readonly bytesMax: number;
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
    isTextCut ||= textWithinJson(part, textBytesMax) !== part;
    return textWithinJson(part, textBytesMax + CUT_MARGIN_BYTES);
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
  return textWithinJson(one.slice(0, end), bytesMax);
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
    sizes.push(bytes);
    return part;
  });
  const share = itemSizeMax(sizes, bytesMax - otherBytes);
  const least = Math.max(EMPTY_BYTES, Math.min(SHARE_BYTES_MIN, bytesMax / 4));
  return otherBytes > bytesMax || share < least ? undefined : share;
}

/** Returns the size to which the larger items are cut so that the sum is within the budget. */
function itemSizeMax(sizes: readonly number[], budget: number): number {
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
  return mapParts(value, (part) => (typeof part === "string" ? textWithinJson(part, bytesMax) : part));
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

/** Kept apart from the refusals, so that code that writes a refusal down never writes a target's output. */
const released = new WeakMap<Refusal, Released>();

/** Filters the output of a run that was cut off like a complete answer, and keeps what may be released with the refusal. */
export function keepOutputSoFar(registered: RegisteredTool, refusal: Refusal, detector: Detector): void {
  const soFar = Refusal.outputSoFarOf(refusal);
  const output = soFar && releaseOutputSoFar(registered, soFar, detector);
  if (output !== undefined && isTable(output.result)) released.set(refusal, output);
}

export function outputReleasedWith(refusal: Refusal): Released | undefined {
  return released.get(refusal);
}

/** Returns the output so far as members of `error.details`. */
export function outputShown(refusal: Refusal): Readonly<Record<string, unknown>> | undefined {
  const result = released.get(refusal)?.result;
  return isTable(result) ? { ...result, untrusted: true } : undefined;
}
