import { afterEach, describe, test } from "bun:test";
import { join } from "node:path";
import { expectRefusesContracted, expectUpgraded, expectWorksOnRaised } from "./expect-upgrade.ts";
import { copyStore, type StoredCopy, VERSIONS } from "./stored-copy.ts";

let copy: StoredCopy;
afterEach(() => copy.end());

describe.each(VERSIONS)("what version %s left in a SQLite file and an audit folder", (version) => {
  test("continues: approvals, sessions, keys, policies, and a signed audit that verifies", async () => {
    copy = copyStore(version, "sqlite");
    await expectUpgraded(copy, version);
  });
});

const raise = async (step: string): Promise<void> => {
  const sql = new Bun.SQL({ adapter: "sqlite", filename: join(copy.folder, "approvals.sqlite") });
  for (const statement of step.split(";\n")) await sql.unsafe(statement);
  await sql.close();
};

describe("a SQLite file that the next version has changed", () => {
  test("can be used by this version, while it is changed and after a restart, when columns and tables were added", async () => {
    copy = copyStore("before-0.2.0", "sqlite");
    await expectWorksOnRaised(copy, raise);
  });

  test("is refused by this version when the change needs code that knows it", async () => {
    copy = copyStore("before-0.2.0", "sqlite");
    await expectRefusesContracted(copy, raise);
  });
});
