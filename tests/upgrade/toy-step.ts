import { SQLITE_STEPS } from "../../src/database/schema.ts";

const tables = [...SQLITE_STEPS.join("").matchAll(/CREATE TABLE (\w+)/g)].map(([, table = ""]) => table);

/** What a next version could do to the tables of this one, for both databases: it adds, and takes nothing away. */
export const ADDITIVE_STEP = [
  "CREATE TABLE toy (id TEXT PRIMARY KEY)",
  ...tables.map((table) => `ALTER TABLE ${table} ADD COLUMN toy INTEGER NOT NULL DEFAULT 7`),
  "ALTER TABLE approvals ADD COLUMN toy_text TEXT",
  "CREATE INDEX toy_index ON approvals (toy, toy_text)",
  "UPDATE approval_schema SET version = version + 1",
].join(";\n");

/** As `ADDITIVE_STEP`, when code that does not know the step cannot use the tables any more. */
export const CONTRACTING_STEP = `${ADDITIVE_STEP};\nUPDATE approval_schema SET min_reader = version`;
