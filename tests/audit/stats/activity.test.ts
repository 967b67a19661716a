import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { activityRange, readActivity } from "../../../src/audit/stats/activity.ts";
import { entryLine, refusedLine, writeDays } from "../../support/audit-lines.ts";

const NOW = Date.parse("2026-02-17T00:30:00.000Z");
const dir = mkdtempSync(join(tmpdir(), "stc-activity-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const other = { sub: "agent-8", iss: "https://idp.test", permissions: [] };
const anonymous = { caller: { sub: "anonymous", permissions: [] } };
const tool = { name: "send_mail", classification: "write", targetSystem: "mail" } as const;
writeDays(dir, {
  "2026-02-15": [entryLine("2026-02-15T10:00:00.000Z")],
  "2026-02-16": [
    entryLine("2026-02-16T00:29:00.000Z"),
    entryLine("2026-02-16T01:00:00.000Z"),
    refusedLine("2026-02-16T10:00:00.000Z", ["PERMISSION_DENIED", "PERMISSION"], { caller: other, tool }),
    refusedLine("2026-02-16T12:00:00.000Z", ["UNAUTHENTICATED", "AUTH"], { ...anonymous, count: 89 }),
    entryLine("2026-02-16T23:45:00.000Z"),
  ],
  "2026-02-17": [
    refusedLine("2026-02-17T00:10:00.000Z", ["PERMISSION_DENIED", "PERMISSION"], { caller: other, tool }),
    entryLine("2026-02-17T00:20:00.000Z", { caller: other }),
  ],
});

const asked = (exact = {}) => activityRange({ exact }, NOW);

test("the calls of a day and of its last hour are counted by caller, tool and refusal code", async () => {
  expect(await readActivity(asked(), { logs: [{ dir }] })).toEqual({
    dayFrom: "2026-02-16T00:30:00.000Z",
    hourFrom: "2026-02-16T23:30:00.000Z",
    isPartial: false,
    all: { lastAt: "2026-02-17T00:20:00.000Z", day: { ALLOWED: 3, DENIED: 91 }, hour: { ALLOWED: 2, DENIED: 1 } },
    callers: [
      { sub: "anonymous", lastAt: "2026-02-16T12:00:00.000Z", day: { DENIED: 89 }, hour: {} },
      {
        ...{ sub: "agent-8", iss: "https://idp.test", lastAt: "2026-02-17T00:20:00.000Z" },
        ...{ day: { ALLOWED: 1, DENIED: 2 }, hour: { ALLOWED: 1, DENIED: 1 } },
      },
      {
        ...{ sub: "agent-7", iss: "https://idp.test", lastAt: "2026-02-16T23:45:00.000Z" },
        ...{ day: { ALLOWED: 2 }, hour: { ALLOWED: 1 } },
      },
    ],
    tools: [
      {
        ...{ tool: "get_customer", lastAt: "2026-02-17T00:20:00.000Z" },
        ...{ day: { ALLOWED: 3, DENIED: 89 }, hour: { ALLOWED: 2 } },
      },
      { tool: "send_mail", lastAt: "2026-02-17T00:10:00.000Z", day: { DENIED: 2 }, hour: { DENIED: 1 } },
    ],
    codes: [
      { code: "UNAUTHENTICATED", lastAt: "2026-02-16T12:00:00.000Z", day: { DENIED: 89 }, hour: {} },
      { code: "PERMISSION_DENIED", lastAt: "2026-02-17T00:10:00.000Z", day: { DENIED: 2 }, hour: { DENIED: 1 } },
    ],
  });
});

test("filters restrict what is counted", async () => {
  const { all, callers, tools } = await readActivity(asked({ sub: "agent-8", iss: "https://idp.test" }), {
    logs: [{ dir }],
  });
  expect(all.day).toEqual({ ALLOWED: 1, DENIED: 2 });
  expect([callers.length, tools.map((row) => row.tool)]).toEqual([1, ["send_mail", "get_customer"]]);
  const none = await readActivity(asked({ sub: "nobody" }), { logs: [{ dir }] });
  expect(none).toMatchObject({ all: { lastAt: null, day: {}, hour: {} }, callers: [], tools: [], codes: [] });
});

test("an answer that ends early has the newest calls, and says that the oldest are missing", async () => {
  const found = await readActivity(asked(), { logs: [{ dir }], mayGoOn: () => false });
  expect([found.isPartial, found.all.day]).toEqual([true, { ALLOWED: 1, DENIED: 1 }]);
});

test("callers with the same subject at two issuers are two rows", async () => {
  const folder = join(dir, "two");
  writeDays(folder, {
    "2026-02-17": ["https://a.test", "https://b.test"].map((iss, at) =>
      entryLine(`2026-02-17T00:0${at}:00.000Z`, { caller: { sub: "bot", iss, permissions: [] } }),
    ),
  });
  const { callers } = await readActivity(asked(), { logs: [{ dir: folder }] });
  expect(callers.map(({ sub, iss }) => [sub, iss])).toEqual([
    ["bot", "https://a.test"],
    ["bot", "https://b.test"],
  ]);
});

test("at most a thousand callers are listed, those with the most calls", async () => {
  const folder = join(dir, "many");
  const lines = Array.from({ length: 1_200 }, (_, at) => {
    const caller = { sub: `agent-${at}`, iss: "https://idp.test", permissions: [] };
    const line = entryLine(`2026-02-17T00:00:${String(Math.floor(at / 20)).padStart(2, "0")}.000Z`, { caller });
    return at === 1_199 ? [line, line] : [line];
  });
  writeDays(folder, { "2026-02-17": lines.flat() });
  const { all, callers } = await readActivity(asked(), { logs: [{ dir: folder }] });
  expect([all.day, callers.length, callers[0]?.sub]).toEqual([{ ALLOWED: 1_201 }, 1_000, "agent-1199"]);
});
