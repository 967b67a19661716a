import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { OPERATED_ADDRESSES } from "../../egress/addresses.ts";
import { EgressClient } from "../../egress/client.ts";
import { type EgressAnswer, egressReason } from "../../egress/request.ts";
import type { ClickHouseAddress } from "./clickhouse-url.ts";
import type { SqlText, SqlValue, StoreAnswer } from "./sql-text.ts";

const SERVER = "the audit store's ClickHouse";

/** Settings by name, for one request. */
export type ClickHouseSettings = Readonly<Record<string, string | number>>;

interface ClientOptions {
  readonly connectionsMax: number;
  /** Limit for one request, in milliseconds. */
  readonly timeoutMs: number;
  /** Settings of each request. */
  readonly settings: ClickHouseSettings;
}

/** An answer has at most a page of lines, twice: as the line and in columns, with escaped quotation marks. */
const ANSWER_BYTES_MAX = 268_435_456;
const ROWS_TYPE = "application/x-ndjson";
/** A seventh of the bytes for a third of the time that it takes to write the rows. */
const GZIP = { level: 1 } as const;
const compressed = promisify(gzip);

/** Meanings of the server's errors that operators can correct, by number. */
const MEANINGS: ReadonlyMap<number, string> = new Map([
  [60, "unknown table"],
  [81, "unknown database"],
  [115, "unknown setting: version 25.8 or later is needed"],
  [159, "time limit"],
  [164, "the user may not change settings"],
  [192, "unknown user"],
  [193, "wrong password"],
  [194, "password needed"],
  [202, "too many queries at once"],
  [241, "memory limit"],
  [252, "too many parts"],
  [497, "privileges are missing"],
  [516, "wrong user or password"],
]);

/** A request that failed. The message holds neither text of the server, which may quote rows, nor the URL. */
export class ClickHouseError extends Error {
  override readonly name = "ClickHouseError";
  /** Number of the server's error; undefined when the server gave none. */
  readonly code: number | undefined;

  constructor(problem: string, code?: number) {
    super(`${SERVER} ${problem}`);
    this.code = code;
  }
}

/** Sends statements to the HTTP interface of a ClickHouse server. */
export class ClickHouseClient {
  readonly #address: ClickHouseAddress;
  readonly #options: ClientOptions;
  readonly #client: EgressClient;

  constructor(address: ClickHouseAddress, options: ClientOptions) {
    this.#address = address;
    this.#options = options;
    const { connectionsMax } = options;
    this.#client = new EgressClient({ addresses: OPERATED_ADDRESSES, tls: address.tls, connectionsMax });
  }

  close(): void {
    this.#client.close();
  }

  /** Returns the rows that a statement answers. @throws {ClickHouseError} */
  async read(statement: SqlText): Promise<readonly StoreAnswer[]> {
    const { contentType, body } = formOf(statement);
    const { body: answer } = await this.#send({ default_format: "JSON" }, { "content-type": contentType }, body);
    // An error that comes after the first rows would follow them as text.
    const rows = rowsIn(answer);
    if (rows === undefined) throw new ClickHouseError("gave an answer that cannot be read");
    return rows;
  }

  /** Runs a statement that answers nothing. @throws {ClickHouseError} */
  async run(statement: SqlText): Promise<void> {
    const { contentType, body } = formOf(statement);
    await this.#send({}, { "content-type": contentType }, body);
  }

  /** Inserts rows into a table. @throws {ClickHouseError} */
  async insert(table: string, columns: readonly string[], rows: readonly StoreAnswer[]): Promise<void> {
    const body = await compressed(rows.map((row) => `${JSON.stringify(row)}\n`).join(""), GZIP);
    const query = `INSERT INTO ${table} (${columns.join(", ")}) FORMAT JSONEachRow`;
    await this.#send({ query }, { "content-type": ROWS_TYPE, "content-encoding": "gzip" }, body);
  }

  async #send(
    parameters: ClickHouseSettings,
    headers: Readonly<Record<string, string>>,
    body: Uint8Array | string,
  ): Promise<EgressAnswer> {
    const { url: base, database, username, password } = this.#address;
    const url = new URL(base);
    const settings = { database, wait_end_of_query: 1, ...this.#options.settings, ...parameters };
    for (const [name, value] of Object.entries(settings)) url.searchParams.set(name, String(value));
    const credentials = { "x-clickhouse-user": asBytes(username), "x-clickhouse-key": asBytes(password) };
    let answer: EgressAnswer;
    try {
      answer = await this.#client.send({
        method: "POST",
        url,
        headers: { ...headers, ...credentials },
        body,
        timeoutMs: this.#options.timeoutMs,
        bodyBytesMax: ANSWER_BYTES_MAX,
        isRepeatable: false,
      });
    } catch (error) {
      throw new ClickHouseError(`cannot be reached: ${egressReason(error)}`);
    }
    const problem = problemOf(answer);
    if (problem !== undefined) throw problem;
    return answer;
  }
}

/** An error's number is in a header: whether the status has been sent before it depends on the server. */
function problemOf({ status, headers }: EgressAnswer): ClickHouseError | undefined {
  const written = headers["x-clickhouse-exception-code"];
  if (status >= 200 && status < 300 && written === undefined) return undefined;
  if (typeof written !== "string" || !/^\d{1,9}$/.test(written)) return new ClickHouseError(`answers status ${status}`);
  const code = Number(written);
  const meaning = MEANINGS.get(code);
  return new ClickHouseError(`answers error ${code}${meaning === undefined ? "" : ` (${meaning})`}`, code);
}

function rowsIn(answer: Buffer): readonly StoreAnswer[] | undefined {
  try {
    const { data } = JSON.parse(answer.toString("utf8")) as { readonly data?: unknown };
    return Array.isArray(data) ? data : undefined;
  } catch {
    return undefined;
  }
}

/** Returns a text as the bytes of its UTF-8, one character each, as headers are written. */
function asBytes(text: string): string {
  return Buffer.from(text).toString("latin1");
}

/**
 * Returns a statement with its values as a form. The values are in the body because URLs are logged on the way, and because proxies
 * limit their length.
 */
function formOf({ parts, values }: SqlText): { readonly contentType: string; readonly body: string } {
  const query = parts.reduce((text, part, at) => `${text}{v${at - 1}:${typeOf(values[at - 1])}}${part}`);
  const fields = [["query", query], ...values.map((value, at) => [`param_v${at}`, parameterOf(value)])];
  const content = fields.map(([name, text]) => `content-disposition: form-data; name="${name}"\r\n\r\n${text}\r\n`);
  const boundary = boundaryFor(content);
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    body: `${content.map((field) => `--${boundary}\r\n${field}`).join("")}--${boundary}--\r\n`,
  };
}

/** Returns a text that occurs in none of the fields. */
function boundaryFor(fields: readonly string[]): string {
  let boundary = "stc";
  while (fields.some((field) => field.includes(boundary))) boundary += fields.length;
  return boundary;
}

function typeOf(value: SqlValue | undefined): string {
  return typeof value === "number" ? "Int64" : "String";
}

const ESCAPES: Readonly<Record<string, string>> = {
  "\\": "\\\\",
  "\t": "\\t",
  "\n": "\\n",
  "\r": "\\r",
  "\0": "\\0",
};

/** Returns a value as the server reads parameters: like a cell of the format TabSeparated. */
export function parameterOf(value: SqlValue): string {
  return String(value).replace(/[\\\t\n\r\0]/g, (character) => ESCAPES[character] ?? character);
}
