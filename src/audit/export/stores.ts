import { readFileSync, statSync } from "node:fs";
import { z } from "zod";
import { errorText } from "../../core/error-text.ts";
import { unlessAborted } from "../../core/time-limits.ts";
import { parsePostgresUrl } from "../../database/postgres-url.ts";
import { parseClickHouseUrl } from "../store/clickhouse-url.ts";
import type { StoreWriter, WriterOptions } from "../store/writer.ts";
import type { AuditExporter, Receiver, ReceiverOutcome } from "./receiver.ts";

/** Databases that hold the lines of a fleet, and that `stc audit query --from-store` and `audit.storeUrlFile` ask. */

const RETENTION_DAYS_MAX = 36_500;
const URL_FILE_BYTES_MAX = 8_192;

const storeSettings = z.strictObject({
  urlFile: z
    .string()
    .min(1)
    .describe(
      "For `postgres` and `clickhouse`: file with the URL of the database (`postgres://…`, `clickhouse://…`), which contains its user's password.",
    ),
  retentionDays: z
    .int()
    .min(1)
    .max(RETENTION_DAYS_MAX)
    .optional()
    .describe("The exporter deletes days from the database that ended more than this many days ago. Left out: never."),
});

interface StoreKind<Type extends string> {
  readonly type: Type;
  /** @throws {Error} that says what is wrong with the URL */
  readonly check: (url: string) => void;
  readonly open: (url: string, options: WriterOptions) => Promise<StoreWriter>;
}

function store<Type extends string>({
  type,
  check,
  open,
}: StoreKind<Type>): AuditExporter<Type, typeof storeSettings, Receiver> {
  return {
    type,
    settings: storeSettings,
    open({ urlFile, retentionDays }, { path, problem, tenant }) {
      try {
        const url = readUrlFile(path(urlFile));
        check(url);
        return receiverOf(() => open(url, { retentionDays, tenant }));
      } catch (error) {
        problem("urlFile", `${urlFile}: ${error instanceof Error ? error.message : "cannot be read"}`);
        return undefined;
      }
    },
  };
}

/** @throws {Error} */
function readUrlFile(path: string): string {
  let url: string;
  try {
    const facts = statSync(path);
    // Reading a pipe would block the whole process.
    url = facts.isFile() && facts.size <= URL_FILE_BYTES_MAX ? readFileSync(path, "utf8").trim() : "";
  } catch {
    throw new Error("cannot be read");
  }
  return url;
}

const ABORTED: ReceiverOutcome = { kind: "later", reason: "aborted", retryAfterMs: undefined };

/** Opens the writer, and loads its code, when there is something to send. */
function receiverOf(open: () => Promise<StoreWriter>): Receiver {
  let opened: Promise<StoreWriter> | undefined;
  let writer: StoreWriter | undefined;
  const write = async (
    work: (writer: StoreWriter) => Promise<ReceiverOutcome>,
    signal: AbortSignal,
  ): Promise<ReceiverOutcome> => {
    opened ??= open().catch((error: unknown) => {
      // A file that the URL names may be there again later.
      opened = undefined;
      throw error;
    });
    try {
      writer = await opened;
    } catch (error) {
      return { kind: "later", reason: errorText(error), retryAfterMs: undefined };
    }
    // The lines may have been stored all the same: they are then sent again, and stored once.
    return unlessAborted(work(writer), signal, () => new Error("aborted")).catch(() => ABORTED);
  };
  return {
    deliver: (lines, signal) => write((writer) => writer.write(lines), signal),
    settled: (settled, signal) => write((writer) => writer.settle(settled), signal),
    upkeep: () => writer?.upkeep?.(),
    async close() {
      await (await opened)?.close();
      opened = undefined;
    },
  };
}

/** PostgreSQL: a partition for each day. */
export const postgresExporter = store({
  type: "postgres",
  check: (url) => parsePostgresUrl(url, "audit store"),
  async open(url, options) {
    const { openPostgresWriter } = await import("../store/postgres.ts");
    return openPostgresWriter(url, options);
  },
});

/** ClickHouse, over HTTP: a partition for each day. */
export const clickHouseExporter = store({
  type: "clickhouse",
  check: parseClickHouseUrl,
  async open(url, options) {
    const { openClickHouseWriter } = await import("../store/clickhouse.ts");
    return openClickHouseWriter(url, options);
  },
});
