import { afterEach, describe, test } from "bun:test";
import { expectUpgraded } from "./expect-upgrade.ts";
import { copyStore, type StoredCopy, VERSIONS } from "./stored-copy.ts";

let copy: StoredCopy;
afterEach(() => copy.end());

describe.each(VERSIONS)("what version %s left in a SQLite file and an audit folder", (version) => {
  test("continues: approvals, sessions, keys, policies, and a signed audit that verifies", async () => {
    copy = copyStore(version, "sqlite");
    await expectUpgraded(copy, version);
  });
});
