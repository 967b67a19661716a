import { afterAll, beforeEach, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { prove } from "../../../src/audit/chain/proof.ts";
import { unreadNames, verifyLog } from "../../../src/audit/verify/verify.ts";
import {
  found,
  hashIn,
  keys,
  linesOf,
  rehashed,
  temporaryDirectory,
  writeLines,
  writeLog,
} from "../support/chained-log.ts";
import { createWorld, draftOf } from "../support/open.ts";
import { checkProofIndependently, verifyIndependently } from "./independent-verifier.ts";

// What can be done to the folder of a log, beside its lines (verify.test.ts) and the names of its days (day-files.test.ts).

const [ONE, TWO, LAST] = ["2026-02-16.jsonl", "2026-02-17.jsonl", "2026-02-19.jsonl"];

const [signed, unsigned, dir] = [temporaryDirectory(), temporaryDirectory(), temporaryDirectory()];
await writeLog(signed);
fs.cpSync(signed, unsigned, { recursive: true });
for (const name of ["checkpoints", ".state"]) fs.rmSync(join(unsigned, name), { recursive: true });
beforeEach(() => restore(signed));
afterAll(() => {
  for (const made of [signed, unsigned, dir]) fs.rmSync(made, { recursive: true, force: true });
});

function restore(from: string): void {
  fs.rmSync(dir, { recursive: true, force: true });
  fs.cpSync(from, dir, { recursive: true });
}

const path = (name: string): string => join(dir, name);
const remove = (name: string) => (): void => fs.rmSync(path(name), { recursive: true });

function link(target: string): void {
  fs.renameSync(path(TWO), path("elsewhere"));
  fs.symlinkSync(target, path(TWO));
}

/** Another date in the first line of a file, with hashes from there on that fit, and a file name that fits. */
function redate(file: string, day: string): void {
  const [first = "", ...rest] = linesOf(path(file));
  const made = [rehashed(first.replace(file.slice(0, 10), day))];
  for (const line of rest) {
    made.push(rehashed(line.replace(file.slice(0, 10), day), { prev: hashIn(made.at(-1) ?? "") }));
  }
  fs.rmSync(path(file));
  writeLines(path(`${day}.jsonl`), made);
}

test.each<readonly [string, () => void, string]>([
  [
    "a date in a line",
    () =>
      writeLines(
        path(TWO),
        linesOf(path(TWO)).map((line) => line.replace("02-17T", "02-18T")),
      ),
    `changed ${TWO}:1`,
  ],
  ["the dates of a day, its name and its hashes", () => redate(TWO, "2026-02-18"), "changed 2026-02-18.jsonl:5"],
  [
    "the dates of the newest day, its name and its hashes",
    () => redate(LAST, "2026-02-20"),
    "checkpoint mismatch 2026-02-20.jsonl:1",
  ],
  ["the whole journal gone", remove("journal"), "cut off journal:0"],
  ["the journal's newest day gone", remove(join("journal", LAST)), `cut off journal/${TWO}:4`],
  [
    "a day of the calls as one of the journal",
    () => fs.copyFileSync(path(ONE), path(join("journal", ONE))),
    `changed journal/${ONE}:1`,
  ],
  [
    "a day of the calls added to the journal",
    () => fs.copyFileSync(path(TWO), path("journal/2026-02-18.jsonl")),
    "wrong day journal/2026-02-18.jsonl:1",
  ],
  [
    "an earlier file of checkpoints under a later name",
    () => fs.renameSync(path("checkpoints/2026-02-16.txt"), path("checkpoints/2026-02-18.txt")),
    "reordered checkpoints/2026-02-18.txt:1",
  ],
  [
    "another log's checkpoints",
    () =>
      fs.writeFileSync(
        path("checkpoints/2026-02-16.txt"),
        fs.readFileSync(path("checkpoints/2026-02-16.txt"), "utf8").replaceAll(/(calls|journal)\/..../g, "$1/0000"),
      ),
    "checkpoint mismatch checkpoints/2026-02-16.txt:1",
  ],
  [
    "the first day gone, with a record for another line",
    () => {
      remove(ONE)();
      fs.writeFileSync(
        path("pruned.jsonl"),
        `{"type":"audit.pruned","stream":"calls","nextSeq":4,"nextPrev":"${"0".repeat(64)}"}\n`,
      );
    },
    `removed ${TWO}:1`,
  ],
])("%s: found by verify and by an independent verifier", (_name, harm, want) => {
  harm();
  expect(found(dir)).toContain(want);
  expect(verifyIndependently(dir, keys.publicKey)).not.toEqual([]);
});

test.each<readonly [string, () => void]>([
  ["a link to the file itself", () => link("elsewhere")],
  ["a link to nothing", () => link("nowhere")],
  [
    "a folder",
    () => {
      remove(TWO)();
      fs.mkdirSync(path(TWO));
    },
  ],
])("%s instead of a day cannot be read", (_name, harm) => {
  harm();
  expect(() => verifyLog({ dir, keys: [] })).toThrow(TWO);
  expect(verifyIndependently(dir, undefined)).not.toEqual([]);
});

/** Each of these stands in docs/audit.md, "What no verifier can see". */
test.each<readonly [string, () => void, string?]>([
  ["an empty file of a day between", () => fs.writeFileSync(path("2026-02-18.jsonl"), "")],
  ["an empty file of the future", () => fs.writeFileSync(path("2099-01-01.jsonl"), "")],
  ["a file under a name that is not a day", () => fs.copyFileSync(path(ONE), path(`${ONE}.bak`))],
  ["a checkpoint between two others", () => remove("checkpoints/2026-02-17.txt")()],
  [
    "checkpoints under another day in the same order",
    () => fs.renameSync(path("checkpoints/2026-02-17.txt"), path("checkpoints/2026-02-18.txt")),
  ],
  [
    "the newest day of an unsigned log without a saved place",
    () => {
      restore(unsigned);
      remove(LAST)();
      remove(join("journal", LAST))();
    },
  ],
  [
    "the newest day of an unsigned log written again",
    () => {
      restore(unsigned);
      redate(LAST, "2026-02-20");
    },
  ],
])("%s: no verifier notices it", (_name, harm) => {
  harm();
  expect(found(dir, [])).toBe("sound");
  expect(verifyIndependently(dir, undefined)).toEqual([]);
});

test("an empty file of the future does not affect the log", async () => {
  fs.writeFileSync(path("2099-01-01.jsonl"), "");
  fs.writeFileSync(path("journal/2099-01-01.jsonl"), "");
  // As after a crash: the last lines have no checkpoint yet, and nothing was saved.
  const notes = path("checkpoints/2026-02-19.txt");
  fs.rmSync(notes);
  remove(".state")();
  const world = createWorld(dir);
  for (const day of ["2026-02-19T13:00:00.000Z", "2026-02-20T13:00:00.000Z"]) {
    world.now = Date.parse(day);
    await world.open({ checkpointKey: keys.privateKey }).append(draftOf(`t-${day}`));
    await world.stop();
  }
  expect(fs.readdirSync(path("checkpoints")).sort().at(-1)).toBe("2026-02-20.txt");
  expect([found(dir), verifyIndependently(dir, keys.publicKey)]).toEqual(["sound", []]);
});

test("a file whose name is not a day is listed as not read", () => {
  fs.copyFileSync(path(ONE), path(`${ONE}.bak`));
  fs.copyFileSync(path(ONE), path("journal/20260216.jsonl"));
  expect(unreadNames(dir)).toEqual([`${ONE}.bak`, "journal/20260216.jsonl"]);
  expect(unreadNames(signed)).toEqual([]);
});

test("an independent verifier accepts our proofs, and no others", () => {
  const proof = prove(dir, "t-1-2");
  expect(checkProofIndependently(JSON.stringify(proof), keys.publicKey)).toBe(true);
  for (const other of [
    { ...proof, index: 6 },
    { ...proof, line: proof.line.replace("agent-1", "agent-2") },
    { ...proof, hashes: [] },
  ]) {
    expect(checkProofIndependently(JSON.stringify(other), keys.publicKey)).toBe(false);
  }
});
