import type { z } from "zod";
import { errorText } from "../error-text.ts";
import type { Fault } from "../errors.ts";
import { linearTest } from "../pattern/match.ts";
import { joinPath } from "../policy/field-path.ts";
import { defOf, lazySchema, type Schema } from "./walk.ts";

const VISITS_MAX = 50_000;

/** A schema, or a check: both have their pattern in their definition. */
interface Declared {
  readonly _zod: { readonly def: Record<string, unknown>; pattern?: RegExp };
}

/** One pattern may be in many schemas; what was made of it remembers much. */
const made = new WeakMap<RegExp, RegExp>();

/**
 * Gives every pattern that a schema declares a `test` whose time grows no faster than the text, whoever wrote the text: this
 * runtime's own takes exponential time for `^(a+)+$`. The pattern means what it meant.
 *
 * @returns the patterns for which there is no such test
 */
export function boundPatterns(top: string, schema: Schema): readonly Fault[] {
  const faults: Fault[] = [];
  const seen = new Set<unknown>();
  const todo: { readonly node: Declared; readonly path: string }[] = [
    { node: schema as unknown as Declared, path: top },
  ];
  for (let visit = todo.pop(); visit !== undefined; visit = todo.pop()) {
    const { node, path } = visit;
    if (seen.has(node)) continue;
    if (seen.size >= VISITS_MAX) return [{ field: top, message: `the schema has more than ${VISITS_MAX} parts` }];
    seen.add(node);
    const fault = boundOwn(node);
    if (fault !== undefined) faults.push({ field: path, message: fault });
    todo.push(...innerOf(node, path));
  }
  return faults;
}

/** What is wrong with the patterns of this one schema or check. */
function boundOwn({ _zod }: Declared): string | undefined {
  const { def } = _zod;
  try {
    for (const [key, value] of Object.entries(def)) {
      if (!(value instanceof RegExp)) continue;
      const pattern = bounded(value);
      def[key] = pattern;
      // A format that was made of a pattern asks a function that asks the pattern.
      if (def["check"] === "string_format" && key === "pattern" && "fn" in def) {
        def["fn"] = (text: string) => pattern.test(text);
      }
    }
    if (def["type"] === "template_literal" && _zod.pattern !== undefined) _zod.pattern = bounded(_zod.pattern);
    return undefined;
  } catch (error) {
    return errorText(error);
  }
}

/** @throws {Error} naming the pattern and what is wrong with it */
function bounded(pattern: RegExp): RegExp {
  const known = made.get(pattern);
  if (known !== undefined) return known;
  let test: (text: string) => boolean;
  try {
    test = linearTest(pattern);
  } catch (error) {
    throw new Error(`the pattern ${pattern} ${errorText(error)}`);
  }
  const copy = new RegExp(pattern.source, pattern.flags);
  Object.defineProperty(copy, "test", { value: test });
  made.set(pattern, copy);
  made.set(copy, copy);
  return copy;
}

/** Everything in a definition that has a definition, with the path of keys that leads to it. */
function innerOf(node: Declared, path: string): readonly { readonly node: Declared; readonly path: string }[] {
  const { def } = node._zod;
  if (def["type"] === "lazy") return [{ node: lazySchema(node as unknown as Schema) as unknown as Declared, path }];
  if (def["type"] === "object") settleShape(node as unknown as Schema);
  return Object.entries(def).flatMap(([key, value]) => {
    if (isDeclared(value)) return [{ node: value, path: key === "element" ? joinPath(path, "[]") : path }];
    if (typeof value !== "object" || value === null || value instanceof RegExp) return [];
    const inner = Object.entries(value).filter((entry): entry is [string, Declared] => isDeclared(entry[1]));
    return inner.map(([name, part]) => ({ node: part, path: key === "shape" ? joinPath(path, name) : path }));
  });
}

function isDeclared(value: unknown): value is Declared {
  return typeof value === "object" && value !== null && "_zod" in value;
}

/** A getter in a shape builds a new schema, with a new pattern, whenever it is read: from now on it is the one that was read. */
function settleShape(schema: Schema): void {
  const { shape } = defOf(schema) as z.core.$ZodObjectDef;
  for (const [key, { get }] of Object.entries(Object.getOwnPropertyDescriptors(shape))) {
    if (get !== undefined) Object.defineProperty(shape, key, { value: shape[key], enumerable: true });
  }
}
