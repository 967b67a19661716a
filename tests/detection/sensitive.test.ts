import { expect, test } from "bun:test";
import fc from "fast-check";
import { filterSecrets } from "../../src/detection/sensitive.ts";
import { filler, formatExamples, formatLookAlikes, plainTexts, shapeExamples } from "./secret-examples.ts";

test.each(formatExamples.map((example) => [example.text.slice(6, 16), example] as const))(
  "%s… is hidden",
  (_title, { rule, secret, text }) => {
    const filtered = filterSecrets(text);
    expect(filtered.text).toBe("value [REDACTED] end");
    expect(filtered.findings).toHaveLength(1);
    expect(text.slice(filtered.findings[0]?.start, filtered.findings[0]?.end)).toBe(secret);
    expect(rule).not.toBe("");
  },
);

test.each(formatLookAlikes.map(([prefix, text]) => [prefix, text] as const))(
  "%s with too little after it stays",
  (_prefix, text) => {
    expect(filterSecrets(text).text).toBe(text);
  },
);

test.each(shapeExamples.map((example) => [`${example.rule}: ${example.text.slice(0, 40)}`, example] as const))(
  "%s is hidden",
  (_title, { rule, secret, text }) => {
    const filtered = filterSecrets(text);
    expect(filtered.text).not.toContain(secret);
    expect(filtered.text).toContain("[REDACTED]");
    expect(filtered.findings.map((finding) => finding.rule)).toContain(rule);
  },
);

test.each(plainTexts.map((text) => [text] as const))("%j stays", (text) => {
  const filtered = filterSecrets(text);
  expect(filtered.findings).toEqual([]);
  expect(filtered.text).toBe(text);
});

/** Five patterns that must always be hidden. */
const REQUIRED = [
  ["sk-ant-", 20, "abcXYZ019-_"],
  ["sk-", 20, "abcXYZ019"],
  ["Bearer ", 20, "abcXYZ019._-"],
  ["ANTHROPIC_API_KEY=", 1, "abcXYZ019./:!"],
  ["OPENAI_API_KEY=", 1, "abcXYZ019./:!"],
  ["PROJ_JARVIS_TOKEN=", 1, "abcXYZ019./:!"],
  ["ghp_", 36, "abcXYZ019"],
] as const;

test.each(REQUIRED)("%s with its context, anywhere in a text", (prefix, least, alphabet) => {
  const body = fc.array(fc.constantFrom(...alphabet), { minLength: Math.max(least, 3), maxLength: 60 });
  const around = fc.constantFrom(" ", "\n", "(", '"', "\t", "{", "; ");
  fc.assert(
    fc.property(body, around, around, (letters, before, after) => {
      const secret = `${prefix}${letters.join("")}`;
      fc.pre(new Set(letters).size > 3);
      expect(filterSecrets(`${before}${secret}${after}`).text).not.toContain(secret);
    }),
    { numRuns: 200, seed: 41 },
  );
});

test("offsets are the original's, in order, without overlaps, and hide no more than they name", () => {
  const secrets = shapeExamples.map(({ text }) => text);
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.constantFrom(...secrets), fc.string({ unit: "binary" }), fc.constantFrom(...plainTexts))),
      (parts) => {
        const text = parts.join(" \n");
        const filtered = filterSecrets(text);
        let from = 0;
        let rebuilt = "";
        for (const { start, end } of filtered.findings) {
          expect(start).toBeGreaterThanOrEqual(from);
          expect(end).toBeGreaterThan(start);
          rebuilt += `${text.slice(from, start)}[REDACTED]`;
          from = end;
        }
        expect(rebuilt + text.slice(from)).toBe(filtered.text);
      },
    ),
    { numRuns: 300, seed: 41 },
  );
});

test("a line with 150 kB of near-anchors hides no secret after them", () => {
  const secret = `eyJ${filler(30)}.eyJ${filler(30)}.${filler(43)}`;
  for (const near of ["eyJ", "sk-ant-", "ghp_", "password=", "://", "Bearer ", "aaaa", '"', "%41", "\\u0041"]) {
    const { text } = filterSecrets(`${near.repeat(150_000 / near.length)} ${secret}`);
    expect(text).not.toContain(secret.slice(-40));
  }
});

test("a token cut by line ends, quotes or a backslash is one token", () => {
  const [first, second] = [`ghp_${filler(16)}`, filler(24)];
  for (const cut of ["\n", "\r\n    ", '" + "', "\\n", "\\\n", "'\n  '"]) {
    const { text } = filterSecrets(`x = "${first}${cut}${second}"`);
    expect(text).not.toContain(second);
  }
});

test.each([
  "the prefix is sk-proj\nConfigurationManagement follows",
  "pip install sk-learn\nInternationalConference2024 begins",
  "keys start with sk-abcd\ninternationalization1234567",
  "open sk-sign-up\nRelease-Notes-2024-05-Final-version-x",
  "sk-…\nInternationalizationOfTheKeys",
])("%j: a word at a line's end takes no word of the next line", (text) => {
  expect(filterSecrets(text).text).toBe(text);
});
