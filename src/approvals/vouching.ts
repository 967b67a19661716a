import { isTable } from "../core/json.ts";

/** Longest value that an approver can vouch for (UTF-16 units), and most values of one decision. */
export const VOUCHED_CHARACTERS_MAX = 1_024;
export const VOUCHED_VALUES_MAX = 64;

/** A value that an approver can vouch for, and where the approver saw it. */
export interface VouchableValue {
  readonly argument: string;
  readonly value: string;
  /** The calls whose answers had the value, and the fields. */
  readonly sources: readonly { readonly tool: string; readonly traceId: string; readonly field: string }[];
}

/** Reads the values that a request offers to vouch for from its view: approvers vouch for what they were shown. */
export function vouchableIn({ view }: { readonly view?: unknown }): readonly VouchableValue[] {
  const { vouchable, dataFlow } = isTable(view) ? view : {};
  const named = tablesIn(isTable(dataFlow) ? dataFlow["arguments"] : undefined);
  return tablesIn(vouchable).map(({ argument, value }) => {
    const found = named.filter((one) => one["argument"] === argument).flatMap(({ sources }) => tablesIn(sources));
    const sources = found.map(({ tool, traceId, field }) => ({
      tool: String(tool),
      traceId: String(traceId),
      field: String(field),
    }));
    return { argument: String(argument), value: String(value), sources };
  });
}

function tablesIn(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.filter(isTable) : [];
}
