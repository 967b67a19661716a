import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startService } from "../../src/cli/service.ts";
import type { Loose } from "../support/asking-service.ts";
import { readConfigFile } from "../support/build.ts";
import { runStc } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-tenants-"));
const ISSUER = { issuer: "https://one.test", jwksUri: "https://one.test/keys" };
const OF_TENANTS = {
  issuer: "https://two.test",
  jwksUri: "https://two.test/keys",
  tenants: { names: ["acme", "globex"] },
};

function configured(name: string, acme: object, sections: object = {}): string {
  const config = {
    tools: ["./tools"],
    audit: { dir: "./audit" },
    jwt: { issuers: [ISSUER, OF_TENANTS] },
    tenants: { acme: { tools: ["./tools"], ...acme }, globex: { tools: ["./tools"] } },
    ...sections,
  };
  const file = join(folder, name);
  writeFileSync(file, JSON.stringify(config));
  return file;
}

const SYSTEMS = { orders: { http: { baseUrl: "https://orders.acme.example" } } };
const UNDECIDED =
  "note: approvals: nobody can decide: there is no issuer in jwt.issuers with operators: true and acme in tenants.names (for the tenant acme)";

let good = "";
let broken = "";

beforeAll(() => {
  mkdirSync(join(folder, "tools"));
  good = configured("good.yaml", {});
  broken = configured("broken.yaml", { approvals: { receiptKeyFile: "./nowhere.pem" } });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("stc check", () => {
  test("goes through the service and all its tenants", async () => {
    const { code, out } = await runStc(["check", "--config", good]);
    const lines = out.split("\n").filter((line) => line.includes("ok: "));
    expect([code, lines]).toEqual([0, ["ok: 0 tools", "tenant acme: ok: 0 tools", "tenant globex: ok: 0 tools"]]);
    const { tenants } = JSON.parse((await runStc(["check", "--config", good, "--json"])).out);
    expect(tenants.map(({ tenant }: { readonly tenant: string }) => tenant)).toEqual(["acme", "globex"]);
  });

  test("names the field of a tenant where the problem is written", async () => {
    const { code, err } = await runStc(["check", "--config", broken]);
    expect([code, err.includes("- tenants.acme.approvals.receiptKeyFile: ")]).toEqual([78, true]);
    expect(err).not.toContain("globex");
  });

  test("says once what the service and its tenants have in common", async () => {
    const file = configured("shared.yaml", {}, { approvals: { storeUrlFile: "./no-url" } });
    for (const more of [[], ["--connect"]]) {
      const { code, err } = await runStc(["check", "--config", file, ...more]);
      expect([code, err.match(/storeUrlFile/g)?.length, err.match(/for the tenant/g)]).toEqual([78, 1, null]);
    }
  });

  test("of one tenant leaves out the others", async () => {
    const { code, out } = await runStc(["check", "--config", broken, "--tenant", "globex"]);
    expect([code, out.startsWith("tenant globex: ok: 0 tools\n")]).toEqual([0, true]);
  });
});

test("stc check says that nobody can decide where there are tools, by the service's and each tenant's own issuers", async () => {
  const acme = { tools: [join(PROJECT, "docs/examples/tenants/tools")], systems: SYSTEMS };
  const file = configured("undecided.yaml", acme, { approvals: { store: "sqlite://./approvals.sqlite" } });
  const { code, out } = await runStc(["check", "--config", file]);
  expect([code, out.split("\n").filter((line) => line.includes("nobody can decide"))]).toEqual([0, [UNDECIDED]]);
});

test("a tool that only tenants have is unknown without --tenant, and the answer names that option", async () => {
  const plan = ["plan", "get_order", '{"order":"A-7"}', "--config", join(PROJECT, "docs/examples/tenants/stc.yaml")];
  expect(await runStc(plan)).toEqual({
    ...{ code: 64, out: "" },
    err: "there is no tool get_order; `stc tools` lists them, with --tenant NAME those of a tenant\n",
  });
  expect((await runStc([...plan, "--tenant", "acme"])).code).toBe(0);
});

describe("stc check --matrix", () => {
  const matrix = (...options: readonly string[]) =>
    runStc(["check", "--matrix", "--config", join(PROJECT, "docs/examples/tenants/stc.yaml"), ...options]);

  test("shows the tools of the service itself, and those of each tenant below its name", async () => {
    const { code, out, err } = await matrix();
    expect([code, err]).toEqual([0, ""]);
    expect(out.split("\n").map((line) => line.split("  ")[0])).toEqual([
      ...["the service itself:", "TOOL"],
      ...["", "tenant acme:", "TOOL", "get_order"],
      ...["", "tenant globex:", "TOOL", "get_order", ""],
    ]);
    const { tenants, matrix: own } = JSON.parse((await matrix("--json")).out);
    const names = tenants.map(({ tenant, matrix: [row], verdicts }: Loose) => [tenant, row.tool, verdicts.length]);
    expect([own, ...names]).toEqual([[], ["acme", "get_order", 1], ["globex", "get_order", 1]]);
  });

  test("as CSV is one table, and names what it leaves out", async () => {
    const left = "note: tenants are left out, --tenant prints one of them: acme, globex\n";
    expect(await matrix("--csv")).toEqual({ code: 0, out: '"TOOL"\n', err: left });
    expect(await matrix("--csv", "--tenant", "acme")).toEqual({ code: 0, out: '"TOOL"\n"get_order"\n', err: "" });
  });

  test("of one tenant is its tables alone", async () => {
    const { out } = await matrix("--tenant", "globex");
    expect(out).toMatch(/^TOOL .*\nget_order .*\n$/);
  });
});

test("stc doctor says whose problem it is", async () => {
  const { out } = await runStc(["doctor", "--config", broken, "--json"]);
  const [{ findings }] = JSON.parse(out).checks;
  const seen = findings.map((finding: { readonly seen: string }) => finding.seen);
  expect(seen.filter((text: string) => text.includes("receiptKeyFile"))).toEqual([
    expect.stringMatching(/^tenants\.acme\.approvals\.receiptKeyFile: /),
  ]);
});

test("stc doctor looks at the disk and the log of the service and of each tenant, while it runs and afterwards", async () => {
  const file = configured("running.yaml", {}, { server: { port: 0 }, log: { level: "silent" } });
  const doctor = async () => {
    const { code, out } = await runStc(["doctor", "--config", file, "--json"]);
    const checks = JSON.parse(out).checks as readonly {
      readonly name: string;
      readonly findings: readonly { readonly status: string; readonly seen: string }[];
    }[];
    const of = (name: string) => checks.find((each) => each.name === name)?.findings ?? [];
    return { code, storage: of("storage"), log: of("audit log") };
  };
  const dirs = ["", "/tenants/acme", "/tenants/globex"].map((name) => join(folder, "audit") + name);
  const whose = ["", "tenant acme: ", "tenant globex: "];
  const service = await startService(readConfigFile(file, {}));
  const running = await doctor();
  await service.drain();
  expect(running.storage.map(({ seen }) => seen)).toEqual(
    dirs.map((dir, at) => expect.stringMatching(new RegExp(`^${whose[at]}audit\\.dir: ${dir}: \\d+ MiB free$`))),
  );
  const written = running.log.filter(({ seen }) => seen.includes("written by process"));
  expect(written.map(({ seen }) => seen)).toEqual(
    dirs.map((dir, at) => expect.stringContaining(`${whose[at]}${dir}: `)),
  );
  const journal = join(dirs[1] ?? "", "journal");
  const [day = ""] = readdirSync(journal);
  writeFileSync(
    join(journal, day),
    readFileSync(join(journal, day), "utf8").replace("service.started", "service.starteD"),
  );
  const ended = await doctor();
  expect(ended.log.filter(({ status }) => status === "failed").map(({ seen }) => seen)).toEqual([
    expect.stringContaining(`tenant acme: ${dirs[1]}`),
  ]);
  expect(ended.code).toBe(1);
});
