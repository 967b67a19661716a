import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { AskingWorld, codeOf, recordingTool } from "../approvals/asking-world.ts";

const deeds: unknown[] = [];
const world = new AskingWorld({
  tools: [recordingTool("deed", deeds, z.strictObject({ what: z.any(), count: z.number().default(1) }))],
  approvals: { pendingPerCallerMax: 1_000 },
});

beforeAll(async () => {
  await world.start();
});
afterAll(() => world.end());

let subjects = 0;

/** What comes of a yes to the one, claimed with the other; both as they are spelled. */
async function claimed(asked: string, then: string): Promise<{ readonly code: string; readonly ran: unknown }> {
  subjects += 1;
  const token = await world.agent({ sub: `look-alike-${subjects}` });
  const id = await world.ask("deed", asked, { token });
  await world.decide(id, "approve");
  const before = deeds.length;
  const code = codeOf(await world.call("deed", then, { token, approval: { id } }));
  return { code, ran: deeds.slice(before) };
}

describe("an approval covers other spellings of the same arguments", () => {
  test.each([
    ['{"what":1}', '{"what":1.0}', 1],
    ['{"what":100}', '{"what":1e2,"count":10e-1}', 100],
    ['{"what":"/\\u00e9"}', '{ "what" : "\\/é" }', "/é"],
    ['{"what":{"a":1,"b":2}}', '{"what":{"b":2,"a":1}}', { a: 1, b: 2 }],
    ['{"what":{"10":1,"9":2}}', '{"what":{"9":2,"10":1}}', { "10": 1, "9": 2 }],
    // JSON's zeros are one: whoever was shown 0 has not said yes to a number that divides into minus infinity.
    ['{"what":0}', '{"what":-0}', 0],
    ['{"what":[0,{"deep":[0]}]}', '{"what":[-0,{"deep":[-0.0]}]}', [0, { deep: [0] }]],
    ['{"what":1,"count":0}', '{"what":1,"count":-0e1}', 1],
  ])("%s, %s", async (asked, then, what) => {
    const { code, ran } = await claimed(asked, then);
    expect(code).toBe("HTTP 200");
    expect(ran).toEqual([{ what, count: (JSON.parse(asked) as { count?: number }).count ?? 1 }]);
  });
});

describe("and no call that only looks alike", () => {
  test.each([
    ['{"what":"é"}', '{"what":"e\\u0301"}'],
    ['{"what":"\\ufb01"}', '{"what":"fi"}'],
    ['{"what":"K"}', '{"what":"\\u212a"}'],
    ['{"what":"a"}', '{"what":"a\\u200b"}'],
    ['{"what":"a"}', '{"what":"a\\u0000"}'],
    ['{"what":"1"}', '{"what":1}'],
    ['{"what":1}', '{"what":true}'],
    ['{"what":null}', '{"what":"null"}'],
    ['{"what":[]}', '{"what":{}}'],
    ['{"what":[null]}', '{"what":[]}'],
    ['{"what":["a,b"]}', '{"what":["a","b"]}'],
    ['{"what":[1,2]}', '{"what":[2,1]}'],
    ['{"what":{"a":{"b":1}}}', '{"what":{"a.b":1}}'],
    ['{"what":{"a":1}}', '{"what":{"a":1,"b":null}}'],
    ['{"what":{}}', '{"what":{"constructor":1}}'],
    ['{"what":{"length":0}}', '{"what":[]}'],
    ['{"what":0.1}', '{"what":0.10000000000000002}'],
    ['{"what":9007199254740991}', '{"what":9007199254740990}'],
    ['{"what":5e-324}', '{"what":0}'],
    ['{"what":"x"}', '{"what":"x","count":2}'],
  ])("%s, %s", async (asked, then) => {
    expect(await claimed(asked, then)).toEqual({ code: "APPROVAL_MISMATCH", ran: [] });
  });
});
