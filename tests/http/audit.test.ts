import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import type { JournalLine } from "../../src/audit/journal/journal.ts";
import { createServer } from "../../src/http/server.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import { entryLine, generatedTraceId, refusedLine, writeDays, writeGeneratedDay } from "../support/audit-lines.ts";
import { OPERATORS_AUDIENCE, OPERATORS_ISSUER } from "../support/live-tokens.ts";
import {
  AGENTS_ISSUER,
  agentsProfile,
  type Claims,
  goodClaims,
  issueToken,
  makeSigningKey,
  NOW_SECONDS,
} from "../support/tokens.ts";
import { until } from "../support/until.ts";
import { endpointsWith, serverParts } from "./server-parts.ts";

const agents = makeSigningKey("ES256", "agents-1");
const operators = makeSigningKey("ES256", "operators-1");
const TODAY = new Date(NOW_SECONDS * 1000).toISOString().slice(0, 10);
const at = (seconds: number): string => new Date((NOW_SECONDS + seconds) * 1000).toISOString();

const dir = mkdtempSync(join(tmpdir(), "stc-audit-routes-"));
const journal: JournalLine[] = [];
let isDiskFull = false;
let nowMs = NOW_SECONDS * 1000;
/** Advance of the clock for each time that it is read. */
let stepMs = 0;
let app: FastifyInstance;
let url: string;

beforeAll(async () => {
  writeDays(dir, {
    [TODAY]: [
      entryLine(at(-300), { traceId: "t-1", approval: { by: "person", id: "a-1" } }),
      refusedLine(at(-200), ["INVALID_INPUT", "VALIDATION"], { traceId: "t-2" }),
      entryLine(at(-100), { traceId: "t-3" }),
    ],
  });
  writeDays(join(dir, "journal"), {
    [TODAY]: [
      JSON.stringify({ timestamp: at(-310), type: "approval.asked", id: "a-1", traceId: "t-0" }),
      JSON.stringify({ timestamp: at(-305), type: "intent", traceId: "t-1" }),
      JSON.stringify({ timestamp: at(-304), type: "audit.queried", filters: { id: "t-1" } }),
    ],
  });
  const parts = serverParts({
    auditDir: dir,
    clock: () => {
      nowMs += stepMs;
      return nowMs;
    },
    callers: createCallerVerifier({
      issuers: [
        agentsProfile([agents], { issuer: AGENTS_ISSUER }),
        agentsProfile([operators], { issuer: OPERATORS_ISSUER, audience: OPERATORS_AUDIENCE, operators: true }),
      ],
      clock: () => nowMs,
    }),
    journal: async (line) => {
      if (isDiskFull) throw new Error("disk full");
      journal.push(line);
    },
  });
  app = createServer(parts, await endpointsWith(parts));
  url = await app.listen({ host: "127.0.0.1", port: 0 });
});
afterAll(async () => {
  await app.close();
  rmSync(dir, { recursive: true, force: true });
});

const operatorClaims = (changes: Claims = {}): Claims =>
  goodClaims({
    ...{ iss: OPERATORS_ISSUER, aud: OPERATORS_AUDIENCE, sub: "auditor", permissions: ["audit:read"] },
    ...changes,
  });

async function get(path: string, { claims = operatorClaims(), key = operators } = {}) {
  const response = await fetch(url + path, { headers: { authorization: `Bearer ${await issueToken(key, claims)}` } });
  const json = (await response.json()) as Record<string, never> & {
    error?: { code: string };
    entries?: { traceId: string }[];
  };
  return { status: response.status, json, code: json.error?.code, ids: json.entries?.map(({ traceId }) => traceId) };
}

describe("who may query", () => {
  test.each(["/audit", "/audit/t-1", "/audit/stats", "/audit/activity", "/audit/tail"])(
    "%s: operators with audit:read alone",
    async (path) => {
      const before = journal.length;
      expect((await fetch(url + path)).status).toBe(401);
      expect(await get(path, { claims: goodClaims({ permissions: ["audit:read"] }), key: agents })).toMatchObject({
        status: 401,
        code: "UNAUTHENTICATED",
      });
      expect(await get(path, { claims: operatorClaims({ permissions: ["approvals:decide"] }) })).toMatchObject({
        status: 403,
        json: { error: { code: "PERMISSION_DENIED", details: { missingPermissions: ["audit:read"] } } },
      });
      const token = await issueToken(operators, operatorClaims());
      const headers = { authorization: `Bearer ${token}`, origin: "https://evil.test" };
      expect((await fetch(url + path, { headers })).status).toBe(403);
      expect(journal.length).toBe(before);
    },
  );
});

describe("answers", () => {
  test.each<[string, readonly string[]]>([
    ["/audit", ["t-3", "t-2", "t-1"]],
    ["/audit?order=oldest&limit=2", ["t-1", "t-2"]],
    ["/audit?decision=DENIED&tool=get_customer", ["t-2"]],
    ["/audit?from=4m", ["t-3", "t-2"]],
    ["/audit?approval=a-1", ["t-1"]],
    ["/audit?text=INVALID_input", ["t-2"]],
    ["/audit?traceId=t-9", []],
  ])("%s", async (path, want) => {
    const answer = await get(path);
    expect(answer.status).toBe(200);
    expect(answer.ids).toEqual([...want]);
  });

  test("pages by cursor", async () => {
    const first = await get("/audit?limit=2");
    expect(first.json).toMatchObject({ more: true });
    const next = await get(`/audit?limit=2&cursor=${first.json["cursor"]}`);
    expect([next.ids, next.json["more"]]).toEqual([["t-1"], false as never]);
  });

  test("a first page ends early with the line that it has found, and the next one finds the other far away", async () => {
    const day = "2026-01-01";
    const path = "/audit?decision=PENDING&from=2026-01-01&to=2026-01-02&limit=100";
    let count = 0;
    writeGeneratedDay(dir, day, 3_000, (line) => {
      count += 1;
      return count === 1 || count === 3_000 ? line.replace('"ALLOWED"', '"PENDING"') : line;
    });
    const before = nowMs;
    try {
      stepMs = 90;
      const first = await get(path);
      expect([first.ids, first.json["more"]]).toEqual([[generatedTraceId(2_999)], true as never]);
      const next = await get(`${path}&cursor=${first.json["cursor"]}`);
      expect([next.ids, next.json["more"]]).toEqual([[generatedTraceId(0)], false as never]);
    } finally {
      stepMs = 0;
      nowMs = before;
      rmSync(join(dir, `${day}.jsonl`));
    }
  });

  test("the whole sequence of a call, or of its approval", async () => {
    for (const id of ["t-1", "a-1"]) {
      const { json, ids } = await get(`/audit/${id}`);
      expect(ids).toEqual(["t-1"]);
      expect((json["journal"] as unknown as { type: string }[]).map(({ type }) => type)).toEqual([
        "approval.asked",
        "intent",
      ]);
    }
    expect(await get("/audit/t-9")).toMatchObject({ status: 404, code: "ENTRY_NOT_FOUND" });
  });

  test("the activity of the last hour and day, of all callers or one", async () => {
    const { json } = await get("/audit/activity?sub=agent-7");
    expect(json).toMatchObject({ source: "replica", isPartial: false, callers: [{ sub: "agent-7" }] });
    expect(Object.values(json["all"]?.["hour"] ?? {}).reduce((sum: number, calls) => sum + Number(calls), 0)).toBe(3);
    expect((await get("/audit/activity?sub=nobody")).json).toMatchObject({ all: { day: {} }, callers: [] });
  });

  test("statistics, and a comparison", async () => {
    expect((await get("/audit/stats")).json).toMatchObject({
      calls: 3,
      refusals: [["INVALID_INPUT VALIDATION get_customer", 1]],
    });
    expect((await get("/audit/stats?compare=4m")).json).toMatchObject({
      changes: [{ refusal: "INVALID_INPUT VALIDATION get_customer", before: 0, now: 1 }],
    });
  });
});

describe("refusals", () => {
  test.each([
    ...["/audit?colour=red", "/audit?limit=1001", "/audit?limit=0", "/audit?tool=a&tool=b", "/audit?from=2026-02-30"],
    ...[
      "/audit?from=today&to=yesterday",
      "/audit?decision=denied",
      "/audit?cursor=x",
      "/audit?dir=/etc",
      "/audit?sub=",
    ],
    ...[
      "/audit/t-1?x=1",
      "/audit/stats?limit=3",
      "/audit/activity?from=1h",
      "/audit/activity?source=all",
      "/audit/stats?compare=soon",
      "/audit/tail?limit=1",
      "/audit?__proto__=x",
    ],
    ...["/audit/%00", "/audit/a%20b", "/audit?cursor=WzEsIm5ld2VzdCIsIi4uLy4uL2V0Yy9wYXNzd2QiLDAsbnVsbCxudWxsLCIwIl0"],
  ])("%s is 400 and in no journal", async (path) => {
    const before = journal.length;
    expect(await get(path)).toMatchObject({ status: 400, code: "MALFORMED_REQUEST" });
    expect(journal.length).toBe(before);
  });

  test("an id that is a path is an unknown id", async () => {
    expect((await get("/audit/..%2F..%2Fetc%2Fpasswd")).status).toBe(404);
  });
});

describe("the journal", () => {
  test("every query is in it before it is answered", async () => {
    journal.length = 0;
    await get("/audit?sub=agent-7");
    await get("/audit/t-1");
    await get("/audit/stats");
    await get("/audit/activity?tool=x");
    const by = { type: "audit.queried", sub: "auditor", iss: OPERATORS_ISSUER } as const;
    expect(journal).toEqual([
      { ...by, route: "query", filters: { sub: "agent-7" } },
      { ...by, route: "show", filters: { id: "t-1" } },
      { ...by, route: "stats", filters: {} },
      { ...by, route: "activity", filters: { tool: "x" } },
    ]);
  });

  test.each(["/audit", "/audit/t-1", "/audit/stats", "/audit/activity", "/audit/tail"])(
    "%s is not answered when it cannot be recorded",
    async (path) => {
      isDiskFull = true;
      const answer = await get(path);
      isDiskFull = false;
      expect(answer).toMatchObject({ status: 503, code: "AUDIT_UNAVAILABLE" });
    },
  );
});

describe("the tail", () => {
  async function open(path: string, headers: Readonly<Record<string, string>> = {}) {
    const token = await issueToken(operators, operatorClaims());
    const controller = new AbortController();
    const response = await fetch(url + path, {
      headers: { authorization: `Bearer ${token}`, ...headers },
      signal: controller.signal,
    });
    const tail = { status: response.status, text: "", isOver: false, stop: () => controller.abort() };
    void (async () => {
      try {
        for await (const chunk of response.body ?? []) tail.text += new TextDecoder().decode(chunk);
      } catch {
        // Stopped by the test.
      }
      tail.isOver = true;
    })();
    await until("the stream's opening", () => (tail.text.includes(": open") ? true : undefined));
    return tail;
  }

  const idsIn = (text: string): readonly string[] =>
    [...text.matchAll(/"traceId":"([^"]+)"/g)].map(([, id = ""]) => id);

  test("sends new lines through its filters, and continues from an id", async () => {
    const tail = await open("/audit/tail?decision=ALLOWED");
    appendFileSync(
      join(dir, `${TODAY}.jsonl`),
      `${refusedLine(at(1), ["INVALID_INPUT", "VALIDATION"], { traceId: "n-1" })}\n`,
    );
    // A line of foreign make: line ends between members must not end the event.
    appendFileSync(join(dir, `${TODAY}.jsonl`), `{"timestamp":"${at(2)}",\r"decision":"ALLOWED","traceId":"n-2"}\n`);
    await until("the second line", () => (tail.text.includes("n-2") ? true : undefined));
    tail.stop();
    expect(idsIn(tail.text)).toEqual(["n-2"]);
    expect(tail.text).not.toContain("\r");
    const [, id = ""] = /^id: (.+)$/m.exec(tail.text) ?? [];
    appendFileSync(join(dir, `${TODAY}.jsonl`), `${entryLine(at(3), { traceId: "n-3" })}\n`);
    const resumed = await open("/audit/tail", { "last-event-id": id });
    await until("the third line", () => (resumed.text.includes("n-3") ? true : undefined));
    resumed.stop();
    expect(idsIn(resumed.text)).toEqual(["n-3"]);
  });

  test("an invalid last event id is refused", async () => {
    const token = await issueToken(operators, operatorClaims());
    const headers = { authorization: `Bearer ${token}`, "last-event-id": "../x:1" };
    expect((await fetch(`${url}/audit/tail`, { headers })).status).toBe(400);
  });

  test("a limited number of streams of one operator", async () => {
    const tails = await Promise.all([1, 2, 3, 4].map(() => open("/audit/tail")));
    expect(await get("/audit/tail")).toMatchObject({ status: 429, code: "RATE_LIMITED" });
    for (const tail of tails) tail.stop();
    await until("room", async () => {
      const tail = await open("/audit/tail").catch(() => undefined);
      tail?.stop();
      return tail?.status === 200 ? true : undefined;
    });
  });

  test("a client far behind, whose filter matches nothing, delays nobody", async () => {
    const line = `${entryLine(at(-300), { traceId: "t-far" })}\n`;
    const far = join(dir, "2020-01-01.jsonl");
    appendFileSync(far, line.repeat(60_000) + line.replace("t-far", "t-end"));
    const tail = await open("/audit/tail?traceId=t-end", { "last-event-id": "2020-01-01:0" });
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    }, 0);
    await until("the last line", () => (tail.text.includes("t-end") ? true : undefined));
    clearInterval(timer);
    expect(turns).toBeGreaterThan(5);
    tail.stop();
    rmSync(far);
  });

  test("ends with its token", async () => {
    const tail = await open("/audit/tail");
    nowMs += 700_000;
    await until("the end", () => (tail.isOver ? true : undefined));
    nowMs = NOW_SECONDS * 1000;
  });
});
