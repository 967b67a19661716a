import { DuckDBInstance } from "@duckdb/node-api";

/** The counts and percentiles of `stc audit stats`, by DuckDB, on the file that is named. Prints the number of calls. */
const COLUMNS = `{
  decision: 'VARCHAR', denial: 'STRUCT(stage VARCHAR)', error: 'STRUCT(code VARCHAR)', tool: 'STRUCT(name VARCHAR)',
  caller: 'STRUCT(sub VARCHAR, iss VARCHAR)', duration: 'DOUBLE', count: 'BIGINT'
}`;
const GROUPS = ["decision", "stage", "code", "tool", "sub, iss", "code, stage, tool"];

const [file = ""] = process.argv.slice(2);
const db = await DuckDBInstance.create(":memory:");
const connection = await db.connect();
await connection.run(`
  CREATE TEMP TABLE calls AS
  SELECT decision, denial.stage AS stage, error.code AS code, tool.name AS tool, caller.sub AS sub, caller.iss AS iss,
    duration, coalesce(count, 1) AS calls
  FROM read_json('${file}', format = 'newline_delimited', columns = ${COLUMNS})`);
for (const group of GROUPS) await connection.runAndReadAll(`SELECT ${group}, sum(calls) FROM calls GROUP BY ALL`);
await connection.runAndReadAll(`
  SELECT tool, quantile_disc(duration, [0.5, 0.95, 0.99]), count(*) FROM calls GROUP BY ROLLUP (tool)`);
const total = await connection.runAndReadAll("SELECT sum(calls) FROM calls");
console.log(String(total.getRows()[0]?.[0]));
