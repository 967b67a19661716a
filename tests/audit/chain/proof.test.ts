import { afterAll, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import fs from "node:fs";
import fc from "fast-check";
import { logIdIn } from "../../../src/audit/chain/log-id.ts";
import { checkProof, type Proof, prove, readLineName, readProof } from "../../../src/audit/chain/proof.ts";
import { keys, temporaryDirectory, writeLog } from "../support/chained-log.ts";
import { createWorld, draftOf } from "../support/open.ts";

const dir = temporaryDirectory();
await writeLog(dir);
afterAll(() => fs.rmSync(dir, { recursive: true }));

const IDS = [0, 1, 2].flatMap((day) => [0, 1, 2, 3, 4].map((call) => `t-${day}-${call}`));
const trusted = [keys.publicKey];
const proofs = IDS.map((id) => readProof(JSON.stringify(prove(dir, id))));
const proofAt = (index: number): Proof => proofs[index % proofs.length] ?? prove(dir, "t-0-0");

test("every call of a log can be proved, by its trace id and by its own id", () => {
  expect(proofs.map((proof) => checkProof(proof, trusted).ok)).toEqual(IDS.map(() => true));
  expect(proofs.map(({ index }) => index)).toEqual(IDS.map((_id, index) => index));
  const { id } = JSON.parse(proofAt(7).line) as { id: string };
  expect(prove(dir, id)).toEqual(proofAt(7));
});

test("a line is named by its log and its seq, too", () => {
  const log = logIdIn(dir, "calls");
  for (const proof of proofs) expect(prove(dir, `${log}:${proof.index}`)).toEqual(proof);
  expect(() => prove(dir, `${log}:${IDS.length}`)).toThrow("no call in");
  expect(() => prove(dir, `${"0".repeat(32)}:3`)).toThrow("no call in");
  expect([`${log}`, `${log}:`, `${log}:-1`, `x${log}:1`, "t-0:1"].map(readLineName)).toEqual(Array(5).fill(undefined));
});

test("trees of every shape", async () => {
  const world = createWorld();
  for (let size = 1; size <= 20; size += 1) {
    const log = world.open({ checkpointKey: keys.privateKey });
    await log.append(draftOf(`t-${size}`));
    await world.stop();
    const ids = Array.from({ length: size }, (_, index) => `t-${index + 1}`);
    expect(ids.filter((id) => !checkProof(prove(world.dir, id), trusted).ok)).toEqual([]);
  }
  await world.end();
});

test("a line that is not in the log, or not covered yet, has no proof", async () => {
  expect(() => prove(dir, "t-9-9")).toThrow("no call in");
  // It stands in a line, but names none.
  expect(() => prove(dir, "agent-1")).toThrow("no call in");
  const world = createWorld();
  await world.open().append(draftOf("t-1"));
  expect(() => prove(world.dir, "t-1")).toThrow("holds no checkpoint");
  await world.end();
});

test("another key, another line, another position: nothing of a proof can be exchanged", () => {
  const other = generateKeyPairSync("ed25519");
  expect(checkProof(proofAt(3), [other.publicKey])).toMatchObject({ ok: false, isSignature: true });
  const swap = fc.record({
    member: fc.constantFrom("line", "index", "hashes", "checkpoint"),
    one: fc.nat(IDS.length - 1),
    other: fc.nat(IDS.length - 1),
  });
  fc.assert(
    fc.property(swap, ({ member, one, other: from }) => {
      fc.pre(one !== from && member !== "checkpoint");
      const forged = readProof(JSON.stringify({ ...proofAt(one), [member]: proofAt(from)[member as keyof Proof] }));
      fc.pre(JSON.stringify(forged) !== JSON.stringify(proofAt(one)));
      expect(checkProof(forged, trusted).ok).toBe(false);
    }),
  );
});

test("a flipped character anywhere invalidates it", () => {
  const text = JSON.stringify(proofAt(6));
  fc.assert(
    fc.property(fc.nat(text.length - 1), fc.constantFrom("x", "0", '"', "A"), (at, put) => {
      fc.pre(text[at] !== put);
      const harmed = text.slice(0, at) + put + text.slice(at + 1);
      let isOk = false;
      try {
        isOk = checkProof(readProof(harmed), trusted).ok;
      } catch {
        // Not a proof at all.
      }
      expect(isOk).toBe(false);
    }),
    { numRuns: 500 },
  );
});

test.each([
  ["no JSON", "{"],
  ["null", "null"],
  ["another type", '{"type":"x"}'],
  ["hashes that are none", '{"type":"safe-tool-call/audit-proof/1","line":"","index":0,"checkpoint":"","hashes":[1]}'],
])("%s is not a proof", (_name, text) => {
  expect(() => readProof(text)).toThrow("the proof is not");
});
