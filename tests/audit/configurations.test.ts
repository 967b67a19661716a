import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ConfigurationHistory } from "../../src/audit/configurations.ts";

const DAY_MS = 86_400_000;

let dir: string;
let nowMs: number;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "stc-configurations-"));
  nowMs = Date.UTC(2026, 0, 1);
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const open = (keepMs?: number) => new ConfigurationHistory({ dir, clock: () => nowMs, keepMs });

async function adopt(
  history: ConfigurationHistory,
  policyVersion: string,
  text = `${policyVersion}\n`,
): Promise<string> {
  const shownSha256 = await history.keep(text);
  await history.adopt({ policyVersion, shownSha256, by: "start", changes: [], moreChanges: 0 });
  return shownSha256;
}

const named = (history: ConfigurationHistory) => history.versions().map(({ policyVersion }) => policyVersion);
const texts = () => readdirSync(join(dir, "configurations")).filter((name) => name !== "versions.json");

describe("the history of configurations", () => {
  test("lasts, newest first, and a version that stays in use is one", async () => {
    const history = open();
    await adopt(history, "a");
    await adopt(history, "a");
    await adopt(history, "b");
    expect(named(open())).toEqual(["b", "a"]);
    await adopt(open(), "b");
    expect(named(open())).toEqual(["b", "a"]);
  });

  test("stores a text once, and returns no text that was changed", async () => {
    const history = open();
    const first = await adopt(history, "a", "same");
    expect(await adopt(history, "b", "same")).toBe(first);
    expect(texts()).toEqual([`${first}.json`]);
    expect(history.textOf(first)).toBe("same");
    writeFileSync(join(dir, "configurations", `${first}.json`), "other");
    expect(history.textOf(first)).toBeUndefined();
  });

  test("forgets what was replaced longer ago than the audit is kept, and its text", async () => {
    const history = open(10 * DAY_MS);
    await adopt(history, "a");
    nowMs += 5 * DAY_MS;
    await adopt(history, "b");
    nowMs += 10 * DAY_MS;
    await adopt(history, "c");
    expect(named(history)).toEqual(["c", "b", "a"]);
    nowMs += 1;
    const kept = await adopt(history, "d");
    expect([named(history), texts().length, texts().includes(`${kept}.json`)]).toEqual([["d", "c", "b"], 3, true]);
  });

  test("keeps 200 versions, and no text of more than 1 MiB", async () => {
    const history = open();
    for (let at = 0; at < 205; at += 1) await adopt(history, `v${at}`, "same");
    expect([history.versions().length, named(history).at(-1)]).toEqual([200, "v5"]);
    expect(history.textOf(await history.keep("x".repeat(1_048_577)))).toBeUndefined();
  });

  test.each(["", "{", "[]", '{"format":2,"versions":[]}', '{"format":1,"versions":[{"policyVersion":"../x"},7]}'])(
    "begins anew with a list that cannot be read: %j",
    async (list) => {
      await adopt(open(), "a");
      writeFileSync(join(dir, "configurations", "versions.json"), list);
      const history = open();
      expect(named(history)).toEqual([]);
      await adopt(history, "b");
      expect(named(open())).toEqual(["b"]);
    },
  );
});
