import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { AskingWorld, codeOf } from "../approvals/asking-world.ts";
import type { Reply } from "../support/asking-service.ts";
import { until } from "../support/until.ts";

const one = new AskingWorld({ approvals: { pendingPerCallerMax: 1_000 } });
const two = new AskingWorld({ beside: one });

beforeAll(async () => {
  await one.start();
  await two.start();
});
afterAll(async () => {
  await two.end();
  await one.end();
});

let subjects = 0;
async function newAgent(): Promise<string> {
  subjects += 1;
  return one.agent({ sub: `racer-${subjects}` });
}

const args = { what: "a" };

/** Both services' lines of one approval. */
function story(id: string): readonly string[] {
  return [...one.story(id), ...two.story(id)];
}

const count = (list: readonly unknown[], what: unknown): number => list.filter((item) => item === what).length;

function runs<T>(times: number, make: (index: number) => Promise<T>): Promise<readonly T[]> {
  return Promise.all(Array.from({ length: times }, (_, index) => make(index)));
}

const beside = (index: number): AskingWorld => (index % 2 === 0 ? one : two);

describe("two services on one store", () => {
  test("APR-62: the same request at both is asked once", async () => {
    const token = await newAgent();
    const ids = await runs(20, (index) => beside(index).ask("deed", args, { token }));
    expect(new Set(ids).size).toBe(1);
    expect(story(ids[0] ?? "")).toEqual(["approval.asked"]);
  });

  test("APR-50: many concurrent decisions of every kind at both: one counts, once in the journal", async () => {
    const token = await newAgent();
    const id = await one.ask("deed", args, { token });
    const people = await Promise.all(["alice", "bob", "carol"].map((sub) => one.person({ sub })));
    const answers = await runs(18, (index) =>
      beside(index).decide(id, index % 3 === 0 ? "deny" : "approve", { token: people[index % 3] ?? "" }),
    );
    expect(
      count(
        answers.map(({ http }) => http),
        200,
      ),
    ).toBe(1);
    expect(answers.filter(({ http }) => http !== 200).every((reply) => codeOf(reply) === "APPROVAL_CONSUMED")).toBe(
      true,
    );
    expect(story(id).filter((type) => type === "approval.voted")).toHaveLength(1);
  });

  test("APR-50: many claims at both: one runs", async () => {
    const before = one.deeds.length;
    const token = await newAgent();
    const id = await one.ask("deed", args, { token });
    await two.decide(id, "approve");
    const replies = await runs(30, (index) => beside(index).call("deed", args, { token, approval: { id } }));
    expect(
      count(
        replies.map(({ http }) => http),
        200,
      ),
    ).toBe(1);
    expect(replies.filter(({ http }) => http !== 200).every((reply) => codeOf(reply) === "APPROVAL_CONSUMED")).toBe(
      true,
    );
    expect(one.deeds).toHaveLength(before + 1);
    expect(story(id).toSorted()).toEqual(["approval.asked", "approval.claimed", "approval.settled", "approval.voted"]);
  });

  test.each(["cancel", "revoke"] as const)(
    "APR-50: a claim and a %s at the same moment: one of them wins",
    async (act) => {
      for (let round = 0; round < 8; round += 1) {
        const before = one.deeds.length;
        const token = await newAgent();
        const id = await one.ask("deed", args, { token });
        await one.decide(id, "approve");
        const person = await one.person();
        const stop = (world: AskingWorld): Promise<Reply> =>
          act === "cancel"
            ? world.send("DELETE", `/approvals/${id}`, { token })
            : world.send("POST", `/approvals/${id}/revoke`, { token: person, body: {} });
        const claim = one.call("deed", args, { token, approval: { id } });
        const [claimed, stopped] = await Promise.all([claim, stop(round % 2 === 0 ? one : two)]);
        expect([claimed.http, stopped.http].filter((http) => http === 200)).toHaveLength(1);
        expect(one.deeds).toHaveLength(before + (claimed.http === 200 ? 1 : 0));
        const ended = claimed.http === 200 ? "executed" : `${act}${act === "cancel" ? "led" : "d"}`;
        expect((await one.show(id)).state).toBe(ended);
      }
    },
  );

  test("APR-52, APR-53: a call that waits at one is answered by a decision at the other, and runs once", async () => {
    const before = one.deeds.length;
    const token = await newAgent();
    const waiting = runs(6, (index) => beside(index).call("deed", args, { token, headers: { prefer: "wait=30" } }));
    const id = await until("the question", async () => {
      const page = await one.send("GET", "/approvals?state=pending", { token });
      return page.body.approvals[0]?.id as string | undefined;
    });
    await two.decide(id, "approve");
    const replies = await waiting;
    expect(
      count(
        replies.map(({ http }) => http),
        200,
      ),
    ).toBe(1);
    expect(one.deeds).toHaveLength(before + 1);
  });

  test("one key at both services: one run and its answer", async () => {
    const before = one.deeds.length;
    const token = await newAgent();
    const headers = { "idempotency-key": "k-1" };
    const id = await one.ask("deed", args, { token, headers });
    await one.decide(id, "approve");
    const replies = await runs(20, (index) => beside(index).call("deed", args, { token, headers, approval: { id } }));
    const codes = new Set(replies.map((reply) => codeOf(reply)));
    expect(codes.has("HTTP 200")).toBe(true);
    expect([...codes].every((code) => code === "HTTP 200" || code === "CALL_IN_PROGRESS")).toBe(true);
    expect(one.deeds).toHaveLength(before + 1);
  });

  test("an approval for a session and the end of the session at the same moment: no grant outlives it", async () => {
    for (let round = 0; round < 6; round += 1) {
      const token = await newAgent();
      const session = (await one.send("POST", "/sessions", { token, body: {} })).body.session.id;
      const id = await one.ask("deed", args, { token, session });
      await Promise.all([
        one.decide(id, "approve", { scope: "session" }),
        two.send("DELETE", `/sessions/${session}`, { token }),
      ]);
      expect(codeOf(await one.call("deed", args, { token, session }))).toBe("APPROVAL_REVOKED");
      expect((await one.send("GET", "/grants", { token })).body.grants).toEqual([]);
    }
  });
});

describe("the journal has the whole sequence, each event once and before its effect", () => {
  const stories: readonly (readonly [string, (id: string, token: string) => Promise<unknown>, readonly string[]])[] = [
    ["a no", (id) => one.decide(id, "deny"), ["asked", "voted"]],
    [
      "a yes that was used",
      async (id, token) => {
        await one.show(id);
        await one.decide(id, "approve");
        await one.call("deed", args, { token, approval: { id } });
        await one.call("deed", args, { token, approval: { id } });
        await one.decide(id, "deny");
      },
      ["asked", "shown", "voted", "claimed", "settled"],
    ],
    [
      "a yes that was taken back",
      async (id) => {
        await one.decide(id, "approve");
        const token = await one.person();
        await one.send("POST", `/approvals/${id}/revoke`, { token, body: {} });
        await one.send("POST", `/approvals/${id}/revoke`, { token, body: {} });
      },
      ["asked", "voted", "revoked"],
    ],
    [
      "a question that was withdrawn",
      async (id, token) => {
        await one.send("DELETE", `/approvals/${id}`, { token });
        await one.send("DELETE", `/approvals/${id}`, { token });
      },
      ["asked", "cancelled"],
    ],
    [
      "forgeries",
      async (id, token) => {
        await one.decide(id, "approve", { token });
        await one.decide(id, "approve", { token: await one.person({ permissions: [] }) });
      },
      // Her own question is a forgery; a person without the permission is merely refused.
      ["asked", "forged", "refused"],
    ],
    ["one that joined", (_id, token) => one.ask("deed", args, { token }), ["asked"]],
    ["a claim of another call", (id, token) => one.call("deed", { what: "b" }, { token, approval: { id } }), ["asked"]],
  ];

  test.each(stories)("%s", async (_title, act, want) => {
    const token = await newAgent();
    const id = await one.ask("deed", args, { token });
    await act(id, token);
    expect(story(id)).toEqual(want.map((type) => `approval.${type}`));
    expect(JSON.stringify(one.journal().filter((line) => line["id"] === id))).not.toContain('"what"');
  });

  test("a request that expired, with two sweepers", async () => {
    const own = new AskingWorld({ approvals: { decideBySeconds: 1, sweepEverySeconds: 1 } });
    const other = new AskingWorld({ beside: own });
    try {
      await own.start();
      await other.start();
      const id = await own.ask("deed", args);
      await until("its end", () => [...own.story(id), ...other.story(id)].find((type) => type === "approval.expired"));
      expect(codeOf(await own.decide(id, "approve"))).toBe("APPROVAL_EXPIRED");
      expect(codeOf(await other.call("deed", args, { approval: { id } }))).toBe("APPROVAL_EXPIRED");
      expect([...own.story(id), ...other.story(id)].toSorted()).toEqual(["approval.asked", "approval.expired"]);
      expect(await own.ask("deed", args)).not.toBe(id);
    } finally {
      await other.end();
      await own.end();
    }
  });
});
