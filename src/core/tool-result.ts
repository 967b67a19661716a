import type { CallResult } from "./call-result.ts";
import { isTable } from "./json.ts";
import type { Json } from "./types.ts";

/** What went wrong, for a message of role `tool`. */
export interface ToolError {
  /** The tool's own code where it has one (`ENOENT`, `E_SANDBOX_VIOLATION`, …), else that of the refusal. */
  readonly code: string;
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** A result as one flat object: `JSON.stringify` of it is a message of role `tool`. */
export type ToolResult =
  | ({ readonly ok: true; readonly untrusted: true } & Readonly<Record<string, Json>>)
  | ToolFailure;

export interface ToolFailure {
  readonly ok: false;
  readonly error: ToolError;
}

/**
 * The result of a call in the shape that file tools' agents know: `{ ok: true, untrusted: true, ...data }` or
 * `{ ok: false, error }`: the mark says that the data is nobody's instruction. Data that is no object stands under `data`, and so
 * does one that has an `ok` or `untrusted` of its own. `truncated: true` is added to a result of which only a part was released.
 */
export function toToolResult(result: CallResult): ToolResult {
  if (result.status === "success") return succeeded(result.result, result.truncated);
  if (result.status === "pending") {
    const { message, ...approval } = result.approval;
    return { ok: false, error: { code: "APPROVAL_REQUIRED", message, details: { approval } } };
  }
  const { code, message, details } = result.error;
  const own = details?.["code"];
  const error = { code: typeof own === "string" ? own : code, message };
  return { ok: false, error: details === undefined ? error : { ...error, details } };
}

function succeeded(data: Json, truncated: true | undefined): ToolResult {
  const marks = { ok: true, untrusted: true, ...(truncated && { truncated }) } as const;
  const isFlat = isTable(data) && !Object.hasOwn(data, "ok") && !Object.hasOwn(data, "untrusted");
  const saysOtherwise = isFlat && truncated && Object.hasOwn(data, "truncated") && data["truncated"] !== true;
  return isFlat && !saysOtherwise ? { ...marks, ...data } : { ...marks, data };
}
