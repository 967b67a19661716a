import { Refusal } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { ERROR } from "../../core/mcp.ts";
import { BOUNDED_TEXT_LIMITS, parseAnswerJson } from "../../core/strict-json.ts";
import { isTimeout } from "../../core/time-limits.ts";
import type { McpTarget, Tool } from "../../core/types.ts";
import { UpstreamError } from "./channel.ts";
import type { Definition } from "./definitions.ts";

/** Turns what a server answers to a call into the tool's result, or into a refusal. */

/** Contents of one result that are read. */
const CONTENTS_MAX = 1_000;

const MESSAGES = {
  unavailable: "The server is unavailable now.",
  failed: "The server failed on this call.",
  refused: "The server refused these arguments; details.status says why.",
  unknown: "The server gave no definite answer: the change may or may not have happened. Check before trying again.",
  late: "The server did not answer in time.",
  tooLarge: "The server's answer is too large. Ask for less.",
  asks: "The server asks for something that a tool call cannot give.",
} as const;

export interface Called {
  readonly tool: Tool;
  readonly target: McpTarget;
  readonly definition: Definition;
}

/**
 * Returns the tool's result.
 *
 * @throws {Refusal} for a result that is an error, that asks for something, or that has another shape
 */
export function readResult(result: unknown, { tool, target, definition }: Called): unknown {
  if (!isTable(result)) throw malformed(target, "the result is not an object");
  const { resultType, content, structuredContent, task, inputRequests } = result;
  // Some servers write null for what is absent.
  const isError = result["isError"] ?? false;
  const asks = (resultType ?? "complete") !== "complete" || (task ?? inputRequests ?? null) !== null;
  if (asks) throw asking(tool, target);
  const contents = Array.isArray(content) ? content : undefined;
  if (isError === true) throw failed({ tool, target }, contentText(contents ?? []));
  if (isError !== false) throw malformed(target, "isError is not a boolean");
  const part = target.mcp.result ?? ((definition.pinned["outputSchema"] ?? null) === null ? "text" : "structured");
  if (part === "structured") {
    if (structuredContent === undefined) throw malformed(target, "there is no structuredContent");
    return structuredContent;
  }
  if (contents === undefined) throw malformed(target, "content is not a list");
  if (contents.length > CONTENTS_MAX) throw malformed(target, `content has more than ${CONTENTS_MAX} entries`);
  return part === "text" ? { text: contentText(contents) } : jsonOf(contents, target);
}

/** Returns all text of a result. Anything else is described by its kind, type and size, and its data is dropped. */
function contentText(contents: readonly unknown[]): string {
  return contents.slice(0, CONTENTS_MAX).map(describe).join("\n");
}

function describe(content: unknown): string {
  if (!isTable(content)) return "[not readable]";
  const { type, text, data, mimeType, resource } = content;
  if (type === "text" && typeof text === "string") return text;
  if (type === "resource" && isTable(resource)) {
    const { text: inner, blob, mimeType: innerType } = resource;
    return typeof inner === "string" ? inner : omitted("resource", innerType, blob);
  }
  if (type === "image" || type === "audio") return omitted(type, mimeType, data);
  return omitted(type === "resource_link" ? "link to a resource" : "content of an unknown kind", mimeType, undefined);
}

function omitted(kind: string, mimeType: unknown, base64: unknown): string {
  const type = typeof mimeType === "string" && /^[a-z0-9.+-]{1,64}\/[a-z0-9.+-]{1,64}$/i.test(mimeType) ? mimeType : "";
  const size = typeof base64 === "string" ? `${Math.floor((base64.length * 3) / 4)} bytes` : "";
  return `[omitted: ${[kind, type, size].filter((part) => part !== "").join(", ")}]`;
}

function jsonOf(contents: readonly unknown[], target: McpTarget): unknown {
  const [only, another] = contents;
  if (!isTable(only) || only["type"] !== "text" || typeof only["text"] !== "string" || another !== undefined) {
    throw malformed(target, "content is not one text");
  }
  try {
    return parseAnswerJson(only["text"].toWellFormed(), BOUNDED_TEXT_LIMITS);
  } catch {
    throw malformed(target, "the text is not JSON");
  }
}

/** Returns the refusal for a request without a usable result. Other errors are returned as they are. */
export function refusalOf(error: unknown, call: Pick<Called, "tool" | "target">, signal: AbortSignal): unknown {
  if (!(error instanceof UpstreamError)) return error;
  const { tool, target } = call;
  const { failure, code, message: reason, text } = error;
  const cause = { system: target.system, tool: target.mcp.tool, reason };
  if (error.refusal !== undefined) return error.refusal;
  if (failure === "error" || error.isRefused)
    return code === ERROR.urlElicitationRequired ? asking(tool, target) : failed(call, text, code);
  if (signal.aborted && !isTimeout(signal)) {
    return new Refusal("CANCELLED", "The client disconnected before the answer.", { cause });
  }
  if (signal.aborted && isSafe(tool)) return new Refusal("DEADLINE_EXCEEDED", MESSAGES.late, { cause });
  const hasNotRun = failure === "notSent" || failure === "expired";
  if (!hasNotRun && !isSafe(tool)) return new Refusal("OUTCOME_UNKNOWN", MESSAGES.unknown, { cause });
  if (failure === "tooLarge") return new Refusal("OUTPUT_TOO_LARGE", MESSAGES.tooLarge, { cause });
  if (failure === "invalid") return new Refusal("TARGET_FAILED", MESSAGES.failed, { cause });
  return new Refusal("TARGET_UNAVAILABLE", MESSAGES.unavailable, { cause, retryAfterMs: error.retryAfterMs });
}

/** Returns whether a call may be sent twice. */
export function isSafe({ classification, idempotent }: Pick<Tool, "classification" | "idempotent">): boolean {
  return classification === "read" || idempotent;
}

/** Returns the refusal for a definite failure. `code`: the error of the protocol; undefined for `isError`. */
function failed({ tool, target }: Pick<Called, "tool" | "target">, text: string, code?: number): Refusal {
  const options = {
    targetText: tool.errors === "filtered" ? text : undefined,
    cause: { system: target.system, tool: target.mcp.tool, code, textLength: text.length },
  };
  if (code !== ERROR.invalidParams) return new Refusal("TARGET_FAILED", MESSAGES.failed, options);
  const details = { status: "INVALID_ARGUMENT" };
  return new Refusal("TARGET_REFUSED", MESSAGES.refused, { ...options, details });
}

/** Returns the refusal for a server that wants more input, or that answers later: a change may have begun. */
function asking({ classification }: Tool, { system, mcp }: McpTarget): Refusal {
  const cause = { system, tool: mcp.tool, reason: "the server asks for input or names a task" };
  if (classification === "read") return new Refusal("TARGET_FAILED", MESSAGES.asks, { cause });
  return new Refusal("OUTCOME_UNKNOWN", MESSAGES.unknown, { cause });
}

function malformed({ system, mcp }: McpTarget, reason: string): Refusal {
  return new Refusal("INVALID_OUTPUT", "The server's answer does not match its definition.", {
    cause: { system, tool: mcp.tool, reason },
  });
}
