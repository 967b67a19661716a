import { REFUSALS } from "../../core/refusals.ts";
import { FIELD_COLUMNS, LINE_COLUMNS } from "./columns.ts";

/**
 * The lines of an archive as a view of DuckDB, which reads the parts where they are. It has the columns of the stores, except
 * `duration_code`, which is only quicker to count, and with three differences: a lone surrogate in a value is U+FFFD, a line from
 * before the chain has no `seq`, and a damaged line has only what the path of its part tells. Rejected: writing Parquet here,
 * which is a dependency of some megabytes for what DuckDB does in one statement.
 */

const LEFT_OUT = "duration_code";
/** Escapes of surrogates that are not a part of an escaped backslash. JSON's grammar has them, DuckDB refuses a lone one. */
const SURROGATE = String.raw`((?:^|[^\\])(?:\\\\)*)\\u[dD][89a-fA-F][0-9a-fA-F]{2}`;
const REPLACED = String.raw`\1\\ufffd`;
const LINK = String.raw`,"seq":(\d+),"prev":"[0-9a-f]{64}","hash":"([0-9a-f]{64})"\}$`;
/** The path of a part names its log and its day. */
const PART = String.raw`(/calls)?/([0-9a-f]{32})(?:/journal)?/(\d{4}-\d{2}-\d{2})/\d{12}\.jsonl\.gz$`;
const IS_CALL = "stream = 'calls'";

/** Columns that are not the text of a member. */
const COLUMNS: Readonly<Record<string, string>> = {
  log: "log",
  stream: "stream",
  seq: `try_cast(nullif(regexp_extract(line, ${quoted(LINK)}, 1), '') AS BIGINT)`,
  day: "coalesce(time::DATE, file_day::DATE)",
  hash: `coalesce(nullif(regexp_extract(line, ${quoted(LINK)}, 2), ''), sha256(line))`,
  time_ms: "epoch_ms(time)",
  line: "line",
  ids: `list_distinct(list_filter(CASE
    WHEN ${IS_CALL} THEN [${[["traceId"], ["trace", "traceId"], ["approval", "id"]].map(textAt)}]
    WHEN ${textAt(["type"])} = 'audit.queried' THEN []
    ELSE [${[["traceId"], ["approvalId"], ["approval", "id"]].map(textAt)},
      CASE WHEN starts_with(${textAt(["type"])}, 'approval.') THEN ${textAt(["id"])} END] END, lambda id: id IS NOT NULL))`,
  // Lines of earlier versions name the refusal's code when nobody approved.
  approved_by: `CASE WHEN ${textAt(["approval", "by"])} NOT IN (${Object.keys(REFUSALS).map(quoted)}) THEN ${textAt(["approval", "by"])} END`,
  decision_reasons: `nullif(array_to_string(list_transform(json_extract(entry, '$.decisionReasons[*]'), lambda one:
    ${reasonPart("point")} || chr(9) || ${reasonPart("reason")}), chr(10)), '')`,
  duration: `CASE WHEN ${numberAt("duration", "DOUBLE")} >= 0 THEN ${numberAt("duration", "DOUBLE")} END`,
  count: `CASE WHEN ${numberAt("count", "BIGINT")} > 0 THEN ${numberAt("count", "BIGINT")} ELSE 1 END`,
};

/** Returns the statement that makes the view `audit_lines`. `archive`: a directory, or an address that DuckDB can read. */
export function duckdbView(archive: string): string {
  const files = `${archive.replace(/\/+$/, "")}/**/*.jsonl.gz`;
  const paths = new Map(FIELD_COLUMNS.map(({ name, read }) => [name, read.path]));
  const columns = LINE_COLUMNS.filter(({ name }) => name !== LEFT_OUT).map(({ name }) => {
    const [own, path] = [COLUMNS[name], paths.get(name)];
    if (own === undefined && path === undefined) throw new Error(`no expression for the column ${name}`);
    return `  ${own ?? textAt(path ?? [])} AS ${name}`;
  });
  return `CREATE OR REPLACE VIEW audit_lines AS
WITH lines AS (
  SELECT line, regexp_extract(filename, ${quoted(PART)}, 2) AS log, regexp_extract(filename, ${quoted(PART)}, 3) AS file_day,
    CASE regexp_extract(filename, ${quoted(PART)}, 1) WHEN '' THEN 'journal' ELSE 'calls' END AS stream
  FROM read_csv(${quoted(files)}, columns = {'line': 'VARCHAR'}, delim = '', quote = '', escape = '', header = false,
    auto_detect = false, filename = true)
  WHERE line IS NOT NULL AND regexp_matches(filename, ${quoted(PART)})
), texts AS (
  SELECT *, CASE WHEN regexp_matches(line, '\\\\u[dD][89a-fA-F]')
    THEN regexp_replace(regexp_replace(line, ${quoted(SURROGATE)}, ${quoted(REPLACED)}, 'g'), ${quoted(SURROGATE)}, ${quoted(REPLACED)}, 'g')
    ELSE line END AS text
  FROM lines
), entries AS (
  SELECT line, log, stream, file_day, CASE WHEN json_valid(text) THEN text::JSON END AS entry FROM texts
), timed AS (
  SELECT *, try_cast(${textAt(["timestamp"])} AS TIMESTAMP) AS time FROM entries
)
SELECT
${columns.join(",\n")}
FROM timed;
`;
}

/** Returns the text at a path; NULL when something else is there. */
function textAt(path: readonly string[]): string {
  const at = quoted(`$.${path.join(".")}`);
  return `CASE WHEN json_type(entry, ${at}) = 'VARCHAR' THEN json_extract_string(entry, ${at}) END`;
}

function numberAt(member: string, type: "BIGINT" | "DOUBLE"): string {
  const value = `entry->'${member}'`;
  return `CASE WHEN json_type(${value}) IN ('BIGINT', 'UBIGINT', 'DOUBLE') THEN try_cast(${value} AS ${type}) END`;
}

function reasonPart(member: string): string {
  return `translate(coalesce(CASE WHEN json_type(one, '$.${member}') = 'VARCHAR' THEN json_extract_string(one, '$.${member}') END, ''), chr(9) || chr(10), '  ')`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
