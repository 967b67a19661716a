import { expect, test } from "bun:test";
import { z } from "zod";
import { schemaMapOf } from "../../../src/core/schema/walk.ts";

const recursive: z.ZodType = z.strictObject({
  name: z.string(),
  get children() {
    return z.array(recursive);
  },
});
const endless = (): z.ZodType => z.object({ next: z.lazy(endless) });

test.each([
  ["strict object", z.strictObject({ a: z.string() }), ["a"], false, false],
  ["object", z.object({ a: z.string() }), ["a"], false, false],
  ["loose object", z.looseObject({ a: z.string() }), ["a"], true, false],
  ["record", z.record(z.string(), z.string()), [], true, false],
  ["record with a closed list of keys", z.record(z.enum(["x", "y"]), z.string()), ["x", "y"], false, false],
  ["array", z.array(z.string()), [], false, true],
  ["tuple", z.tuple([z.string(), z.number()]), [], false, true],
  ["union", z.union([z.object({ a: z.string() }), z.array(z.object({ b: z.string() }))]), ["a"], false, true],
  ["intersection", z.intersection(z.object({ a: z.string() }), z.object({ b: z.string() })), ["a", "b"], false, false],
  ["wrappers", z.object({ a: z.string() }).optional().nullable().readonly().default({ a: "" }), ["a"], false, false],
  ["lazy", z.lazy(() => z.object({ a: z.string() })), ["a"], false, false],
  ["pipe", z.string().pipe(z.preprocess((x) => x, z.object({ a: z.string() }))), ["a"], false, false],
  ["transform", z.string().transform((a) => ({ a })), [], true, true],
  ["unknown", z.unknown(), [], true, true],
  ["scalar", z.string(), [], false, false],
] as const)("%s", (_, schema, keys, other, elements) => {
  const map = schemaMapOf(schema);
  expect([...map.root.keys].sort()).toEqual([...keys]);
  expect(map.otherKey(map.root) !== undefined).toBe(other);
  expect(map.element(map.root) !== undefined).toBe(elements);
});

test("a recursive schema has as many paths as it has containers", () => {
  const map = schemaMapOf(recursive);
  const children = map.key(map.root, "children");
  const child = children === undefined ? undefined : map.element(children);
  expect(child).toBe(map.root);
});

test("a lazy schema is built once", () => {
  const fresh: z.ZodType = z.lazy(() => z.object({ next: fresh }));
  const map = schemaMapOf(fresh);
  expect(map.key(map.root, "next")).toBe(map.root);
});

test("a key of z.never() leads nowhere", () => {
  const map = schemaMapOf(z.object({ gone: z.never(), here: z.string() }));
  expect(map.key(map.root, "gone")).toBeUndefined();
  expect(map.key(map.root, "here")).toBe(map.nothing);
});

test("keys named like properties of Object.prototype are not keys of a schema", () => {
  const map = schemaMapOf(z.object({ a: z.string() }));
  expect(map.key(map.root, "constructor")).toBeUndefined();
});

test("traversal of an infinite schema stops at a limit", () => {
  const map = schemaMapOf(endless());
  const descend = () => {
    let place = map.root;
    for (;;) place = map.key(place, "next") ?? map.nothing;
  };
  expect(descend).toThrow(RangeError);
});
