import { z } from "zod";

/** Parts of what programs written in Go print as JSON: what is empty may be null, or not there. */
export const text = z
  .string()
  .nullish()
  .transform((value) => value ?? "");

export const count = z
  .int()
  .nullish()
  .transform((value) => value ?? 0);

export const flag = z
  .boolean()
  .nullish()
  .transform((value) => value ?? false);

export function listOf<Item extends z.ZodType>(item: Item) {
  return z
    .array(item)
    .nullish()
    .transform((items) => items ?? []);
}

/** A part with these fields, which are all empty when it is not there. */
export function part<Shape extends z.ZodRawShape>(shape: Shape) {
  const schema = z.object(shape);
  return z
    .looseObject({})
    .nullish()
    .transform((value) => value ?? {})
    .pipe(schema);
}
