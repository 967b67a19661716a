import { expect, test } from "bun:test";
import { type OpenedApprovals, openApprovals } from "../../src/approvals/approvals.ts";
import type { KeyUse } from "../../src/approvals/types.ts";
import type { Row, Sql } from "../../src/database/dialect.ts";
import { text } from "../../src/database/rows.ts";
import type { SharedState } from "../../src/database/shared-state.ts";
import { MODULES } from "../../src/modules.ts";
import { AGENT, approvedBy, askFor, claimOf, LIMITS, OPERATOR, questionOf } from "./approvals.ts";
import { openState } from "./shared-state.ts";

/** The service itself, and two tenants. */
export const TENANTS = [undefined, "acme", "globex-2"] as const;
type Tenant = string | undefined;

/** Opens the approvals of a tenant; ids are the same in every one. */
export function openTenant(url: string, tenant: Tenant): Promise<OpenedApprovals> {
  let ids = 0;
  const newId = (): string => {
    ids += 1;
    return `00000000-0000-7000-8000-${String(ids).padStart(12, "0")}`;
  };
  return openApprovals({
    stores: MODULES.approvalStores,
    url,
    tenant,
    now: Date.now,
    newId,
    newToken: () => `session_${newId()}`,
    journal: async () => {},
    limits: LIMITS,
  });
}

/** Runs a statement whose text is made at run time. */
export async function send(sql: Sql, statement: string, values: readonly unknown[] = []): Promise<readonly Row[]> {
  const parts = statement.split("?");
  // A template's `raw` is not enumerable.
  const template = Object.defineProperty(parts, "raw", { value: [...parts] }) as unknown as TemplateStringsArray;
  return [...(await sql(template, ...values))];
}

/** The open database of one of `TENANTS`. */
interface Opened {
  readonly tenant: Tenant;
  readonly approvals: OpenedApprovals;
  readonly state: SharedState;
}

interface TenantWorld {
  readonly url: string;
  /** Selects `table_name`, `column_name` and `data_type` of all tables that a transaction sees. */
  readonly columns: string;
}

/** `columns` of a tenant in PostgreSQL. */
export const POSTGRES_COLUMNS = `
  SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns
  WHERE table_schema = current_schema()`;

const USE: KeyUse = {
  issuer: AGENT.issuer,
  subject: AGENT.subject,
  tool: "deploy",
  keyHash: "k".repeat(64),
  argsHash: "a".repeat(64),
};
/** Values of columns that accept only some. */
const VALUES: Readonly<Record<string, string>> = {
  "approvals.state": "pending",
  "approval_keys.state": "running",
  "policy_halts.kind": "all",
  "policy_flow_labels.label": "private",
};

/** Values of columns that are not texts. */
const TYPES: Readonly<Record<string, unknown>> = {
  integer: 77,
  bigint: 77,
  blob: new Uint8Array([7]),
  bytea: new Uint8Array([7]),
};

/** Returns a row with a value in each column, by table. */
async function rowsOfAllTables(state: SharedState, columns: string) {
  const found = await state.read((sql) => send(sql, columns));
  const tables = new Map<string, Record<string, unknown>>();
  for (const column of found) {
    const [table, name] = [text(column, "table_name"), text(column, "column_name")];
    const value = TYPES[text(column, "data_type").toLowerCase()] ?? VALUES[`${table}.${name}`] ?? "same";
    tables.set(table, { ...tables.get(table), [name]: value });
  }
  return tables;
}

/** Tests that tenants of one database see nothing of each other. */
export function tenantTests(make: () => Promise<TenantWorld>): void {
  async function withTenants(work: (opened: readonly Opened[], world: TenantWorld) => Promise<void>): Promise<void> {
    const world = await make();
    const opened: Opened[] = [];
    try {
      for (const tenant of TENANTS) {
        const approvals = await openTenant(world.url, tenant);
        opened.push({ tenant, approvals, state: openState({ url: world.url, tenant, now: Date.now }) });
      }
      await work(opened, world);
    } finally {
      await Promise.all(opened.flatMap(({ approvals, state }) => [approvals.close(), state.close()]));
    }
  }

  const first = (opened: readonly Opened[]): Opened => {
    const [one] = opened;
    if (one === undefined) throw new Error("nothing was opened");
    return one;
  };

  test("in every table, the same row of each tenant is a row of its own", () =>
    withTenants(async (opened, { columns }) => {
      const tables = await rowsOfAllTables(first(opened).state, columns);
      expect(tables.size).toBeGreaterThan(20);
      for (const [table, row] of tables) {
        const names = Object.keys(row);
        const insert = `INSERT INTO ${table} (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`;
        const count = ({ state }: Opened) =>
          state.read(async (sql) => (await send(sql, `SELECT * FROM ${table}`)).length);
        const counts = () => Promise.all(opened.map(count));
        const before = await counts();
        const expected = [...before];
        for (const [index, { state }] of opened.entries()) {
          await state.write((sql) => send(sql, insert, Object.values(row)));
          expected[index] = (expected[index] ?? 0) + 1;
          expect({ table, counts: await counts() }).toEqual({ table, counts: expected });
        }
        for (const [index, { state }] of opened.entries()) {
          await state.write((sql) => send(sql, `DELETE FROM ${table}`));
          expected[index] = 0;
          expect({ table, counts: await counts() }).toEqual({ table, counts: expected });
        }
      }
    }));

  test("approvals, grants, sessions, keys and events with the same ids are of one tenant each", () =>
    withTenants(async (opened) => {
      const asked = await Promise.all(opened.map(({ approvals }) => askFor(approvals)));
      expect(new Set(asked.map(({ id }) => id)).size).toBe(1);
      const id = asked[0]?.id ?? "";
      const [service, acme, globex] = opened.map(({ approvals }) => approvals);
      if (service === undefined || acme === undefined || globex === undefined) throw new Error("three tenants");

      await acme.decide({ id, by: OPERATOR, decision: "approve", scope: "session" });
      const states = async () => Promise.all(opened.map(async ({ approvals }) => (await approvals.get(id))?.state));
      expect(await states()).toEqual(["pending", "approved", "pending"]);
      const key = questionOf().grantKey ?? "";
      const grants = await Promise.all(opened.map(({ approvals }) => approvals.findGrant(AGENT, key)));
      expect(grants.map((grant) => grant !== undefined)).toEqual([false, true, false]);
      const claims = await Promise.all(
        opened.map(({ approvals }, index) => approvals.claim(claimOf(asked[index] ?? ({} as never)))),
      );
      expect(claims.map(({ outcome }) => outcome === "claimed")).toEqual([false, true, false]);

      const { id: session } = await globex.openSession(AGENT);
      const found = await Promise.all(opened.map(({ approvals }) => approvals.findSession(session, AGENT)));
      expect(found.map((each) => each?.id)).toEqual([undefined, undefined, session]);

      expect((await service.beginKey(USE)).outcome).toBe("begin");
      expect((await acme.beginKey(USE)).outcome).toBe("begin");
      expect((await service.beginKey(USE)).outcome).toBe("running");
      expect((await globex.beginKey(USE)).outcome).toBe("begin");

      const events = await Promise.all(opened.map(({ approvals }) => approvals.eventsAfter(0, 100)));
      expect(events.map((list) => list[0]?.seq)).toEqual([1, 1, 1]);
      expect(events.map((list) => list.length)).toEqual([1, expect.any(Number), 1]);
      expect(events[1]?.length).toBeGreaterThan(1);
    }));

  test("a tenant that closes its database leaves those of the others open", () =>
    withTenants(async (opened) => {
      const [service, acme, globex] = opened;
      await acme?.approvals.close();
      await acme?.state.close();
      for (const { approvals, state } of [service, globex].flatMap((each) => each ?? [])) {
        expect((await approvedBy(approvals)).state).toBe("approved");
        expect(await state.write(async () => "written")).toBe("written");
      }
      await expect(acme?.approvals.list({ limit: 1 } as never)).rejects.toThrow("closed");
    }));
}
