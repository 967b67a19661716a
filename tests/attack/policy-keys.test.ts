import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import { compilePolicy } from "../../src/core/output-policy/output-policy.ts";
import { compileScan } from "../../src/core/output-policy/scan-policy.ts";
import type { Json, OutputFieldPolicy } from "../../src/core/types.ts";
import { DETECTOR } from "../../src/detection/sensitive.ts";
import { release } from "../../src/pipeline/output-filter.ts";

interface Let {
  readonly output: z.ZodType;
  readonly policy: OutputFieldPolicy;
}

/** What an agent gets of a target's answer. */
function released({ output, policy }: Let, raw: unknown) {
  const tool = { name: "case_tool", input: z.strictObject({}), output, limits: { outputBytesMax: 1_048_576 } };
  const parts = { outputPolicy: compilePolicy(policy, output), scan: compileScan({}) };
  return release({ tool, ...parts, raw } as never, DETECTOR);
}

const labels: Let = {
  output: z.object({ labels: z.record(z.string(), z.unknown()) }),
  policy: { labels: "allow", "labels.note": "redact" },
};

const POSING: readonly (readonly [string, string])[] = [
  ["a zero-width space", "no\u200bte"],
  ["a byte order mark, as CSV files begin", "\ufeffnote"],
  ["a control character", "note\u0001"],
  ["a writing direction", "\u202enote"],
  ["tags", "note\u{e0041}"],
  ["a soft hyphen", "no\u00adte"],
  ["a terminal's colour", "no\u001b[31mte"],
  ["half a colour with something unseen in it", "no\u001b\u200b[31mte"],
  ["an 8-bit sequence", "\u009b1mnote"],
];

describe("a key that reads like a name with a policy does not leave", () => {
  test.each(POSING)("%s", (_title, key) => {
    const { result, filteredFields } = released(labels, { labels: { [key]: "withheld", other: "fine" } });
    expect(result).toEqual({ labels: { other: "fine" } });
    expect(filteredFields).toEqual(["labels.*"]);
  });

  test.each(POSING)("__proto__ by %s", (_title, key) => {
    const own = key
      .replace("note", "__proto__")
      .replace("no", "__pro")
      .replace(/te(?=$|\u0001)/, "to__");
    const { result } = released(labels, { labels: { [own]: { polluted: true }, other: "fine" } });
    expect(JSON.stringify(result)).not.toContain("polluted");
    expect(result).toEqual({ labels: { other: "fine" } });
  });

  test("a name that only the schema contains counts too", () => {
    const output = z.looseObject({ total: z.number(), by: z.record(z.string(), z.number()) });
    const answer = { total: 1, "to\u200btal": { of: "undescribed" }, by: {} };
    expect(released({ output, policy: { "*": "allow" } }, answer).result).toEqual({ total: 1, by: {} });
  });
});

describe("benign look-alikes leave", () => {
  test.each([
    ["an unseen character in a key that nobody names: it is taken out", "\ufeffid", "id"],
    ["a colour in a key that nobody names", "\u001b[31mred\u001b[0m", "red"],
    ["emoji with joiners", "👩‍👩‍👧", "👩‍👩‍👧"],
    ["Persian with a joiner", "می‌خواهم", "می‌خواهم"],
    ["another name that begins alike", "notes", "notes"],
    ["upper case", "NOTE", "NOTE"],
    ["accents", "nötę", "nötę"],
    ["a longer name with something unseen", "note\u200bbook", "notebook"],
  ])("%s", (_title, key, shown) => {
    expect(released(labels, { labels: { [key]: 1 } })).toMatchObject({
      result: { labels: { [shown]: 1 } },
      filteredFields: [],
    });
  });
});

test("a cleaned key does not take another key's name", () => {
  const values = { "\u0001total": "posing", total: "real", "total#2": "second" };
  expect(released(labels, { labels: values }).result).toEqual({
    labels: { total: "real", "total#2": "second", "total#3": "posing" },
  });
});

test("for any keys: what leaves under a name is what the policy allows under it", () => {
  const output = z.record(z.string(), z.unknown());
  const unseen = fc.constantFrom(
    "\u200b",
    "\ufeff",
    "\u0001",
    "\u001b[31m",
    "\u001b",
    "\u202e",
    "\u{e0041}",
    "\u009b1m",
  );
  const name = fc.constantFrom("secret", "plain", "__proto__", "constructor", "toString", "then");
  const key = fc
    .tuple(name, unseen, fc.nat(9), fc.boolean())
    .map(([text, added, at, isAdded]) => (isAdded ? text.slice(0, at) + added + text.slice(at) : text));
  const answer = fc.array(fc.tuple(key, fc.constantFrom("value", 1, null)), { maxLength: 6 });
  const policy = { "*": "allow", secret: "redact" } as const;
  fc.assert(
    fc.property(answer, (entries) => {
      const { result } = released({ output, policy }, Object.fromEntries(entries));
      const names = Object.keys(result as Readonly<Record<string, Json>>).map((shown) => shown.replace(/#\d+$/, ""));
      expect(names).not.toContain("secret");
      expect(names).not.toContain("__proto__");
      const plain = entries.some(([text]) => text === "plain");
      expect(names.includes("plain") || !plain).toBe(true);
    }),
    { numRuns: 1_000 },
  );
});

describe("a schema that throws has refused the answer, and nothing of the answer is quoted", () => {
  const PLANTED = "planted-value";
  test.each([
    [
      "a refinement of the author's",
      z.object({
        a: z.string().refine((value) => {
          throw new Error(value);
        }),
      }),
      { a: PLANTED },
    ],
    [
      "a preprocessing that the target's object stops",
      z.object({ a: z.preprocess(String, z.string()) }),
      { a: { toString: PLANTED } },
    ],
    [
      "an intersection whose sides do not meet",
      z.intersection(z.object({ a: z.coerce.number() }), z.looseObject({})),
      { a: "7", [PLANTED]: 1 },
    ],
  ])("%s", (_title, output, raw) => {
    try {
      released({ output, policy: { a: "allow" } }, raw);
      expect.unreachable();
    } catch (error) {
      expect(error).toHaveProperty("code", "INVALID_OUTPUT");
      const { message, cause } = error as Error;
      expect([message, String((cause as Error).message)].join()).not.toContain(PLANTED);
    }
  });
});
