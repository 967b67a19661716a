import { z } from "zod";

/** Schemas that several sections of the configuration share. */

export const text = z.string().min(1);

export const name = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, "must be a name of letters, digits, dot, dash, underscore");

export const count = (fallback: number, max: number) => z.int().min(1).max(max).default(fallback);

/** Returns a function that reports a problem of the value being refined. A text is a path with dots. */
export function problemAdder(context: z.core.$RefinementCtx) {
  return (path: string | readonly PropertyKey[], message: string): void => {
    context.addIssue({ code: "custom", path: typeof path === "string" ? path.split(".") : [...path], message });
  };
}

/** Returns a refinement of a list whose entries need different names. */
export function uniqueNames(message: string) {
  return (entries: readonly { readonly name: string }[], context: z.core.$RefinementCtx): void => {
    const add = problemAdder(context);
    for (const index of repeated(entries.map(({ name }) => name))) add([index, "name"], message);
  };
}

/** Returns the indexes of the values that repeat an earlier one. */
export function repeated(values: readonly unknown[]): readonly number[] {
  return values.flatMap((value, index) => (values.indexOf(value) < index ? [index] : []));
}
