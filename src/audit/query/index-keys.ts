import type { Field, Filter } from "./filter.ts";
import type { EntryView } from "./view.ts";

/** Fields that are indexed. Two values may share a key: it only says where to look, and what is found there is compared in full. */
const KEYED = ["traceId", "approval", "sub", "code", "tool", "system"] as const satisfies readonly Field[];

/** The keys of one line. */
export function keysOf(entry: EntryView): readonly number[] {
  const { traceId, wireTraceId, approvalId, sub, code, tool, system } = entry;
  return [
    ...keyOf("traceId", traceId),
    ...keyOf("traceId", wireTraceId),
    ...keyOf("approval", approvalId),
    ...keyOf("sub", sub),
    ...keyOf("code", code),
    ...keyOf("tool", tool),
    ...keyOf("system", system),
  ];
}

/** Every line that the filter lets through has all of them. */
export function keysWanted({ exact }: Filter): readonly number[] {
  return KEYED.flatMap((field) => keyOf(field, exact[field]));
}

function keyOf(field: (typeof KEYED)[number], value: string | undefined): readonly number[] {
  return value === undefined ? [] : [Bun.hash.xxHash32(`${field} ${value}`)];
}
