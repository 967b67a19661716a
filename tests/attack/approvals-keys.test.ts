import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { AskingWorld, codeOf, recordingTool } from "../approvals/asking-world.ts";
import { until } from "../support/until.ts";

const deeds: unknown[] = [];
const input = z.strictObject({ what: z.string().max(100), count: z.int().default(1) });
const noRule = { verdict: "deny", examples: { matches: [{ what: "forbidden" }], misses: [{ what: "a" }] } };

const world = new AskingWorld({
  tools: [
    recordingTool("deed", deeds, input),
    recordingTool("free_deed", deeds, input, { approval: { needsApproval: () => false } }),
    recordingTool("other_free_deed", deeds, input, { approval: { needsApproval: () => false } }),
    recordingTool("failing_deed", deeds, input, {
      approval: { needsApproval: () => false },
      handler: () => {
        throw new Error("in the middle of it");
      },
    }),
    recordingTool("unplannable_deed", deeds, z.strictObject({ what: z.string().transform((text) => new URL(text)) }), {
      approval: { needsApproval: () => false },
    }),
    recordingTool("large_read", deeds, input, {
      ...{ classification: "read", category: "read" },
      output: z.object({ text: z.string() }),
      outputPolicy: { text: "allow" },
      limits: { outputBytesMax: 4_194_304 },
      handler: () => {
        deeds.push("large");
        return { text: "x".repeat(1_100_000) };
      },
    }),
  ],
  approvals: {
    pendingPerCallerMax: 1_000,
    rules: [{ name: "never", when: { tool: "free_deed", args: { what: ["forbidden"] } }, ...noRule }],
  },
});

beforeAll(async () => {
  await world.start();
});
afterAll(() => world.end());

let names = 0;
/** A caller that nobody was before, with a key of its own. */
async function newAgent(): Promise<{ token: string; headers: Record<string, string> }> {
  names += 1;
  return { token: await world.agent({ sub: nameOf(names) }), headers: { "idempotency-key": `key-${names}` } };
}

function nameOf(caller: number): string {
  return `keeper-${caller}`;
}

describe("Idempotency-Key", () => {
  test("of many concurrent calls one runs, and the others get CALL_IN_PROGRESS", async () => {
    const agent = await newAgent();
    const before = deeds.length;
    const replies = await Promise.all(Array.from({ length: 30 }, () => world.call("free_deed", { what: "a" }, agent)));
    expect(deeds).toHaveLength(before + 1);
    const codes = new Set(replies.map(codeOf));
    expect([...codes].filter((code) => code !== "HTTP 200" && code !== "CALL_IN_PROGRESS")).toEqual([]);
    expect(replies.every(({ body }) => world.entry(body.traceId) !== undefined)).toBe(true);
    expect(codeOf(await world.call("free_deed", { what: "a" }, agent))).toBe("HTTP 200");
    expect(deeds).toHaveLength(before + 1);
  });

  test("the same arguments in another spelling are the same, different ones are not", async () => {
    const agent = await newAgent();
    const before = deeds.length;
    await world.call("free_deed", `{"what":"é","count":2}`, agent);
    expect(codeOf(await world.call("free_deed", `{ "count":2.0, "what":"\\u00e9" }`, agent))).toBe("HTTP 200");
    expect(codeOf(await world.call("free_deed", `{"what":"e\u0301","count":2}`, agent))).toBe("IDEMPOTENCY_CONFLICT");
    expect(codeOf(await world.call("free_deed", `{"what":"é","count":3}`, agent))).toBe("IDEMPOTENCY_CONFLICT");
    expect(deeds).toHaveLength(before + 1);
  });

  test("belongs to one caller, by issuer too, and one tool", async () => {
    const agent = await newAgent();
    const before = deeds.length;
    await world.call("free_deed", { what: "a" }, agent);
    const twin = await world.agent({ kind: "other issuer", sub: nameOf(names) });
    await world.call("free_deed", { what: "a" }, { ...agent, token: twin });
    await world.call("other_free_deed", { what: "a" }, agent);
    expect(deeds).toHaveLength(before + 3);
  });

  test("a refused call does not use it up", async () => {
    const agent = await newAgent();
    const before = deeds.length;
    const weak = await world.agent({ sub: nameOf(names), permissions: [] });
    expect(codeOf(await world.call("free_deed", { what: 1 }, agent))).toBe("INVALID_INPUT");
    expect(codeOf(await world.call("free_deed", { what: "a" }, { ...agent, token: weak }))).toBe("PERMISSION_DENIED");
    expect(codeOf(await world.call("no_deed", { what: "a" }, agent))).toBe("TOOL_NOT_FOUND");
    expect((await world.call("free_deed", { what: "a" }, agent)).http).toBe(200);
    const other = await newAgent();
    for (let turn = 0; turn < 2; turn += 1) {
      expect(codeOf(await world.call("free_deed", { what: "forbidden" }, other))).toBe("POLICY_DENIED");
    }
    expect(deeds).toHaveLength(before + 1);
  });

  test("a call that cannot be planned does not use it up", async () => {
    const agent = await newAgent();
    const attempt = async () => codeOf(await world.call("unplannable_deed", { what: "https://example.org/" }, agent));
    expect([await attempt(), await attempt()]).toEqual(["INTERNAL", "INTERNAL"]);
  });

  test("accompanies an approval request until its run, and uses no approval that was requested without it", async () => {
    const agent = await newAgent();
    const before = deeds.length;
    const id = await world.ask("deed", { what: "a" }, agent);
    expect(await world.ask("deed", { what: "a" }, agent)).toBe(id);
    expect(codeOf(await world.call("deed", { what: "b" }, agent))).toBe("IDEMPOTENCY_CONFLICT");
    await world.decide(id, "approve");
    const otherKey = { ...agent, headers: { "idempotency-key": crypto.randomUUID() } };
    expect(codeOf(await world.call("deed", { what: "a" }, otherKey))).toBe("PENDING");
    expect(codeOf(await world.call("deed", { what: "b" }, { ...agent, approval: { id } }))).toBe(
      "IDEMPOTENCY_CONFLICT",
    );
    expect((await world.call("deed", { what: "a" }, agent)).http).toBe(200);
    expect(world.entries().at(-1)?.approval?.id).toBe(id);
    for (const approval of [{ id }, { id: crypto.randomUUID() }, undefined]) {
      const again = await world.call("deed", { what: "a" }, { ...agent, ...(approval && { approval }) });
      expect(again.http).toBe(200);
      expect(world.entry(again.body.traceId)?.approval).toEqual({ by: "idempotency-key" });
    }
    expect(deeds).toHaveLength(before + 1);
  });

  test("after a denial the key runs nothing either", async () => {
    const agent = await newAgent();
    const before = deeds.length;
    const id = await world.ask("deed", { what: "a" }, agent);
    await world.decide(id, "deny");
    expect(codeOf(await world.call("deed", { what: "a" }, { ...agent, approval: { id } }))).toBe("APPROVAL_DENIED");
    expect(codeOf(await world.call("deed", { what: "a" }, agent))).toBe("APPROVAL_DENIED");
    expect(deeds).toHaveLength(before);
  });

  test("a change that failed midway is not repeated", async () => {
    const agent = await newAgent();
    expect(codeOf(await world.call("failing_deed", { what: "a" }, agent))).toBe("TARGET_FAILED");
    expect(codeOf(await world.call("failing_deed", { what: "a" }, agent))).toBe("OUTCOME_UNKNOWN");
  });

  test("a disconnected client finds its answer", async () => {
    const agent = await newAgent();
    const before = deeds.length;
    const id = await world.ask("deed", { what: "a" }, agent);
    await world.decide(id, "approve");
    const leaving = new AbortController();
    const gone = world.call("deed", { what: "a" }, { ...agent, approval: { id }, signal: leaving.signal });
    await until("the deed", () => deeds.length > before || undefined);
    leaving.abort();
    await gone.catch(() => {});
    const answer = await until("its answer", async () => {
      const reply = await world.call("deed", { what: "a" }, agent);
      return codeOf(reply) === "CALL_IN_PROGRESS" ? undefined : reply;
    });
    expect([answer.http, deeds.length]).toEqual([200, before + 1]);
  });

  test("a read whose answer is too large to store may be read again", async () => {
    const agent = await newAgent();
    const before = deeds.length;
    for (let turn = 1; turn <= 2; turn += 1) {
      expect(codeOf(await world.call("large_read", { what: "a" }, agent))).toBe("HTTP 200");
      expect(deeds).toHaveLength(before + turn);
    }
  });

  test.each(["", "a b", "x".repeat(256), "\u00e4"])("a key like %j is refused", async (key) => {
    const { token } = await newAgent();
    const before = deeds.length;
    const body = { tool: "free_deed", args: { what: "a" } };
    const reply = await world.send("POST", "/call", { token, body, headers: { "idempotency-key": key } });
    expect([codeOf(reply), deeds.length]).toEqual(["MALFORMED_REQUEST", before]);
  });
});
