import { Database } from "bun:sqlite";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";

/** The number of the customer in the first calls for a new user. */
export const KNOWN_BUYER = "1";

const TABLES = `CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL REFERENCES customers, status TEXT NOT NULL, total TEXT NOT NULL, placed_at TEXT NOT NULL);
CREATE INDEX orders_of_customer ON orders (customer);
INSERT INTO customers (id, name) VALUES (1, 'John Smith'), (2, 'Amara Okafor'), (3, 'Lena Vogel');
UPDATE customers SET email = lower(replace(name, ' ', '.')) || char(64) || 'mail.example';
INSERT INTO orders VALUES
  (101, 1, 'sent', '24.90', '2026-10-02'), (102, 2, 'open', '310.00', '2026-10-19'),
  (103, 1, 'cancelled', '7.25', '2026-11-03'), (104, 3, 'sent', '99.00', '2026-11-08'),
  (105, 1, 'open', '149.50', '2026-11-27');`;

/** Creates the example database with customers and their orders, unless the file exists. */
export function developmentShop(file: string): void {
  if (existsSync(file)) return;
  mkdirSync(dirname(file), { recursive: true });
  const unfinished = `${file}.${process.pid}`;
  rmSync(unfinished, { force: true });
  const database = new Database(unfinished, { create: true });
  database.run(TABLES);
  database.close();
  renameSync(unfinished, file);
}
