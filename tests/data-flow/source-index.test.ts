import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { indexOf, type KnownSources, type ReadSource, together } from "../../src/data-flow/source-index.ts";

interface Print {
  readonly low: number;
  readonly high: number;
  readonly field: number;
}

function sourceOf(id: string, prints: readonly Print[]): ReadSource {
  const columns = {
    low: Int32Array.from(prints, ({ low }) => low),
    high: Int32Array.from(prints, ({ high }) => high),
    field: Uint8Array.from(prints, ({ field }) => field),
  };
  return { id, tool: "read", traceId: "t", of: "", labels: [], at: 1, until: 2, fields: [], columns };
}

/** Returns the sources and fields that have a fingerprint, by looking at all of them. */
function lookedUp(sources: readonly ReadSource[], low: number, high: number): readonly string[] {
  return sources.flatMap(({ id, columns }) =>
    [...columns.low.keys()]
      .filter((at) => columns.low[at] === low && columns.high[at] === high)
      .map((at) => `${id} ${columns.field[at]}`),
  );
}

function found(index: KnownSources, low: number, high: number): readonly string[] {
  const all: { readonly name: string; readonly order: number }[] = [];
  index.find(low, high, ({ id }, field, order) => all.push({ name: `${id} ${field}`, order }));
  return all.sort((one, other) => one.order - other.order).map(({ name }) => name);
}

/** Few halves, of which many end in the same bits. */
const half = fc.constantFrom(0, 1, -1, 64, 65, 128, 2 ** 31 - 1, -(2 ** 31), 4_096, 1 << 20);
const print = fc.record({ low: half, high: half, field: fc.nat(255) });
const prints = fc.array(print, { maxLength: 60 });
const lists = fc.array(prints, { minLength: 1, maxLength: 20 });

describe("the fingerprints of many answers", () => {
  test("lead to all answers and fields that have them, in order, also after some were removed and others added", () => {
    fc.assert(
      fc.property(lists, fc.array(fc.boolean(), { minLength: 20, maxLength: 20 }), prints, (all, isRemoved, more) => {
        const sources = all.map((one, at) => sourceOf(String(at), one));
        const index = indexOf(sources);
        const { columns, ...added } = sourceOf("added", more);
        index.keep(({ id }) => isRemoved[Number(id)] !== true);
        index.add(added, columns);
        const known = [...sources.filter((_, at) => isRemoved[at] !== true), { ...added, columns }];
        expect([...index.values()].map(({ id }) => id)).toEqual(known.map(({ id }) => id));
        for (const { low, high } of [...all.flat(), ...more])
          expect(found(index, low, high)).toEqual(lookedUp(known, low, high));
      }),
      { seed: 21, numRuns: 300 },
    );
  });

  test("of several callers lead to each answer once", () => {
    const [one, both, other] = [1, 2, 3].map((low) => sourceOf(String(low), [{ low, high: 7, field: low }]));
    if (one === undefined || both === undefined || other === undefined) return expect.unreachable();
    // Each caller has objects of its own.
    const index = together([indexOf([one, both]), indexOf([structuredClone(both), other])]);
    expect([...index.values()].map(({ id }) => id)).toEqual(["1", "2", "3"]);
    expect([1, 2, 3, 4].map((low) => found(index, low, 7))).toEqual([["1 1"], ["2 2"], ["3 3"], []]);
  });

  test("take no more memory after many came and went", () => {
    const index = indexOf([]);
    const { columns, ...source } = sourceOf(
      "",
      Array.from({ length: 50 }, (_, low) => ({ low, high: 1, field: 0 })),
    );
    const before = (() => {
      index.add({ ...source, id: "first" }, columns);
      return index.bytes;
    })();
    for (let round = 0; round < 1_000; round += 1) {
      index.add({ ...source, id: String(round) }, columns);
      index.keep(({ id }) => id === "first" || id === String(round));
    }
    expect(index.bytes).toBeLessThan(before * 10);
    expect(found(index, 3, 1)).toEqual(["first 0", "999 0"]);
  });
});
