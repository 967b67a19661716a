import { AmbiguousValue } from "../../core/ambiguous-value.ts";
import { Refusal } from "../../core/errors.ts";
import { CUT_MARGIN_BYTES, type CutText } from "../../core/partial-answer.ts";
import { BOUNDED_TEXT_LIMITS, parseAnswerJson, StrictJsonError } from "../../core/strict-json.ts";
import { plainText } from "../../core/terminal-text.ts";
import type { Json, StdoutParser } from "../../core/types.ts";
import type { ChildResult } from "./endings.ts";

/** Decodes a program's output. Bytes that are not UTF-8 become U+FFFD; a byte order mark stays. */
export function decode(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

/** Returns how much of a truncated text may be released. Its last bytes are only for redaction. */
export function cutTextOf({ stdout }: Pick<ChildResult, "stdout">, field: string): CutText {
  const beginning = plainText(decode(stdout.subarray(0, -CUT_MARGIN_BYTES)));
  return { field, bytesMax: Buffer.byteLength(beginning) };
}

export interface StdoutReading {
  readonly parse: StdoutParser;
  /** Field for stdout with `parse: "text"`. */
  readonly textField: string | undefined;
  readonly input: unknown;
  readonly exitCode: number;
  /** Receives what `parse` threw, for the tool's author. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/**
 * Converts the program's output to the handler's answer.
 *
 * @throws {Refusal} INVALID_OUTPUT when it cannot be parsed
 */
export function parseStdout(
  stdout: Uint8Array,
  { parse, textField, input, exitCode, onError }: StdoutReading,
): unknown {
  const text = plainText(decode(stdout));
  if (parse === "text") return { [textField ?? "text"]: text };
  try {
    return parse === "json" ? parseJson(text) : parse(text, input, exitCode);
  } catch (cause) {
    if (cause instanceof Refusal) throw cause;
    onError?.(cause);
    // The message may quote the output, which must not be passed on.
    const name = cause instanceof Error ? cause.name : typeof cause;
    const what = parse === "json" ? "not JSON that can be read" : "the manifest's parse threw";
    throw new Refusal("INVALID_OUTPUT", "The command's output could not be read.", {
      cause: new Error(`stdout: ${what} (${name}; ${stdout.length} bytes, exit code ${exitCode})`),
    });
  }
}

/**
 * Parses JSON from a program, and cleans its strings like other text. A number that JavaScript would round is an object that
 * prints its digits: the answer releases it as text where its field is text, and drops it where its field is not released.
 *
 * @throws {SyntaxError} when it is not valid JSON
 * @throws {RangeError} when it is nested too deeply
 */
export function parseJson(text: string): Json {
  const withoutByteOrderMark = text.startsWith("\ufeff") ? text.slice(1) : text;
  return plainJson(parsed(withoutByteOrderMark) as Json, BOUNDED_TEXT_LIMITS.depthMax);
}

function parsed(text: string): unknown {
  try {
    return parseAnswerJson(text.toWellFormed(), BOUNDED_TEXT_LIMITS);
  } catch (error) {
    if (!(error instanceof StrictJsonError)) throw error;
    if (error.reason.startsWith("deeper")) throw tooDeep();
    throw new SyntaxError(error.reason);
  }
}

function tooDeep(): RangeError {
  return new RangeError(`the JSON is more than ${BOUNDED_TEXT_LIMITS.depthMax} levels deep`);
}

/** Cleans all strings: escapes in JSON can also produce control sequences. */
function plainJson(value: Json, depthLeft: number): Json {
  if (typeof value === "string") return plainText(value);
  if (typeof value !== "object" || value === null) return value;
  if (AmbiguousValue.is(value)) return plainReading(value, depthLeft);
  if (depthLeft === 0) throw tooDeep();
  if (Array.isArray(value)) return value.map((item: Json) => plainJson(item, depthLeft - 1));
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [plainText(key), plainJson(item, depthLeft - 1)]),
  );
}

function plainReading(value: AmbiguousValue, depthLeft: number): Json {
  const { digits, reading } = AmbiguousValue.factsOf(value);
  const plain = AmbiguousValue.with(value, { digits, reading: plainJson(reading, depthLeft) });
  return plain as unknown as Json;
}
