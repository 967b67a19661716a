import type { z } from "zod";
import { errorText } from "../error-text.ts";
import type { Fault } from "../errors.ts";
import { joinPath } from "../output-policy/field-path.ts";
import { linearTest } from "../pattern/match.ts";
import { defOf, lazySchema, type Schema } from "./walk.ts";

const VISITS_MAX = 50_000;

/** A schema or a check: both keep their pattern in their definition. */
interface Declared {
  readonly _zod: { readonly def: Record<string, unknown>; pattern?: RegExp };
}

/** Replacements by pattern: a pattern may occur in many schemas, and its matcher has a large cache. */
const replacements = new WeakMap<RegExp, RegExp>();

/**
 * Replaces the `test` method of every pattern in a schema with one whose time is linear in the length of the text. The
 * runtime's own takes exponential time for `^(a+)+$`. The meaning of the pattern does not change.
 *
 * @returns an error for each pattern that cannot have such a `test`
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
    const fault = replaceOwn(node);
    if (fault !== undefined) faults.push({ field: path, message: fault });
    todo.push(...innerOf(node, path));
  }
  return faults;
}

/** Replaces the patterns of this schema or check only. Returns an error text when that is not possible. */
function replaceOwn({ _zod }: Declared): string | undefined {
  const { def } = _zod;
  try {
    for (const [key, value] of Object.entries(def)) {
      if (!(value instanceof RegExp)) continue;
      const pattern = linearCopy(value);
      def[key] = pattern;
      // The `fn` of a custom format calls the original pattern.
      if (def["check"] === "string_format" && key === "pattern" && "fn" in def) {
        def["fn"] = (text: string) => pattern.test(text);
      }
    }
    if (def["type"] === "template_literal" && _zod.pattern !== undefined) _zod.pattern = linearCopy(_zod.pattern);
    return undefined;
  } catch (error) {
    return errorText(error);
  }
}

/**
 * Returns a copy of the pattern with a linear `test`.
 *
 * @throws {Error} naming the pattern and the problem
 */
function linearCopy(pattern: RegExp): RegExp {
  const known = replacements.get(pattern);
  if (known !== undefined) return known;
  let test: (text: string) => boolean;
  try {
    test = linearTest(pattern);
  } catch (error) {
    throw new Error(`the pattern ${pattern} ${errorText(error)}`);
  }
  const copy = new RegExp(pattern.source, pattern.flags);
  Object.defineProperty(copy, "test", { value: test });
  replacements.set(pattern, copy);
  replacements.set(copy, copy);
  return copy;
}

/** Returns the schemas and checks inside a definition, each with its path. */
function innerOf(node: Declared, path: string): readonly { readonly node: Declared; readonly path: string }[] {
  const { def } = node._zod;
  if (def["type"] === "lazy") return [{ node: lazySchema(node as unknown as Schema) as unknown as Declared, path }];
  if (def["type"] === "object") resolveGetters(node as unknown as Schema);
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

/** Replaces getters in a shape with their results: a getter returns a new schema, with a new pattern, at every read. */
function resolveGetters(schema: Schema): void {
  const { shape } = defOf(schema) as z.core.$ZodObjectDef;
  for (const [key, { get }] of Object.entries(Object.getOwnPropertyDescriptors(shape))) {
    if (get !== undefined) Object.defineProperty(shape, key, { value: shape[key], enumerable: true });
  }
}
