import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { entryLine, writeDays } from "../support/audit-lines.ts";
import { environmentOf, run, STC } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

/** One row adds a field to every list: filters with their help, the index, CSV, OCSF and the console's form. */

const [bun, ...rest] = STC;
const PRELOAD = `--preload=${join(import.meta.dir, "toy-audit-field.ts")}`;

async function stcWithShelf(folder: string, ...args: readonly string[]) {
  const { out, err } = await run([bun, PRELOAD, ...rest, "audit", ...args], {
    cwd: folder,
    env: environmentOf({ STC_AUDIT_DIR: folder }),
  });
  return out === "" ? err : out;
}

const traceIdOf = (line: string): string => JSON.parse(line).traceId;

const PARAMETERS = `
  const { QUERY_PARAMS } = await import("./src/audit/query/params.ts");
  const { packLines, unpackRows } = await import("./src/audit/query/line-rows.ts");
  const { CONSOLE_COLUMNS, FILTER_ROWS } = await import("./src/core/audit-fields.ts");
  const bytes = Buffer.from(process.env.LINE + "\\n");
  const rows = unpackRows(packLines({ day: "2026-02-16", bytes, base: 0, first: 0, last: bytes.length }).rows);
  const label = FILTER_ROWS.find(({ param }) => param === "shelf")?.label;
  const columns = CONSOLE_COLUMNS.map(({ title, textIn }) => [title, textIn(JSON.parse(process.env.LINE))]);
  console.log(JSON.stringify([QUERY_PARAMS.includes("shelf"), rows.values.shelf, label, columns.at(-1)]));`;

test("a row of the table is a filter, a column of the index and of CSV, a member of OCSF, an input of the console and a column of both tables", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stc-audit-field-"));
  try {
    const shelved = { shelf: "upper" };
    const line = entryLine("2026-02-16T10:00:00.000Z");
    const withShelf = JSON.stringify({ ...JSON.parse(line), ...shelved });
    writeDays(folder, { "2026-02-16": [line, withShelf, line] });
    const [found, listed, missing, help, csv, ocsf, derived] = await Promise.all([
      stcWithShelf(folder, "query", "--shelf", "upper", "--json", "--without-index"),
      stcWithShelf(folder, "query", "--without-index"),
      stcWithShelf(folder, "query", "--shelf", "lower", "--without-index"),
      stcWithShelf(folder, "query", "--help"),
      stcWithShelf(folder, "export", "--format", "csv"),
      stcWithShelf(folder, "export", "--format", "ocsf", "--shelf", "upper"),
      run([bun, PRELOAD, "-e", PARAMETERS], { cwd: PROJECT, env: environmentOf({ LINE: withShelf }) }),
    ]);
    expect(found).toBe(`${withShelf}\n`);
    const cells = listed.split("\n").map((row) => row.split(/ {2,}/).at(-1));
    expect(cells).toEqual(["SHELF", traceIdOf(line), "upper", traceIdOf(line), ""]);
    expect(missing).toContain("no call matches");
    expect(help).toMatch(/--shelf <value> +shelf of the book/);
    expect(csv.split("\n")[0]).toEndWith(",shelf,log,seq");
    expect(csv.split("\n").map((row) => row.includes(',"upper",'))).toEqual([false, false, true, false, false]);
    expect(JSON.parse(ocsf).unmapped).toMatchObject(shelved);
    expect(JSON.parse(derived.out)).toEqual([true, ["upper"], "Shelf", ["Shelf", "upper"]]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
