import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { toCsv } from "../../src/audit/export/formats.ts";
import { readQuery } from "../../src/audit/query/params.ts";
import { search } from "../../src/audit/query/query.ts";
import { verifyLog } from "../../src/audit/verify/verify.ts";
import { keys, linesOf } from "../audit/support/chained-log.ts";
import { createWorld, draftOf, NOON, type World } from "../audit/support/open.ts";
import { runStc, SIGNATURES_NOT_CHECKED } from "../support/stc.ts";

const LINK = `","seq":0,"prev":"${"0".repeat(64)}","hash":"${"0".repeat(64)}"}`;

/** Texts that somebody else chose, as they may stand in any field. */
const TEXTS: Readonly<Record<string, string>> = {
  "terminal escapes": "\u001b[2J\u001b]0;owned\u0007\u009b31m\u001bP+q\u001b\\",
  "line ends of every kind": "a\nb\rc\r\nd\u0085e\u2028f\u2029g\u000bh\u000ci",
  "a forged line": `x"}\n{"timestamp":"2026-02-16T12:00:00.000Z","decision":"ALLOWED","traceId":"forged"}\n`,
  "a forged link": LINK,
  "a forged intent": `","intentSeq":0${LINK}`,
  "a forged type": '"type":"intent"',
  quotes: `"'\\"\\\\"\\u0022\\`,
  "nothing that is seen": "\u202e\u2066\u200b\u200f\ufeff\u00ad\u180e\u{e0041}\u{1d173}",
  "lone surrogates": "\ud800x\udfff",
  "no text": "\u0000\u0001\u001f\u007f\u0080",
  "a formula": '=HYPERLINK("http://evil.test","x")',
  "a formula behind blanks": "\t\r\n =1+1",
  "a prototype": "__proto__",
  "a constructor": "constructor.prototype.polluted",
  "a path": "../../../../etc/passwd\u0000.jsonl",
  "markup of other readers": "<script>alert(1)</script>$\u007bjndi:ldap://x}{{7*7}}",
  "a private use": "\ue000\u{10ffff}\ufffe",
  huge: `${"x".repeat(70_000)}\n${"é".repeat(70_000)}`,
};

const names = Object.keys(TEXTS);
let world: World;
let lines: readonly string[];

beforeAll(async () => {
  world = createWorld();
  const log = world.open({ checkpointKey: keys.privateKey });
  for (const [index, name] of names.entries()) {
    const text = TEXTS[name] ?? "";
    const traceId = `t-${index}`;
    await log.journal({ type: "intent", traceId, tool: text, sub: text, [text.slice(0, 100)]: text, reason: [text] });
    await log.append(
      draftOf(traceId, {
        caller: { sub: text, permissions: [text], iss: text, act: [text] },
        tool: { name: text, classification: "unknown", targetSystem: text },
        request: {
          ...{ args: { [text]: text, nested: { [text]: [text] } }, argsHash: "00", hashAlg: "sha256" },
          ...{ session: text, callId: text, reason: text, secrets: [text] },
        },
        decision: "DENIED",
        denial: { reason: text, stage: "REGISTRY", details: { [text]: text } },
        error: { code: "TOOL_NOT_FOUND" },
        response: { filteredFields: [text], outputHash: text, redactions: { [text]: 1 } },
      }),
    );
  }
  await world.stop();
  lines = linesOf(join(world.dir, "2026-02-16.jsonl"));
});
afterAll(() => world.end());

const at = (name: string): string => lines[names.indexOf(name)] ?? "";

describe("a line that contains it", () => {
  test("is one line, in the order of the calls, and the chain covers all of them", () => {
    expect(lines.map((line) => (JSON.parse(line) as { traceId: string }).traceId)).toEqual(
      names.map((_, index) => `t-${index}`),
    );
    expect(linesOf(join(world.dir, "journal/2026-02-16.jsonl"))).toHaveLength(names.length);
    const { streams, checkpoints } = verifyLog({ dir: world.dir, keys: [keys.publicKey] });
    expect([...streams, checkpoints].map(({ damage }) => damage)).toEqual([undefined, undefined, undefined]);
    expect({}).not.toHaveProperty("polluted");
  });

  test.each(names)("%s: contains no invisible characters, is not too long, and has one link", (name) => {
    for (const line of [at(name), linesOf(join(world.dir, "journal/2026-02-16.jsonl"))[names.indexOf(name)] ?? ""]) {
      expect(line).not.toMatch(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]|\p{DI}/u);
      expect(Buffer.byteLength(line)).toBeLessThanOrEqual(65_535);
      expect(line.match(/(?<!\\)","hash":"[0-9a-f]{64}"\}$/g)).toHaveLength(1);
    }
  });

  test.each(names.filter((name) => name !== "huge"))("%s: is read back unchanged", (name) => {
    const text = TEXTS[name] ?? "";
    const entry = JSON.parse(at(name)) as ReturnType<typeof draftOf>;
    expect([entry.caller.sub, entry.tool.name, entry.denial?.reason, entry.request.reason]).toEqual([
      text,
      text,
      text,
      text,
    ]);
    // An own member, whatever its name is: `__proto__` too.
    expect(Object.getOwnPropertyNames(entry.request.args)).toContain(text);
  });

  test("a start after it finds an outcome for every intent", async () => {
    const log = world.open({ checkpointKey: keys.privateKey });
    await world.stop();
    expect(log.health().status).toBe("failing");
    expect(linesOf(join(world.dir, "2026-02-16.jsonl"))).toHaveLength(names.length);
  });
});

describe("commands that show it", () => {
  const COMMANDS = [
    ["query"],
    ["query", "--json"],
    ["tail"],
    ["tail", "--json"],
    ["stats"],
    ["stats", "--json"],
    ["show", "t-0"],
    ["show", "t-0", "--json"],
    ["export", "--format", "csv"],
    ["export", "--format", "jsonl"],
    ["export", "--format", "ocsf"],
    ["verify"],
    ["prove", "t-0"],
  ];

  test.each(COMMANDS)("stc audit %s %s %s: the terminal gets visible characters only", async (...command) => {
    const { code, out, err } = await runStc([
      "audit",
      ...command.filter((part) => part !== undefined),
      "--dir",
      world.dir,
    ]);
    expect(code).toBe(command[0] === "verify" ? SIGNATURES_NOT_CHECKED : 0);
    for (const text of [out, err]) {
      expect(text).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202e\u2066\ufeff]/);
      expect(text.isWellFormed()).toBe(true);
    }
  });

  test("no spreadsheet cell begins a formula, ends its row, or leaves its column", () => {
    for (const line of lines) {
      const row = toCsv({ line });
      const cells = row.match(/(?:"(?:[^"]|"")*"|[^",]*)(?:,|$)/g) ?? [];
      expect(row).not.toMatch(/[\r\n\t]/);
      expect(cells.length).toBeGreaterThanOrEqual(20);
      for (const cell of cells) expect(cell).not.toMatch(/^"?\s*[=+\-@|%]/);
    }
  });

  test.each(names.filter((name) => (TEXTS[name] ?? "").length <= 512))("%s: is found by its value", async (name) => {
    const query = readQuery({ sub: TEXTS[name] }, { limit: 100, limitMax: 100, nowMs: NOON });
    if ("faults" in query) throw new Error(query.faults.join());
    const page = await search({ dir: world.dir, query: query.ok, pageBytesMax: 1e9 });
    expect(page.found.map(({ entry }) => entry.traceId)).toEqual([`t-${names.indexOf(name)}`]);
  });
});

describe("files with hostile names next to the log", () => {
  test("are neither read nor printed", async () => {
    for (const name of [
      "2026-02-17.jsonl\u001b[2J",
      "2026-02-17.jsonl.bak",
      "x2026-02-17.jsonl",
      "９９９９-01-01.jsonl",
    ]) {
      fs.writeFileSync(join(world.dir, name), '{"timestamp":"2026-02-17T00:00:00.000Z","traceId":"no"}\n');
    }
    const { code, out } = await runStc(["audit", "query", "--trace-id", "no", "--dir", world.dir]);
    expect([code, out]).toEqual([1, ""]);
    expect((await runStc(["audit", "verify", "--dir", world.dir])).code).toBe(SIGNATURES_NOT_CHECKED);
  });
});
