import { Database } from "bun:sqlite";
import { describe } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { emptyFolder } from "../support/identity-service.ts";
import { replicaTests } from "./replica-tests.ts";

describe("sessions in a SQLite file that two processes of one machine share", () => {
  replicaTests(async () => {
    const folder = emptyFolder();
    const path = join(folder, "approvals.sqlite");
    const on = <T>(work: (database: Database) => T): T => {
      const database = new Database(path);
      database.run("PRAGMA busy_timeout = 5000");
      try {
        return work(database);
      } finally {
        database.close();
      }
    };
    return {
      url: `sqlite://${path}`,
      query: async (statement) =>
        on((database) => database.query<Readonly<Record<string, unknown>>, []>(statement).all()),
      end: async () => rmSync(folder, { recursive: true, force: true }),
    };
  });
});
