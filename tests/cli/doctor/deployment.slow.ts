import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { lstatSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { join } from "node:path";
import { CHECKS } from "../../../src/cli/doctor/checks.ts";
import { DoctorStand, TOOL } from "../../support/doctor.ts";
import { anchorsOf } from "../../support/documented.ts";
import { freePorts } from "../../support/ports.ts";
import { RunningStc, runStc } from "../../support/stc.ts";

const stand = new DoctorStand();
afterAll(() => stand.end());
beforeEach(() => {
  for (const name of ["audit", "audit.key", "approvals.sqlite"]) {
    rmSync(stand.path(name), { recursive: true, force: true });
  }
  stand.file("a.tool.yaml", TOOL);
  stand.configure();
});

const doctor = (...words: readonly string[]) => runStc(["doctor", "--config", stand.configFile, ...words]);

/** Everything below the folder: names, modes, times of change and contents. */
function contents(folder = stand.folder): Readonly<Record<string, string>> {
  const entries = readdirSync(folder, { recursive: true, encoding: "utf8" }).sort();
  return Object.fromEntries(
    entries.map((name) => {
      const path = join(folder, name);
      const { mode, mtimeMs, uid } = lstatSync(path);
      const isFile = lstatSync(path).isFile();
      const isLink = lstatSync(path).isSymbolicLink();
      const text = isLink ? readlinkSync(path) : "";
      // Readers of a SQLite file note in its shared memory what they read.
      const hash = isFile && !name.endsWith("-shm") ? Bun.hash(readFileSync(path)) : text;
      return [name, `${mode} ${uid} ${name.endsWith("-shm") ? "" : mtimeMs} ${hash}`];
    }),
  );
}

/** Returns the contents once the service has written what a start writes, such as its first checkpoint. */
async function settled(): Promise<Readonly<Record<string, string>>> {
  let last = contents();
  for (let same = 0; same < 5; ) {
    await Bun.sleep(500);
    const next = contents();
    same = Bun.deepEquals(last, next) ? same + 1 : 0;
    last = next;
  }
  return last;
}

interface Report {
  readonly ok: boolean;
  readonly checks: readonly { readonly name: string; readonly status: string; readonly findings: readonly object[] }[];
}

function statusesIn(out: string): Readonly<Record<string, string>> {
  const { checks } = JSON.parse(out) as Report;
  return Object.fromEntries(checks.map(({ name, status }) => [name, status]));
}

test("before the first start nothing fails, and nothing is made", async () => {
  stand.configure({ approvals: { store: "sqlite://./approvals.sqlite" } });
  const before = contents();
  const { code, out, err } = await doctor("--json");
  expect([code, err]).toEqual([0, ""]);
  const { ok, checks } = JSON.parse(out) as Report;
  expect(ok).toBe(true);
  expect(checks.map(({ name }) => name)).toEqual(CHECKS.map(({ name }) => name));
  for (const { findings } of checks) expect(findings.length).toBeGreaterThan(0);
  expect(contents()).toEqual(before);
});

describe("next to a running service", () => {
  let service: RunningStc;
  const start = async (): Promise<void> => {
    const port = freePorts();
    stand.configure({
      ...{ server: { port }, approvals: { store: "sqlite://./approvals.sqlite" } },
      audit: { dir: "./audit", export: [{ type: "otlp", name: "lines", url: "http://127.0.0.1:1" }] },
    });
    service = new RunningStc(["serve", "--config", stand.configFile]);
    await service.printed("listening");
  };

  afterEach(async () => {
    await service.end("SIGTERM");
  });

  test("it says what is wrong, changes nothing, and leaves no line", async () => {
    await start();
    const before = await settled();
    const { code, out } = await doctor("--json");
    const statuses = statusesIn(out);
    expect(statuses).toMatchObject({
      service: "ok",
      "audit log": "ok",
      database: "ok",
      clocks: "ok",
      exporters: "failed",
    });
    expect(code).toBe(1);
    expect(contents()).toEqual(before);
  });

  test("one that does not answer any more is found", async () => {
    await start();
    service.child.kill("SIGSTOP");
    try {
      const { code, out } = await doctor("--json");
      expect([code, statusesIn(out)["service"]]).toEqual([1, "failed"]);
      expect(out).toContain(`process ${service.child.pid} has the audit log open`);
    } finally {
      service.child.kill("SIGCONT");
    }
  });
});

test("an invalid configuration: all problems at once, and the other checks run", async () => {
  stand.configure({ audit: { dir: "./audit", hashKeyFile: "./gone.key", checkpointKeyFile: "./gone.pem" } });
  const { code, out } = await doctor();
  expect(code).toBe(78);
  const text = out.replaceAll(/\s+/g, " ");
  expect(text).toContain("gone.key cannot be read (ENOENT)");
  expect(text).toContain("gone.pem cannot be read (ENOENT)");
  expect(out).toMatch(/^ok +storage/m);
  expect(out).toMatch(/^- +tools +the configuration is invalid$/m);
});

test("the report fits 80 columns, and ends with how many checks failed", async () => {
  stand.configure({ audit: { dir: "./audit", hashKeyFile: stand.file("hash.key", Buffer.alloc(32), 0o644) } });
  const { code, out } = await doctor();
  expect(code).toBe(1);
  const lines = out.split("\n");
  // A word that is longer than the column, such as a path, is not cut.
  const wide = lines.filter((line) => line.length > 80 && line.trim().includes(" "));
  expect(wide).toEqual([]);
  expect(out).toMatch(/^FAILED +secret files +audit\.hashKeyFile:/m);
  expect(out).toMatch(/\nfailed: 1, warning: \d+, ok: \d+, not applicable: \d+\n$/);
});

test("the sections that checks name exist", () => {
  const sources = [...new Bun.Glob("src/cli/doctor/*.ts").scanSync(".")].map((path) => readFileSync(path, "utf8"));
  const named = sources.flatMap((source) =>
    [...source.matchAll(/docs\/[a-z-]+\.md(?:#[a-z0-9-]+)?/g)].map(([link]) => link),
  );
  expect(named.length).toBeGreaterThan(20);
  const dead = named.filter((link) => {
    const [page = "", anchor] = link.split("#");
    return anchor !== undefined && !anchorsOf(page).has(anchor);
  });
  expect(dead).toEqual([]);
});
