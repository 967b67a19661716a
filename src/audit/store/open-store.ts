import { AuditStore } from "./audit-store.ts";
import { type StoreScope, scoped } from "./scope.ts";
import type { StoreDatabase } from "./sql-text.ts";
import { AuditStoreError } from "./store-error.ts";
import type { StoreWriter, WriterOptions } from "./writer.ts";

interface StoreOptions {
  /** Limit for one statement, in milliseconds. */
  readonly statementMs: number;
}

interface ReadOptions extends StoreOptions {
  /** The logs whose lines are read. */
  readonly scope: StoreScope;
}

interface StoreKind {
  readonly scheme: RegExp;
  readonly open: (url: string, options: StoreOptions) => Promise<StoreDatabase>;
  readonly openWriter: (url: string, options: WriterOptions) => Promise<StoreWriter>;
}

/** The databases that can answer. The code of one is loaded when it is opened. */
const KINDS: readonly StoreKind[] = [
  {
    scheme: /^postgres(?:ql)?:\/\//,
    async open(url, options) {
      const { openPostgresStore } = await import("./postgres.ts");
      return openPostgresStore(url, options);
    },
    async openWriter(url, options) {
      const { openPostgresWriter } = await import("./postgres.ts");
      return openPostgresWriter(url, options);
    },
  },
  {
    scheme: /^clickhouse:\/\//,
    async open(url, options) {
      const { openClickHouseStore } = await import("./clickhouse.ts");
      return openClickHouseStore(url, options);
    },
    async openWriter(url, options) {
      const { openClickHouseWriter } = await import("./clickhouse.ts");
      return openClickHouseWriter(url, options);
    },
  },
];

export const STORE_FORMS = "a postgres:// or clickhouse:// URL";

/** Returns whether the text has the form of a store's URL. */
export function isStoreUrl(text: string): boolean {
  return KINDS.some(({ scheme }) => scheme.test(text));
}

/**
 * Opens a store for reading, without contacting it.
 *
 * @throws {AuditStoreError} when the URL is not valid
 */
export async function openAuditStore(url: string, { scope, ...options }: ReadOptions): Promise<AuditStore> {
  const database = scoped(await opened(url, (kind) => kind.open(url, options)), scope);
  return new AuditStore({ ...database, read: (statement) => database.read(statement).catch(asStoreError) });
}

/**
 * Opens a store for writing, without contacting it.
 *
 * @throws {AuditStoreError} when the URL is not valid
 */
export function openStoreWriter(url: string, options: WriterOptions): Promise<StoreWriter> {
  return opened(url, (kind) => kind.openWriter(url, options));
}

async function opened<T>(url: string, open: (kind: StoreKind) => Promise<T>): Promise<T> {
  const kind = KINDS.find(({ scheme }) => scheme.test(url));
  if (kind === undefined) throw new AuditStoreError(`the URL of the audit store must be ${STORE_FORMS}`);
  try {
    return await open(kind);
  } catch (error) {
    throw error instanceof Error ? new AuditStoreError(error.message) : error;
  }
}

function asStoreError(error: unknown): never {
  if (error instanceof AuditStoreError) throw error;
  throw new AuditStoreError(
    `the audit store does not answer: ${error instanceof Error ? error.message : "no reason"}`,
    {
      cause: error,
    },
  );
}
