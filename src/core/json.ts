import type { Json } from "./types.ts";

/** What a call's arguments may hold wherever they are copied or hashed: more than any door lets in. */
export const ARGUMENT_LIMITS: JsonLimits = Object.freeze({
  depthMax: 256,
  nodesMax: 1_000_000,
  bytesMax: 67_108_864,
});

/** `Array.isArray`, which does not narrow a readonly list. */
export function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

/** An object that is no list, of which nothing else is known yet. */
export function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export interface JsonLimits {
  /** Containers within containers. */
  readonly depthMax: number;
  /** UTF-8 bytes of the canonical text. */
  readonly bytesMax: number;
  /** Values of any kind. */
  readonly nodesMax: number;
}
