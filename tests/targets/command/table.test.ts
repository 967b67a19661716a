import { expect, test } from "bun:test";
import fc from "fast-check";
import { parseTable } from "../../../src/targets/command/table.ts";

const PODS = `NAME                     READY   STATUS             RESTARTS      AGE   NODE
api-7d9c5b8f4-abcde      1/1     Running            0             4d    <none>
worker-0                 0/1     CrashLoopBackOff   5 (3d ago)    11d   node-2
`;

test("what `kubectl get pods -o wide` prints", () => {
  expect(parseTable(PODS)).toEqual([
    {
      NAME: "api-7d9c5b8f4-abcde",
      READY: "1/1",
      STATUS: "Running",
      RESTARTS: "0",
      AGE: "4d",
      NODE: "<none>",
    },
    {
      NAME: "worker-0",
      READY: "0/1",
      STATUS: "CrashLoopBackOff",
      RESTARTS: "5 (3d ago)",
      AGE: "11d",
      NODE: "node-2",
    },
  ]);
});

test.each([
  ["nothing", "", []],
  ["a header alone", "NAME   AGE\n", []],
  ["a name of two words", "LAST SEEN   TYPE\n5m          Normal\n", [{ "LAST SEEN": "5m", TYPE: "Normal" }]],
  [
    "an empty cell and a short row",
    "A    B    C\n1         3\n4\n",
    [
      { A: "1", B: "", C: "3" },
      { A: "4", B: "", C: "" },
    ],
  ],
  ["Windows line ends and empty lines", "A    B\r\n\r\n1    2\r\n", [{ A: "1", B: "2" }]],
  ["characters of two units", "A    B\n😀😀   x\n", [{ A: "😀😀", B: "x" }]],
  ["a last cell longer than its name", "A    B\n1    a long message\n", [{ A: "1", B: "a long message" }]],
])("%s", (_title, text, rows) => {
  expect(parseTable(text)).toEqual(rows);
});

test("a column named __proto__ is data", () => {
  const [row = {}] = parseTable("__proto__   B\nx           y\n");
  expect(Object.entries(row)).toEqual([
    ["__proto__", "x"],
    ["B", "y"],
  ]);
});

test.each([
  ["a cell that runs into the next column", "A    B\n123456 7\n"],
  ["two columns with one name", "A    A\n1    2\n"],
  ["more columns than a table has", `${Array.from({ length: 257 }, (_, at) => `c${at}`).join("  ")}\n`],
])("%s is an error", (_title, text) => {
  expect(() => parseTable(text)).toThrow(SyntaxError);
});

test("any table that is aligned by its longest cells is read as it was written", () => {
  const cell = fc.stringMatching(/^[a-z0-9<>/:.é😀-]{1,8}(?: [a-z0-9()-]{1,8}){0,2}$/u);
  const table = fc.uniqueArray(cell, { minLength: 1, maxLength: 6 }).chain((names) =>
    fc.tuple(
      fc.constant(names),
      fc.array(fc.array(fc.oneof(cell, fc.constant("")), { minLength: names.length, maxLength: names.length }), {
        maxLength: 5,
      }),
    ),
  );
  fc.assert(
    fc.property(table, fc.integer({ min: 2, max: 4 }), ([names, rows], gap) => {
      const written = rows.filter((row) => row.some((text) => text !== ""));
      const lines = [names, ...written];
      const width = (text: string): number => [...text].length;
      const widths = names.map((_, at) => Math.max(...lines.map((line) => width(line[at] ?? ""))) + gap);
      const padded = (text: string, at: number): string => text + " ".repeat((widths[at] ?? 0) - width(text));
      const text = lines.map((line) => line.map(padded).join("").trimEnd()).join("\n");
      expect(parseTable(text)).toEqual(
        written.map((row) => Object.fromEntries(names.map((name, at) => [name, row[at] ?? ""]))),
      );
    }),
  );
});

test("any text is a table or an error", () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom("a", "B", " ", "  ", "\n", "é", "😀", "\ud800", "\t") }), (text) => {
      try {
        const rows = parseTable(text);
        expect(rows.every((row) => Object.values(row).every((value) => text.includes(value)))).toBe(true);
      } catch (error) {
        expect(error).toBeInstanceOf(SyntaxError);
      }
    }),
  );
});
