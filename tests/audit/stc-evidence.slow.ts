import { afterAll, beforeEach, expect, test } from "bun:test";
import { createPrivateKey } from "node:crypto";
import fs from "node:fs";
import { join } from "node:path";
import { hashIn, linesOf, rehashed, temporaryDirectory, writeLines, writeLog } from "./support/chained-log.ts";

const STC = join(import.meta.dir, "../../src/cli/main.ts");
const folder = temporaryDirectory();
const original = join(folder, "original");
const dir = join(folder, "log");
const [PRIVATE, PUBLIC, PROOF] = ["key.pem", "public.pem", "proof.json"].map((name) => join(folder, name)) as [
  string,
  string,
  string,
];

const made = audit("keys", "--new", PRIVATE);
fs.writeFileSync(PUBLIC, made.said);
fs.mkdirSync(original);
await writeLog(original, createPrivateKey(fs.readFileSync(PRIVATE)));
afterAll(() => fs.rmSync(folder, { recursive: true }));
beforeEach(() => {
  fs.rmSync(dir, { recursive: true, force: true });
  fs.cpSync(original, dir, { recursive: true });
});

function audit(...argv: readonly string[]): {
  readonly said: string;
  readonly complained: string;
  readonly exitCode: number;
} {
  const { stdout, stderr, exitCode } = Bun.spawnSync(
    [process.execPath, "--no-env-file", "--no-install", STC, "audit", ...argv],
    {
      env: { PATH: process.env["PATH"] ?? "" },
    },
  );
  return { said: stdout.toString(), complained: stderr.toString(), exitCode };
}

test("a new key is accessible to its owner alone, and never overwritten", () => {
  expect([made.complained, made.exitCode]).toEqual(["", 0]);
  expect(made.said).toStartWith("-----BEGIN PUBLIC KEY");
  expect(fs.statSync(PRIVATE).mode & 0o777).toBe(0o600);
  const before = fs.readFileSync(PRIVATE, "utf8");
  expect(audit("keys", "--new", PRIVATE)).toMatchObject({
    exitCode: 73,
    complained: expect.stringContaining("it exists already"),
  });
  expect(fs.readFileSync(PRIVATE, "utf8")).toBe(before);
  expect(audit("keys", "--key", PRIVATE).said).toBe(made.said);
  expect(audit("keys").exitCode).toBe(64);
});

test("a valid log: exit 0, with a PEM file and with a verifier key", () => {
  const sound = audit("verify", "--dir", dir, "--key", PUBLIC);
  expect(sound).toMatchObject({ exitCode: 0, complained: "" });
  expect(
    sound.said
      .replaceAll(/[0-9a-f]{32}/g, "ID")
      .trim()
      .split("\n"),
  ).toEqual([
    "calls: 15 lines in 3 files, the last is seq 14, 3 checkpoints compared",
    "  origin safe-tool-call/audit/calls/ID",
    "  signed up to seq 14",
    "  seq 0 to 4 were there before the first checkpoint, in checkpoints/2026-02-16.txt",
    "journal: 12 lines in 3 files, the last is seq 11, 3 checkpoints compared",
    "  origin safe-tool-call/audit/journal/ID",
    "  signed up to seq 11",
    "  seq 0 to 3 were there before the first checkpoint, in checkpoints/2026-02-16.txt",
    "checkpoints: 6 (6 signed)",
    "ok",
  ]);
  const [, verifierKey = ""] =
    /^(safe-tool-call\/audit\/calls\/.*)$/m.exec(audit("keys", "--key", PUBLIC, "--dir", dir).said) ?? [];
  expect(audit("verify", "--dir", dir, "--key", verifierKey).exitCode).toBe(0);
});

test.each<readonly [string, () => void, readonly string[], number, string]>([
  [
    "a changed line",
    () => replaceIn("2026-02-17.jsonl", "agent-1", "agent-2"),
    [],
    1,
    "changed: 2026-02-17.jsonl, line 1 (seq 5)",
  ],
  [
    "a torn end",
    () => fs.appendFileSync(join(dir, "2026-02-19.jsonl"), "{"),
    [],
    2,
    "cut off: 2026-02-19.jsonl, line 6",
  ],
  ["a missing day", () => fs.rmSync(join(dir, "2026-02-17.jsonl")), [], 3, "gap: 2026-02-19.jsonl, line 1 (seq 5)"],
  [
    "a wrong signature",
    () => replaceIn("checkpoints/2026-02-16.txt", /[^ ]{3}=\n\n$/, "AAA=\n\n"),
    ["--key", PUBLIC],
    4,
    "bad signature: checkpoints",
  ],
  ["a log that nobody signed", unsign, ["--key", PUBLIC], 4, "not signed: there is no checkpoint"],
  ["a log that nobody signed, without a key", unsign, [], 6, "note: without signed checkpoints"],
  [
    "a checkpoint without its signature",
    () => replaceIn("checkpoints/2026-02-16.txt", /— .*\n/, ""),
    ["--key", PUBLIC],
    4,
    "not signed: checkpoints/2026-02-16.txt, line 1: the checkpoint has no signature",
  ],
  [
    "a renamed day",
    () => fs.renameSync(join(dir, "2026-02-16.jsonl"), join(dir, "2026-02-15.jsonl")),
    [],
    1,
    "wrong day: 2026-02-15.jsonl, line 1 (seq 0): the line is not of 2026-02-15",
  ],
  [
    "a file beside the days",
    () => fs.writeFileSync(join(dir, "2026-02-16.jsonl.bak"), "x"),
    [],
    6,
    "note: 2026-02-16.jsonl.bak is not the file of a day: not read",
  ],
  ["no key", () => undefined, [], 6, "\nok, not checked: signatures\n"],
  ["only a part", () => undefined, ["--key", PUBLIC, "--from", "2026-02-17"], 6, "\nok, not checked: signatures\n"],
  ["no checkpoint and no key", unsign, [], 6, "\nok, unsigned\n"],
  ["a file that is a link", () => link("2026-02-17.jsonl"), [], 5, ""],
  ["a day that is none", () => undefined, ["--from", "yesterday"], 64, ""],
  ["a day that no calendar has", () => undefined, ["--to", "2026-02-30"], 64, ""],
  ["a key that is none", () => undefined, ["--key", "/dev/null"], 5, ""],
])("%s: its exit code and its line", (_name, harm, options, exitCode, want) => {
  harm();
  const { said, ...ended } = audit("verify", "--dir", dir, ...options);
  expect([ended.exitCode, said]).toEqual([exitCode, expect.stringContaining(want)]);
});

function replaceIn(file: string, from: string | RegExp, to: string): void {
  const path = join(dir, file);
  fs.writeFileSync(path, fs.readFileSync(path, "utf8").replace(from, to));
}

function unsign(): void {
  for (const name of ["checkpoints", ".state"]) fs.rmSync(join(dir, name), { recursive: true });
}

function link(file: string): void {
  fs.renameSync(join(dir, file), join(dir, "elsewhere"));
  fs.symlinkSync("elsewhere", join(dir, file));
}

test("a reader warns of a renamed day, and finds its lines", () => {
  fs.renameSync(join(dir, "2026-02-17.jsonl"), join(dir, "2026-01-01.jsonl"));
  const asked = audit("query", "--dir", dir, "--from", "2026-02-17", "--to", "2026-02-18", "--json");
  expect([asked.exitCode, asked.said.trim().split("\n").length]).toEqual([0, 5]);
  expect(asked.complained).toStartWith("warning: 2026-01-01.jsonl of calls holds lines of 2026-02-17: run stc audit");
});

test("a missing directory is exit 66; JSON for programs", () => {
  expect(audit("verify", "--dir", join(folder, "none")).exitCode).toBe(66);
  const report: unknown = JSON.parse(audit("verify", "--dir", dir, "--key", PUBLIC, "--json").said);
  expect(report).toMatchObject({
    ok: true,
    signatures: "checked",
    streams: [{ stream: "calls", lines: 15 }, {}],
    checkpoints: { signed: 6 },
  });
});

test("a proof is verified without the log", () => {
  const { said, exitCode } = audit("prove", "t-1-2", "--dir", dir);
  expect(exitCode).toBe(0);
  fs.writeFileSync(PROOF, said);
  fs.rmSync(dir, { recursive: true });
  expect(audit("verify-proof", PROOF, "--key", PUBLIC)).toMatchObject({
    exitCode: 0,
    said: expect.stringMatching(
      /^proved: seq 7 of 0 to 14 in safe-tool-call\/audit\/calls\/[0-9a-f]{32}\n\{"timestamp"/,
    ),
  });
  fs.writeFileSync(PROOF, said.replace("agent-1", "agent-2"));
  expect(audit("verify-proof", PROOF, "--key", PUBLIC)).toMatchObject({
    exitCode: 1,
    complained: expect.stringContaining("not in the log"),
  });
  fs.writeFileSync(PROOF, "{}");
  expect(audit("verify-proof", PROOF, "--key", PUBLIC).exitCode).toBe(5);
});

test("a missing line has no proof", () => {
  expect(audit("prove", "t-9", "--dir", dir)).toMatchObject({
    exitCode: 1,
    complained: expect.stringContaining("no call in"),
  });
});

test("an empty directory, and one from before the chain, are valid", () => {
  fs.rmSync(dir, { recursive: true });
  fs.mkdirSync(dir);
  expect(audit("verify", "--dir", dir)).toMatchObject({ exitCode: 6, complained: "" });
  fs.writeFileSync(join(dir, "2026-02-15.jsonl"), '{"timestamp":"2026-02-15T00:00:00.000Z","traceId":"t"}\n');
  expect(audit("verify", "--dir", dir)).toMatchObject({
    exitCode: 6,
    said: expect.stringContaining("1 lines from before the chain"),
  });
});

/** The calls, with what makes them follow each other and what signs them taken away. */
function unlink(): void {
  for (const name of fs.readdirSync(dir).filter((file) => file.endsWith(".jsonl"))) {
    replaceIn(name, /,"seq":\d+,"prev":"\w+","hash":"\w+"(?=\})/g, "");
    replaceIn(name, /agent-1/g, "agent-2");
  }
  for (const name of fs.readdirSync(join(dir, "checkpoints"))) {
    replaceIn(`checkpoints/${name}`, /safe-tool-call\/audit\/calls\/\w+\n\d+\n.*\n\n— .*\n\n/g, "");
  }
  fs.rmSync(join(dir, ".state"), { recursive: true });
}

/** A new chain after a record that says nothing of the hashes before it, which nobody needs a key for. */
function rebuild(): void {
  fs.rmSync(join(dir, ".state"), { recursive: true });
  fs.rmSync(join(dir, "2026-02-16.jsonl"));
  let prev = "0".repeat(64);
  const logId = /calls\/(\w+)/.exec(fs.readFileSync(join(dir, "checkpoints/2026-02-16.txt"), "utf8"))?.[1];
  const record = { type: "audit.pruned", stream: "calls", day: "2026-02-16", nextSeq: 5, nextPrev: prev, logId };
  fs.writeFileSync(join(dir, "pruned.jsonl"), `${JSON.stringify(record)}\n`);
  for (const day of ["2026-02-17", "2026-02-19"]) {
    const lines = linesOf(join(dir, `${day}.jsonl`)).map((line) => {
      const forged = rehashed(line.replace("agent-1", "agent-2"), { prev });
      prev = hashIn(forged);
      return forged;
    });
    writeLines(join(dir, `${day}.jsonl`), lines);
  }
}

/** Calls that nobody made, before the first line of a chain that is as it was signed. */
function prepend(): void {
  const prev = /"prev":"(\w+)"/.exec(fs.readFileSync(join(dir, "2026-02-16.jsonl"), "utf8"))?.[1];
  const record = { type: "audit.pruned", stream: "calls", day: "2026-02-14", nextSeq: 0, nextPrev: prev };
  fs.writeFileSync(join(dir, "pruned.jsonl"), `${JSON.stringify(record)}\n`);
  fs.writeFileSync(join(dir, "2026-02-15.jsonl"), '{"timestamp":"2026-02-15T00:00:00.000Z","traceId":"t"}\n');
}

function unsignedBefore(): void {
  unlink();
  for (const name of ["journal", "checkpoints"]) fs.rmSync(join(dir, name), { recursive: true });
}

function empty(): void {
  fs.rmSync(dir, { recursive: true });
  fs.mkdirSync(dir);
}

test.each<readonly [string, () => void, readonly string[], number, string]>([
  ["calls without links, and without the checkpoints of calls", unlink, [], 6, "\nok, not checked: signatures\n"],
  ["calls that were rebuilt after a forged record of retention", rebuild, [], 6, "\nok, not checked: signatures\n"],
  ["calls before the chain, after a forged record of retention", prepend, [], 6, "\nok, not checked: signatures\n"],
  ["a log from before the chain", unsignedBefore, [], 4, "not signed: there is no checkpoint"],
  ["an empty log", empty, [], 6, "ok, not checked: signatures\n"],
  ["the days up to one", () => undefined, ["--to", "2026-02-17"], 6, "\nok, not checked: signatures\n"],
])("%s: the key has not signed that, and the result says so", (_name, harm, options, exitCode, want) => {
  harm();
  const { said, ...ended } = audit("verify", "--dir", dir, "--key", PUBLIC, ...options);
  expect([ended.exitCode, said]).toEqual([exitCode, expect.stringContaining(want)]);
});

test("lines that `prune` deleted are not reported as missing, and the rest is still compared with the checkpoints", () => {
  expect(audit("prune", "--keep", "1d", "--dir", dir).exitCode).toBe(0);
  fs.rmSync(join(dir, ".state"), { recursive: true });
  expect(audit("verify", "--dir", dir, "--key", PUBLIC)).toMatchObject({
    exitCode: 0,
    said: expect.stringContaining(
      "calls: 5 lines in 1 files, the last is seq 14, 1 checkpoints compared, lines before seq 10 were pruned",
    ),
  });
});

test("deletions that retention recorded are not reported as missing; unrecorded ones are", () => {
  const last = JSON.parse(fs.readFileSync(join(dir, "2026-02-16.jsonl"), "utf8").trim().split("\n").at(-1) ?? "") as {
    hash: string;
  };
  fs.rmSync(join(dir, "2026-02-16.jsonl"));
  expect(audit("verify", "--dir", dir)).toMatchObject({
    exitCode: 3,
    said: expect.stringContaining("removed: 2026-02-17.jsonl, line 1"),
  });
  const record = { type: "audit.pruned", stream: "calls", day: "2026-02-16", lastSeq: 4, lastHash: last.hash };
  fs.writeFileSync(join(dir, "pruned.jsonl"), `${JSON.stringify(record)}\n`);
  expect(audit("verify", "--dir", dir, "--key", PUBLIC)).toMatchObject({
    exitCode: 6,
    said: expect.stringContaining("lines before seq 5 were pruned"),
  });
});
