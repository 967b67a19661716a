import { afterAll, beforeEach, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import fs from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { exitCodeOf, verifyLog } from "../../../src/audit/verify/verify.ts";
import {
  CALLS_A_DAY,
  found,
  hashIn,
  keys,
  linesOf,
  rehashed,
  temporaryDirectory,
  writeLines,
  writeLog,
} from "../support/chained-log.ts";
import { verifyIndependently } from "./independent-verifier.ts";

const [ONE, TWO, LAST] = ["2026-02-16.jsonl", "2026-02-17.jsonl", "2026-02-19.jsonl"];
const NOTES = "checkpoints/2026-02-19.txt";

const original = temporaryDirectory();
await writeLog(original);
const dir = temporaryDirectory();
beforeEach(() => restore());
afterAll(() => {
  for (const made of [original, dir]) fs.rmSync(made, { recursive: true, force: true });
});

function restore(): void {
  fs.rmSync(dir, { recursive: true, force: true });
  fs.cpSync(original, dir, { recursive: true });
}

type Edit = (lines: string[]) => readonly string[];

const edit =
  (file: string, change: Edit) =>
  (at: string): void =>
    writeLines(join(at, file), change(linesOf(join(at, file))));

const swapFiles =
  (one: string, other: string) =>
  (at: string): void => {
    fs.renameSync(join(at, one), join(at, "held"));
    fs.renameSync(join(at, other), join(at, one));
    fs.renameSync(join(at, "held"), join(at, other));
  };

const cut =
  (file: string, bytes: number) =>
  (at: string): void =>
    fs.truncateSync(join(at, file), fs.statSync(join(at, file)).size - bytes);

const replaceIn =
  (file: string, from: string | RegExp, to: string) =>
  (at: string): void =>
    fs.writeFileSync(join(at, file), fs.readFileSync(join(at, file), "utf8").replace(from, to));

const put = (lines: readonly string[], index: number, line: string): string[] => lines.toSpliced(index, 0, line);
const at = (lines: readonly string[], index: number): string => lines[index] ?? "";
/** Another text, with a hash of its own. */
const forged = (line: string): string => rehashed(line.replace('"agent-1"', '"agent-2"'));

/** From line `from` on everything is made anew, so that the chain holds. */
const rechain = (lines: readonly string[], from: number): string[] => {
  const made = [...lines];
  made[from] = forged(at(made, from));
  for (let index = from + 1; index < made.length; index += 1) {
    made[index] = rehashed(at(made, index), { prev: hashIn(at(made, index - 1)) });
  }
  return made;
};

test("the unchanged log is valid", () => {
  const report = verifyLog({ dir, keys: [keys.publicKey] });
  expect(report.streams).toMatchObject([
    { stream: "calls", files: 3, lines: 15, lastSeq: 14, compared: 3 },
    { stream: "journal", files: 3, lines: 12, lastSeq: 11, compared: 3 },
  ]);
  expect(report.checkpoints).toEqual({ checkpoints: 6, signed: 6, otherKeys: 0, damage: undefined });
  expect(exitCodeOf(report)).toBe(0);
  expect(verifyIndependently(dir, keys.publicKey)).toEqual([]);
});

test.each<readonly [string, (at: string) => void, string, number]>([
  [
    "a byte of a line",
    edit(TWO, (lines) => lines.with(1, at(lines, 1).replace("agent-1", "agent-2"))),
    `changed ${TWO}:2`,
    1,
  ],
  [
    "a digit of a seq",
    edit(TWO, (lines) => lines.with(1, at(lines, 1).replace('"seq":6', '"seq":7'))),
    `changed ${TWO}:2`,
    1,
  ],
  ["a digit of a hash", edit(ONE, (lines) => lines.with(0, `${at(lines, 0).slice(0, -3)}x"}`)), `changed ${ONE}:1`, 1],
  ["a line that is no JSON any more", edit(ONE, (lines) => lines.with(4, "gone")), `changed ${ONE}:5`, 1],
  [
    "a line with a new hash that fits",
    edit(TWO, (lines) => lines.with(2, forged(at(lines, 2)))),
    `changed ${TWO}:3`,
    1,
  ],
  [
    "the last line of a file, with a new hash",
    edit(TWO, (lines) => lines.with(4, forged(at(lines, 4)))),
    `changed ${TWO}:5`,
    1,
  ],
  ["two lines made one", edit(TWO, (lines) => [at(lines, 0) + at(lines, 1), ...lines.slice(2)]), `changed ${TWO}:1`, 1],
  ["one line made two", replaceIn(TWO, '"tool":', '\n"tool":'), `changed ${TWO}:1`, 1],
  [
    "the stream's lines in the other stream",
    swapFiles(ONE, join("journal", ONE)),
    `changed ${ONE}:1; changed journal/${ONE}:1`,
    1,
  ],
  ["a line out of the middle", edit(TWO, (lines) => lines.toSpliced(2, 1)), `removed ${TWO}:3`, 3],
  ["two lines out of the middle", edit(ONE, (lines) => lines.toSpliced(1, 2)), `removed ${ONE}:2`, 3],
  ["the first line of all", edit(ONE, (lines) => lines.slice(1)), `removed ${ONE}:1`, 3],
  ["the first line of a day", edit(TWO, (lines) => lines.slice(1)), `removed ${TWO}:1`, 3],
  [
    "a line of the journal",
    edit(join("journal", TWO), (lines) => lines.toSpliced(1, 1)),
    `removed journal/${TWO}:2`,
    3,
  ],
  ["the last lines of an earlier day", edit(ONE, (lines) => lines.slice(0, 3)), `cut off ${ONE}:3`, 3],
  ["an earlier day amid a line", cut(ONE, 40), `cut off ${ONE}:5`, 3],
  ["a day amid others", (where) => fs.rmSync(join(where, TWO)), `gap ${LAST}:1`, 3],
  ["the last day", (where) => fs.rmSync(join(where, LAST)), `cut off ${TWO}:5`, 3],
  ["all days", (where) => [ONE, TWO, LAST].forEach((name) => void fs.rmSync(join(where, name))), "cut off calls:0", 3],
  ["the last line", edit(LAST, (lines) => lines.slice(0, -1)), `cut off ${LAST}:4`, 3],
  ["the last line's end", cut(LAST, 1), `cut off ${LAST}:5`, 3],
  ["the last line amid", cut(LAST, 100), `cut off ${LAST}:5`, 3],
  ["the end of the journal", edit(join("journal", LAST), (lines) => lines.slice(0, 1)), `cut off journal/${LAST}:1`, 3],
  ["a line that somebody made up", edit(TWO, (lines) => put(lines, 2, '{"a":1}')), `inserted ${TWO}:3`, 1],
  ["an empty line", edit(TWO, (lines) => put(lines, 2, "")), `inserted ${TWO}:3`, 1],
  ["a copy of a line", edit(TWO, (lines) => put(lines, 3, at(lines, 2))), `inserted ${TWO}:4`, 1],
  ["a copy of an old line", edit(TWO, (lines) => put(lines, 4, at(lines, 0))), `inserted ${TWO}:5`, 1],
  ["a line made to fit", edit(TWO, (lines) => put(lines, 2, forged(at(lines, 2)))), `inserted ${TWO}:3`, 1],
  ["several lines", edit(TWO, (lines) => lines.toSpliced(2, 0, "{}", "{}", "x")), `inserted ${TWO}:3`, 1],
  [
    "two neighbours swapped",
    edit(TWO, (lines) => lines.with(1, at(lines, 2)).with(2, at(lines, 1))),
    `reordered ${TWO}:2`,
    1,
  ],
  ["a line moved up", edit(TWO, (lines) => put(lines.toSpliced(4, 1), 0, at(lines, 4))), `reordered ${TWO}:1`, 1],
  ["a line moved down", edit(TWO, (lines) => put(lines.toSpliced(0, 1), 3, at(lines, 0))), `reordered ${TWO}:1`, 1],
  ["two days swapped", swapFiles(ONE, TWO), `wrong day ${ONE}:1`, 1],
  ["the chain made anew", edit(LAST, (lines) => rechain(lines, 2)), `checkpoint mismatch ${LAST}:1`, 1],
  ["a byte of a signature", replaceIn(NOTES, /[^ ]{3}=\n\n$/, "AAA=\n\n"), `bad signature ${NOTES}:7`, 4],
  [
    "the size in a checkpoint",
    replaceIn(NOTES, "\n15\n", "\n14\n"),
    `checkpoint mismatch ${LAST}:1; bad signature ${NOTES}:1`,
    1,
  ],
  ["a file of checkpoints", (where) => fs.rmSync(join(where, NOTES)), "cut off checkpoints/2026-02-17.txt:1", 3],
  [
    "all checkpoints",
    (where) => fs.rmSync(join(where, "checkpoints"), { recursive: true }),
    "cut off checkpoints:0",
    3,
  ],
  ["the last checkpoint's end", cut(NOTES, 3), `cut off checkpoints/2026-02-17.txt:7`, 3],
  ["a checkpoint that is none", replaceIn(NOTES, "\n15\n", "\nmany\n"), `changed ${NOTES}:1`, 1],
])("%s: found, with its position and kind", (_name, harm, want, code) => {
  harm(dir);
  expect(found(dir)).toBe(want);
  expect(exitCodeOf(verifyLog({ dir, keys: [keys.publicKey] }))).toBe(code as 0);
  expect(verifyIndependently(dir, keys.publicKey)).not.toEqual([]);
});

test("bytes without a line end after a whole log are a torn end, and nothing worse", () => {
  fs.appendFileSync(join(dir, LAST), '{"timestamp"');
  const report = verifyLog({ dir, keys: [] });
  expect([found(dir), exitCodeOf(report)]).toEqual([`cut off ${LAST}:6`, 2]);
  expect(verifyIndependently(dir, keys.publicKey)).toEqual(["torn end"]);
});

test("a checkpoint that somebody else signed, or of another log, is rejected", async () => {
  const other = generateKeyPairSync("ed25519");
  expect(found(dir, [other.publicKey])).toStartWith("bad signature checkpoints/2026-02-16.txt:1");
  expect(found(dir, [other.publicKey, keys.publicKey])).toBe("sound");
  const elsewhere = temporaryDirectory();
  await writeLog(elsewhere, other.privateKey);
  edit(ONE, (lines) => lines.map((line) => rehashed(line.replace("agent-1", "agent-3"))))(elsewhere);
  fs.rmSync(elsewhere, { recursive: true });
});

test("a part of the log is verified by its chain", () => {
  edit(ONE, (lines) => lines.with(0, "harmed"))(dir);
  const part = verifyLog({ dir, keys: [], from: "2026-02-17", to: "2026-02-17" });
  expect(part.streams).toMatchObject([{ files: 1, lines: 5, lastSeq: 9, damage: undefined }, { damage: undefined }]);
  edit(TWO, (lines) => lines.toSpliced(1, 1))(dir);
  const harmed = verifyLog({ dir, keys: [], from: "2026-02-17" });
  expect(harmed.streams[0]?.damage).toMatchObject({ kind: "removed", file: TWO, line: 2, seq: 6 });
});

test("lines from before the chain are counted, not failed", async () => {
  const old = temporaryDirectory();
  const before = ['{"timestamp":"2026-02-15T00:00:00.000Z"}', '{"timestamp":"2026-02-15T00:00:01.000Z"}'];
  writeLines(join(old, "2026-02-15.jsonl"), before);
  await writeLog(old);
  expect([found(old), verifyLog({ dir: old, keys: [] }).streams[0]?.linesBefore]).toEqual(["sound", 2]);
  expect(verifyIndependently(old, keys.publicKey)).toEqual([]);
  // A line that lost its link must not pass for one of them.
  edit(ONE, (lines) => lines.with(0, '{"timestamp":"2026-02-16T00:00:00.000Z"}'))(old);
  expect(found(old)).toStartWith("changed ");
  fs.rmSync(old, { recursive: true });
});

const FILES = [ONE, TWO, LAST].flatMap((name) => [name, join("journal", name)]);

/** How far into a file: all positions alike, unlike `fc.double`, which prefers the beginning. */
const part = fc.nat(9_999).map((tenThousandth) => tenThousandth / 10_000);

test("`verify` finds any flipped bit of any checkpoint, or counts the checkpoint as another key's", () => {
  const files = ["16", "17", "19"].map((day) => `checkpoints/2026-02-${day}.txt`);
  fc.assert(
    fc.property(fc.constantFrom(...files), part, fc.nat(7), (file, from, bit) => {
      restore();
      const path = join(dir, file);
      const bytes = fs.readFileSync(path);
      const offset = Math.floor(from * bytes.length);
      bytes[offset] = (bytes[offset] ?? 0) ^ (1 << bit);
      fs.writeFileSync(path, bytes);
      // The bit was one of the key's id: a later checkpoint covers the same lines.
      const { otherKeys } = verifyLog({ dir, keys: [keys.publicKey] }).checkpoints;
      expect([found(dir), otherKeys]).not.toEqual(["sound", 0]);
    }),
    { numRuns: 150 },
  );
});

/** Any one thing that can be done to the lines of one file. */
const mutation = fc.record({
  file: fc.constantFrom(...FILES),
  act: fc.constantFrom("flip", "delete", "insert", "copy", "swap", "truncate", "cut line", "cut bytes", "forge"),
  line: fc.nat(CALLS_A_DAY - 1),
  other: fc.nat(CALLS_A_DAY - 1),
  position: part,
  bit: fc.nat(7),
});

test("`verify` finds any change to a line", () => {
  fc.assert(
    fc.property(mutation, ({ file, act, line, other, position, bit }) => {
      restore();
      const path = join(dir, file);
      const before = fs.readFileSync(path);
      const lines = linesOf(path);
      const index = line % lines.length;
      const second = other % lines.length;
      const offset = Math.floor(position * before.length);
      const acts: Record<string, () => void> = {
        flip: () =>
          fs.writeFileSync(
            path,
            before.map((byte, here) => (here === offset ? byte ^ (1 << bit) : byte)),
          ),
        delete: () => writeLines(path, lines.toSpliced(index, 1)),
        insert: () => writeLines(path, put(lines, index, `{"timestamp":"x","n":${offset}}`)),
        copy: () => writeLines(path, put(lines, index, at(lines, second))),
        swap: () => writeLines(path, lines.with(index, at(lines, second)).with(second, at(lines, index))),
        truncate: () => fs.truncateSync(path, 0),
        "cut line": () => writeLines(path, lines.slice(0, index)),
        "cut bytes": () => fs.truncateSync(path, offset),
        forge: () => writeLines(path, lines.with(index, forged(at(lines, index)))),
      };
      acts[act]?.();
      fc.pre(!fs.readFileSync(path).equals(before));
      expect(found(dir)).not.toBe("sound");
    }),
    { numRuns: 400 },
  );
});
