import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { REFUSALS } from "../../src/core/refusals.ts";
import { CasePlayer } from "../support/case-player.ts";
import { isRefusal, type Row, row, rows } from "../support/case-row.ts";
import { hasGit } from "../support/git-tests.ts";

/** Every `*.yaml` beside this file holds rows; each is played against a running service, or the library. */
const files = readdirSync(import.meta.dir)
  .filter((name) => name.endsWith(".yaml"))
  .sort()
  .map((name) => ({
    name,
    rows: rows.parse(parse(readFileSync(join(import.meta.dir, name), "utf8"), { merge: true })),
  }));

const all: readonly Row[] = files.flatMap((file) => file.rows);

let player: CasePlayer;

beforeAll(async () => {
  player = await CasePlayer.open();
});

afterAll(() => player?.close());

for (const file of files) {
  describe(file.name, () => {
    const playable = file.rows.filter((played) => hasGit || !JSON.stringify(played.given).includes("git_"));
    test.each(playable.map((played) => [`${played.id} ${played.title}`, played] as const))("%s", async (_, played) => {
      await player.play(played);
    });
  });
}

describe("the rows", () => {
  test("have unique numbers", () => {
    const ids = all.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  /** Their texts contain a time, or they need an operator or a database that is away: code, text and entry are tested there. */
  const ELSEWHERE: readonly string[] = [
    "HALTED", // tests/http/halts.test.ts
    "POLICY_STATE_UNAVAILABLE", // tests/database/shared-state.test.ts
    "QUOTA_EXCEEDED", // tests/quotas/service.test.ts
  ];

  test("show every refusal code that does not depend on what operators did or when", () => {
    const shown = new Set(all.flatMap(({ want, given }) => [isRefusal(want) ? want.code : given.until]));
    const silent = all.filter(({ want }) => want === "no answer").length > 0 ? ["CANCELLED"] : [];
    const codes = new Set([...shown, ...silent, ...ELSEWHERE].filter((code) => code !== undefined));
    expect([...codes].sort()).toEqual(Object.keys(REFUSALS).sort());
  });

  test("with a misspelt field do not load", () => {
    const good = { id: 100, title: "a good row", given: { tool: "x" }, want: "no answer", audited: "nothing" };
    expect(row.safeParse(good).success).toBe(true);
    expect(row.safeParse({ ...good, wants: "" }).success).toBe(false);
    expect(row.safeParse({ ...good, given: { tol: "x" } }).success).toBe(false);
    expect(row.safeParse({ ...good, want: { http: 200, staus: "success" } }).success).toBe(false);
    expect(row.safeParse({ ...good, audited: { decision: "ALOWED", caller: { sub: "x" } } }).success).toBe(false);
  });
});
