import { Refusal } from "../../core/errors.ts";
import { type Told, unlessUnknown } from "./ending-told.ts";

/** The program and what it started used more memory than is allowed, and were killed. */
export interface MemoryBound {
  readonly kind: "memoryBound";
  readonly memoryBytesMax: number;
}

export function memoryBound(memoryBytesMax: number): MemoryBound {
  return { kind: "memoryBound", memoryBytesMax };
}

export function memoryBoundRefusal({ memoryBytesMax }: MemoryBound, told: Told): Refusal {
  const { cause } = told;
  const details = { limit: "memory", memoryBytesMax };
  const message = "The command used more memory than is allowed, and was ended. Let it process less at once.";
  return unlessUnknown(told, () => new Refusal("TARGET_FAILED", message, { details, cause }), details);
}
