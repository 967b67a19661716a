import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SqliteConnection } from "../../src/database/sqlite-connection.ts";

let folder: string;
let connection: SqliteConnection;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "stc-sqlite-"));
  connection = new SqliteConnection(join(folder, "a.sqlite"), { create: true });
  await connection.begin("IMMEDIATE", async (_sql, script) =>
    script("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT, data BLOB); CREATE TABLE others (id INTEGER);"),
  );
});
afterEach(async () => {
  await connection.close();
  rmSync(folder, { recursive: true });
});

const texts = () =>
  connection.begin("DEFERRED", async (sql) => (await sql`SELECT text FROM notes ORDER BY id`).map(({ text }) => text));

test("values are bound, whatever they hold, and come back", async () => {
  const hostile = "'); DROP TABLE notes; --";
  const data = new Uint8Array([0, 1, 255]);
  await connection.begin("IMMEDIATE", async (sql) => {
    await sql`INSERT INTO notes (id, text, data) VALUES (${1}, ${hostile}, ${data})`;
    await sql`INSERT INTO notes (id, text, data) VALUES (${2n}, ${undefined}, ${null})`;
  });
  const rows = await connection.begin("DEFERRED", async (sql) => sql`SELECT * FROM notes ORDER BY id`);
  expect(rows).toEqual([
    { id: 1, text: hostile, data },
    { id: 2, text: null, data: null },
  ]);
  const odd = connection.begin("DEFERRED", async (sql) => sql`SELECT ${{ a: 1 }}`);
  await expect(odd).rejects.toThrow("a value of this type cannot be stored");
});

test("a statement in another one becomes a part of it, and runs only there", async () => {
  const rows = await connection.begin("IMMEDIATE", async (sql) => {
    const unused = sql`DELETE FROM notes`;
    await sql`INSERT INTO notes (id, text) VALUES (${1}, ${"a"}), (${2}, ${"b"}), (${3}, ${"c"})`;
    const where = (least: number) => sql`AND id >= ${least} ${sql`AND text <> ${"c"}`}`;
    const found = await sql`SELECT text FROM notes WHERE id < ${9} ${where(2)} ORDER BY id`;
    expect(unused).toBeDefined();
    return found;
  });
  expect(rows).toEqual([{ text: "b" }]);
});

test("a transaction that fails changes nothing, and the next one works", async () => {
  const failing = connection.begin("IMMEDIATE", async (sql) => {
    await sql`INSERT INTO notes (id, text) VALUES (1, 'a')`;
    await sql`INSERT INTO notes (id, text) VALUES (1, 'b')`;
  });
  await expect(failing).rejects.toMatchObject({ code: expect.stringContaining("SQLITE_CONSTRAINT") });
  const thrown = connection.begin("IMMEDIATE", async (sql) => {
    await sql`INSERT INTO notes (id, text) VALUES (2, 'c')`;
    throw new Error("on purpose");
  });
  await expect(thrown).rejects.toThrow("on purpose");
  await connection.begin("IMMEDIATE", async (sql) => sql`INSERT INTO notes (id, text) VALUES (3, 'd')`);
  expect(await texts()).toEqual(["d"]);
});

test("transactions take turns, also when one waits in between", async () => {
  const order: string[] = [];
  const add = (name: string) =>
    connection.begin("IMMEDIATE", async (sql) => {
      order.push(`${name} begins`);
      await Bun.sleep(0);
      await sql`INSERT INTO notes (text) VALUES (${name})`;
      order.push(`${name} ends`);
    });
  await Promise.all([add("one"), add("two")]);
  expect(order).toEqual(["one begins", "one ends", "two begins", "two ends"]);
});

test("a statement after the end of its transaction is refused", async () => {
  let late: (() => PromiseLike<unknown>) | undefined;
  await connection.begin("IMMEDIATE", async (sql) => {
    late = () => sql`INSERT INTO notes (text) VALUES ('late')`;
  });
  await expect(Promise.resolve(late?.())).rejects.toThrow("the transaction has ended");
  expect(await texts()).toEqual([]);
});

test("a lock of another connection is an error with its code, and nothing stays open", async () => {
  const other = new SqliteConnection(join(folder, "a.sqlite"), { create: false });
  await connection.pragma("busy_timeout = 0");
  await other.begin("IMMEDIATE", async () => {
    const locked = connection.begin("IMMEDIATE", async () => 1);
    await expect(locked).rejects.toMatchObject({ code: "SQLITE_BUSY" });
  });
  await other.close();
  expect(await connection.begin("IMMEDIATE", async () => 1)).toBe(1);
});

test("closing waits for the transactions that have begun", async () => {
  const own = new SqliteConnection(join(folder, "a.sqlite"), { create: false });
  const writing = own.begin("IMMEDIATE", async (sql) => {
    await Bun.sleep(0);
    await sql`INSERT INTO notes (text) VALUES ('kept')`;
  });
  await own.close();
  await writing;
  expect(await texts()).toEqual(["kept"]);
  await expect(own.begin("DEFERRED", async () => 1)).rejects.toThrow();
});
