import { afterAll, afterEach, expect, test } from "bun:test";
import { StartupError } from "../../src/core/errors.ts";
import type { ApprovalStore } from "../../src/database/dialect.ts";
import { sqliteStore } from "../../src/database/sqlite.ts";
import { type BuildModules, MODULES } from "../../src/modules.ts";
import { readConfig } from "../support/build.ts";
import { ModuleWorld, withPoints } from "./module-world.ts";
import { spending } from "./toy-policy-point.ts";

const begun: string[] = [];

/** An approval store of a build: SQLite that counts its transactions. */
const counted: ApprovalStore = {
  name: "counted SQLite",
  setting: "store",
  accepts: /^counted:\/\/.+$/,
  form: "counted:// and a file",
  example: "counted:///absolute/path",
  async open(url, parts) {
    const dialect = await sqliteStore.open(url.replace("counted:", "sqlite:"), parts);
    return {
      ...dialect,
      begin(kind, work) {
        begun.push(kind);
        return dialect.begin(kind, work);
      },
    };
  },
  inspect: (url, parts) => sqliteStore.inspect(url.replace("counted:", "sqlite:"), parts),
  stateTransactions: (url, parts) => sqliteStore.stateTransactions(url.replace("counted:", "sqlite:"), parts),
};

const BUILD: BuildModules = { ...withPoints(spending), approvalStores: [...MODULES.approvalStores, counted] };
const world = new ModuleWorld();
afterEach(() => world.stop());
afterAll(() => world.end());

test("an approval store that one line of the build registers holds requests and decisions", async () => {
  await world.start(BUILD, { approvals: { store: "counted://./var/approvals" } });
  const asked = await world.call("pay", { amount: 900 });
  const { id } = asked.body.approval;
  expect((await world.decide(id, "approve")).http).toBe(200);
  expect((await world.call("pay", { amount: 900 }, { approval: { id } })).http).toBe(200);
  expect(begun).toContain("write");
});

test("the configuration's error names the stores of the build", () => {
  const read = (modules: BuildModules) => () =>
    readConfig(
      world.sections({ approvals: { store: "mysql://db" } }),
      { folder: "/x", environment: {}, origin: "c" },
      modules,
    );
  expect(read(BUILD)).toThrow(StartupError);
  expect(read(BUILD)).toThrow(
    "must be sqlite:// and a file, such as sqlite://./var/approvals.sqlite, or counted:// and a file",
  );
  expect(read(MODULES)).toThrow(
    "c: approvals.store: must be sqlite:// and a file, such as sqlite://./var/approvals.sqlite (the URL of a PostgreSQL belongs in a file of its own: storeUrlFile)",
  );
});

test("a build does not accept the store of another build", () => {
  const read = () =>
    readConfig(world.sections({ approvals: { store: "counted://./x" } }), {
      folder: "/x",
      environment: {},
      origin: "c",
    });
  expect(read).toThrow("approvals.store: must be sqlite://");
});
