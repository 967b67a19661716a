import { describe } from "bun:test";
import { replicaTests } from "../console/replica-tests.ts";
import { findPostgres, startPostgres } from "../support/postgres.ts";

const native = findPostgres();

describe.skipIf(native === undefined)("sessions in a PostgreSQL that two replicas share", () => {
  replicaTests(async () => {
    const server = await startPostgres(native ?? "");
    return {
      url: await server.createDatabase("console"),
      query: (statement) => server.send(statement, "console"),
      end: () => server.end(),
    };
  });
});
