import { expect, test } from "bun:test";
import { importsOf, sources } from "./sources.ts";

test("no file imports itself through others, type imports and dynamic imports included", () => {
  const imports = new Map(sources("src").map((source) => [source.path, importsOf(source)]));
  expect(cyclesIn(imports)).toEqual([]);
});

test("a cycle is found", () => {
  const imports = new Map([
    ["a", ["b"]],
    ["b", ["c", "elsewhere"]],
    ["c", ["b"]],
  ]);
  expect(cyclesIn(imports)).toEqual([["b", "c"]]);
});

/** Groups of files that reach each other (Tarjan's strongly connected components with more than one member). */
function cyclesIn(imports: ReadonlyMap<string, readonly string[]>): readonly (readonly string[])[] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const cycles: string[][] = [];
  const visit = (file: string): number => {
    const index = order.size;
    order.set(file, index);
    let low = index;
    stack.push(file);
    for (const other of imports.get(file) ?? []) {
      if (!imports.has(other)) continue;
      if (!order.has(other)) low = Math.min(low, visit(other));
      else if (stack.includes(other)) low = Math.min(low, order.get(other) ?? low);
    }
    lowest.set(file, low);
    if (low === index) {
      const group = stack.splice(stack.indexOf(file));
      if (group.length > 1) cycles.push(group.sort());
    }
    return low;
  };
  for (const file of imports.keys()) if (!order.has(file)) visit(file);
  return cycles;
}
