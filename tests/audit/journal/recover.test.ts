import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import fs from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import type { Announced } from "../../../src/audit/entry.ts";
import { intentLine } from "../../../src/audit/journal/journal.ts";
import { savedPositionPath } from "../../../src/audit/journal/saved-position.ts";
import { found, keys, linesOf, rehashed, temporaryDirectory, writeLines, writeLog } from "../support/chained-log.ts";
import { createWorld, draftOf, outcomes, type World } from "../support/open.ts";

const [ONE, TWO, LAST] = ["2026-02-16.jsonl", "2026-02-17.jsonl", "2026-02-19.jsonl"];
const AFTER = Date.parse("2026-02-19T13:00:00.000Z");
const checkpointKey = keys.privateKey;

const original = temporaryDirectory();
await writeLog(original);
afterAll(() => fs.rmSync(original, { recursive: true }));

let world: World;
beforeEach(() => {
  world = createWorld();
  fs.cpSync(original, world.dir, { recursive: true });
  world.now = AFTER;
});
afterEach(() => world.end());

const at = (lines: readonly string[], index: number): string => lines[index] ?? "";

function edit(file: string, change: (lines: string[]) => readonly string[]): void {
  writeLines(join(world.dir, file), change(linesOf(join(world.dir, file))));
}

describe("a start on a log that was closed", () => {
  test("continues both chains, and new lines verify", async () => {
    const log = world.open({ checkpointKey });
    await Promise.all([log.append(draftOf("t-new")), log.journal({ type: "boot" })]);
    await world.stop();
    expect(world.lines(LAST).at(-1)).toMatchObject({ traceId: "t-new", seq: 15 });
    expect(found(world.dir)).toBe("sound");
  });

  test.each<readonly [string, () => void]>([
    ["without the saved place", () => fs.rmSync(savedPositionPath(world.dir))],
    ["with a saved place that is damaged", () => fs.appendFileSync(savedPositionPath(world.dir), "x", { flag: "r+" })],
    ["with the place of the first day", () => fs.writeFileSync(savedPositionPath(world.dir), "{}\n0\n")],
    ["with a checkpoint that a crash cut short", () => tearNote(20)],
    ["with a checkpoint cut in its middle", () => tearNote(140)],
  ])("%s reads the log instead", async (_name, harm) => {
    harm();
    const log = world.open({ checkpointKey });
    await log.append(draftOf("t-new"));
    await world.stop();
    expect(world.lines(LAST).at(-1)).toMatchObject({ seq: 15 });
    expect(found(world.dir)).toBe("sound");
  });

  test("continues with another key, without one, and with the first again", async () => {
    const other = generateKeyPairSync("ed25519");
    for (const key of [other.privateKey, undefined, checkpointKey]) {
      await world.open({ checkpointKey: key }).append(draftOf("t-new"));
      await world.stop();
    }
    expect(found(world.dir, [keys.publicKey, other.publicKey])).toBe("sound");
    expect(found(world.dir, [other.publicKey])).toStartWith("bad signature");
    expect(world.lines(LAST).at(-1)).toMatchObject({ seq: 17 });
  });

  test("continues without the first days, when retention deleted and recorded them", async () => {
    for (const [stream, file] of [
      ["calls", ONE],
      ["journal", join("journal", ONE)],
    ] as const) {
      const last = world.lines(file).at(-1);
      const record = { type: "audit.pruned", stream, lastSeq: last?.["seq"], lastHash: last?.["hash"] };
      fs.rmSync(join(world.dir, file));
      expect(() => world.open({ checkpointKey })).toThrow("removed");
      fs.appendFileSync(join(world.dir, "pruned.jsonl"), `${JSON.stringify(record)}\n`);
    }
    await world.open({ checkpointKey }).append(draftOf("t-new"));
    expect(world.lines(LAST).at(-1)).toMatchObject({ seq: 15 });
  });

  test("continues after lines from before the chain", async () => {
    const old = createWorld();
    writeLines(join(old.dir, "2026-02-15.jsonl"), ['{"timestamp":"2026-02-15T00:00:00.000Z","traceId":"t-old"}']);
    for (const traceId of ["t-1", "t-2"]) {
      await old.open().append(draftOf(traceId));
      await old.stop();
    }
    expect(old.lines(ONE).map((line) => line["seq"])).toEqual([0, 1]);
    expect(found(old.dir, [])).toBe("sound");
    await old.end();
  });
});

/** The place is saved after the checkpoint: a crash amid the one leaves none of the other. */
function tearNote(bytes: number): void {
  const path = join(world.dir, "checkpoints/2026-02-19.txt");
  fs.rmSync(savedPositionPath(world.dir));
  fs.truncateSync(path, fs.statSync(path).size - bytes);
}

describe("a damaged log is not written to", () => {
  test.each<readonly [string, () => void, string]>([
    [
      "a changed line",
      () => edit(LAST, (lines) => lines.with(1, at(lines, 1).replace("agent-1", "agent-2"))),
      `${LAST}, line 2: changed`,
    ],
    [
      "a line of an earlier day",
      () => edit(ONE, (lines) => lines.with(3, at(lines, 3).replace("t-0-3", "t-0-4"))),
      `${ONE}, line 4: changed`,
    ],
    ["a line that is gone", () => edit(TWO, (lines) => lines.toSpliced(1, 1)), `${TWO}, line 2: removed`],
    ["a day that is gone", () => fs.rmSync(join(world.dir, TWO)), `${LAST}, line 1: gap`],
    ["a line that came in", () => edit(TWO, (lines) => lines.toSpliced(1, 0, "{}")), `${TWO}, line 2: inserted`],
    [
      "lines that changed places",
      () => edit(TWO, (lines) => lines.with(1, at(lines, 2)).with(2, at(lines, 1))),
      `${TWO}, line 2: reordered`,
    ],
    [
      "an end that is gone",
      () => edit(LAST, (lines) => lines.slice(0, -1)),
      `${LAST}: the log held 15 lines and ends after 14, it was cut off`,
    ],
    [
      "a journal whose end is gone",
      () => edit(join("journal", LAST), (lines) => lines.slice(0, -2)),
      `${join("journal", LAST)}: the log held 12`,
    ],
    [
      "all calls gone",
      () => [ONE, TWO, LAST].forEach((name) => void fs.rmSync(join(world.dir, name))),
      "held 15 lines and ends after 0",
    ],
    [
      "a last line without its link",
      () => edit(LAST, (lines) => lines.with(4, '{"timestamp":"2026-02-19T12:00:05.000Z"}')),
      "held 15 lines",
    ],
  ])("%s refuses the start and says where", (_name, harm, want) => {
    harm();
    expect(() => world.open({ checkpointKey })).toThrow(want);
    expect(() => world.open()).toThrow("restore the directory from a copy, or move it away as a whole");
  });

  test("calls that were cut off before a day of journal lines only, without the saved state", async () => {
    world.now = Date.parse("2026-02-20T12:00:00.000Z");
    const log = world.open({ checkpointKey });
    for (let line = 0; line < 3; line += 1) await log.journal({ type: "audit.queried" });
    await world.stop();
    edit(LAST, (lines) => lines.slice(0, -1));
    fs.rmSync(savedPositionPath(world.dir));
    expect(() => world.open({ checkpointKey })).toThrow("held 15 lines and ends after 14");
  });

  test("a recreated chain with a matching saved state does not match the checkpoint", () => {
    fs.rmSync(savedPositionPath(world.dir));
    edit(LAST, (lines) => {
      const last = rehashed(at(lines, 4).replace("agent-1", "agent-2"));
      return lines.with(4, last);
    });
    expect(() => world.open({ checkpointKey })).toThrow(`${LAST}, line 5: checkpoint mismatch`);
  });
});

test("after any change to the youngest lines nothing is appended to them", () => {
  const files = [ONE, TWO, LAST].flatMap((name) => [name, join("journal", name)]);
  const acts = fc.constantFrom("flip", "delete", "insert", "swap", "cut");
  const part = fc.double({ min: 0, max: 0.999, noNaN: true });
  fc.assert(
    fc.property(fc.constantFrom(...files), acts, part, part, (file, act, one, other) => {
      fs.rmSync(world.dir, { recursive: true, force: true });
      fs.cpSync(original, world.dir, { recursive: true });
      const path = join(world.dir, file);
      const before = fs.readFileSync(path);
      const lines = linesOf(path);
      const [first, second] = [one, other].map((where) => Math.floor(where * lines.length)) as [number, number];
      const offset = Math.floor(one * before.length);
      const harm: Record<typeof act, () => void> = {
        flip: () => fs.writeFileSync(path, before.with(offset, (before[offset] ?? 0) ^ (1 << Math.floor(other * 8)))),
        delete: () => edit(file, () => lines.toSpliced(first, 1)),
        insert: () => edit(file, () => lines.toSpliced(first, 0, at(lines, second))),
        swap: () => edit(file, () => lines.with(first, at(lines, second)).with(second, at(lines, first))),
        cut: () => fs.truncateSync(path, offset),
      };
      harm[act as "flip"]();
      fc.pre(!fs.readFileSync(path).equals(before));
      expect(() => world.open({ checkpointKey })).toThrow();
    }),
    { numRuns: 150 },
  );
});

/** A value with all of its members, so that a new one does not compile until the test has it. */
type Complete<T> = T extends string | readonly unknown[] | undefined
  ? T
  : { readonly [Name in keyof T]-?: Complete<NonNullable<T[Name]>> };

describe("calls that a crash cut off", () => {
  /** As after `kill -9`: the directory at this moment, without what a close adds. */
  function crash(): World {
    const after = createWorld();
    fs.cpSync(world.dir, after.dir, { recursive: true });
    after.now = AFTER;
    return after;
  }

  const intent = (traceId: string) => ({
    type: "intent",
    traceId,
    tool: "bash",
    classification: "destructive",
    targetSystem: "shell",
    sub: "agent-7",
    iss: "https://idp.example",
    permissions: ["shell:run"],
    planDigest: "ab",
  });

  test("get one entry each, once, with what the intent recorded", async () => {
    const log = world.open({ checkpointKey });
    await Promise.all(["t-a", "t-b", "t-c"].map((traceId) => log.journal(intent(traceId))));
    await log.append(draftOf("t-b"));
    const after = crash();
    for (const _start of [1, 2]) {
      after.open({ checkpointKey });
      await after.stop();
    }
    const added = after.lines(LAST).slice(5);
    expect(added.map((line) => line["traceId"])).toEqual(["t-b", "t-a", "t-c"]);
    expect(added[1]).toMatchObject({
      decision: "ERROR",
      error: { code: "OUTCOME_UNKNOWN" },
      denial: { stage: "EXECUTION" },
      caller: { sub: "agent-7", iss: "https://idp.example", permissions: ["shell:run"] },
      tool: { name: "bash", classification: "destructive", targetSystem: "shell" },
      plan: { digest: "ab" },
      intentSeq: 12,
    });
    expect(found(after.dir)).toBe("sound");
    await after.end();
  });

  test("get an entry with everything that was known before the call ran", async () => {
    const announced: Complete<Announced> = {
      traceId: "t-a",
      caller: { sub: "agent-7", permissions: ["shell:run"], roles: ["builder"], iss: "https://idp.test", act: ["bot"] },
      tool: { name: "bash", classification: "destructive", targetSystem: "shell", argsDigest: "a1" },
      request: {
        args: { command: "make" },
        argsHash: "a2",
        hashAlg: "sha256",
        session: "s-1",
        callId: "c-1",
        reason: "to build",
        secrets: ["command"],
        truncated: true,
      },
      protocol: { name: "mcp", version: "2026-07-28", client: { name: "c", version: "1" } },
      policyVersion: "a3",
      approval: { by: "human:x|alice", id: "0198b2f6-0000-7000-8000-000000000001" },
      plan: { digest: "a4", confinement: "confined" },
      trace: { traceId: "a5", spanId: "a6", parentSpanId: "a7" },
      keyHash: "a8",
    };
    const log = world.open();
    await log.journal(intentLine(announced));
    const after = crash();
    const { interrupted } = after.open();
    await after.stop();
    const { keyHash, ...members } = announced;
    const { timestamp: _, id, seq, prev, hash, ...entry } = after.lines(LAST).at(-1) ?? {};
    expect(entry).toEqual({
      ...members,
      decision: "ERROR",
      denial: { stage: "EXECUTION", reason: expect.stringContaining("may or may not have happened") },
      error: { code: "OUTCOME_UNKNOWN" },
      duration: 0,
      instance: "test",
      intentSeq: 12,
    });
    expect(interrupted).toEqual([
      {
        approvalId: announced.approval.id,
        key: { issuer: "https://idp.test", subject: "agent-7", tool: "bash", keyHash },
      },
    ]);
    await after.end();
  });

  test("with an intent by version 0.1.0 record no more than it does", async () => {
    const log = world.open();
    await log.journal(intent("t-a"));
    const after = crash();
    after.open();
    await after.stop();
    const [recovered] = after.lines(LAST).slice(-1);
    expect(recovered).toMatchObject({ traceId: "t-a", request: { args: {}, argsHash: "", hashAlg: "none" } });
    for (const member of ["approval", "policyVersion", "trace", "protocol"])
      expect(recovered).not.toHaveProperty(member);
    await after.end();
  });

  test("with an intent over the line limit keep the approval and the hash of the arguments", async () => {
    const log = world.open();
    const { caller, tool } = draftOf("t-a");
    const approval = { by: "human:x|alice", id: "0198b2f6-0000-7000-8000-000000000001" };
    const request = { args: { text: "x".repeat(70_000) }, argsHash: "ab".repeat(32), hashAlg: "sha256" };
    await log.journal(intentLine({ traceId: "t-a", caller, tool, request, approval }));
    const after = crash();
    after.open();
    await after.stop();
    const { args: _, ...kept } = request;
    expect(after.lines(LAST).at(-1)).toMatchObject({ approval, request: { ...kept, args: {}, truncated: true } });
    await after.end();
  });

  test("over MCP keep the protocol and what the client called itself", async () => {
    const log = world.open();
    const { caller, tool, request } = draftOf("t-a");
    const protocol = { name: "mcp", version: "2026-07-28", client: { name: "c", version: "1" } } as const;
    await log.journal(intentLine({ traceId: "t-a", caller, tool, request, protocol }));
    const after = crash();
    after.open();
    await after.stop();
    expect(after.lines(LAST).at(-1)).toMatchObject({ error: { code: "OUTCOME_UNKNOWN" }, protocol });
    await after.end();
  });

  test("are found in the saved state as well", async () => {
    const log = world.open({ checkpointKey });
    await log.journal(intent("t-a"));
    await log.close();
    world.open({ checkpointKey });
    await world.stop();
    expect(world.lines(LAST).at(-1)).toMatchObject({ traceId: "t-a", error: { code: "OUTCOME_UNKNOWN" } });
  });

  test("are all closed, even if more than the queue holds", async () => {
    const log = world.open();
    for (let call = 0; call < 30; call += 1) await log.journal(intent(`t-${call}`));
    const after = crash();
    const next = after.open({ queueEntriesMax: 1 });
    expect(await outcomes([next.append(draftOf("t-too-many"))])).toEqual([expect.stringContaining("queueEntriesMax")]);
    await after.stop();
    expect(after.lines(LAST).slice(5)).toHaveLength(30);
    await after.end();
  });

  test("an intent that the queue refused leaves nothing open", async () => {
    const log = world.open({ queueEntriesMax: 1 });
    const results = await outcomes([log.append(draftOf("t-1")), log.journal(intent("t-refused"))]);
    expect(results[1]).toContain("queueEntriesMax");
    await log.journal({ type: "boot" });
    await world.stop();
    world.open();
    await world.stop();
    expect(world.lines(LAST).map((line) => line["traceId"])).not.toContain("t-refused");
  });

  test("a call names the journal line of its intent", async () => {
    const log = world.open();
    await log.journal(intent("t-a"));
    await log.append(draftOf("t-a"));
    await log.append(draftOf("t-plain"));
    expect(world.lines(LAST).slice(-2)).toMatchObject([{ intentSeq: 12 }, { traceId: "t-plain" }]);
    expect(world.lines(LAST).at(-1)).not.toHaveProperty("intentSeq");
  });
});
