import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { appendFileSync, mkdirSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DEAD_LETTERS_BYTES_MAX } from "../../../src/audit/export/exporter.ts";
import type { RunningService } from "../../../src/cli/service.ts";
import { DoctorStand, nextIn, seenIn } from "../../support/doctor.ts";
import { CALL, startIdentityService } from "../../support/identity-service.ts";

const stand = new DoctorStand();
const running: RunningService[] = [];
afterAll(() => stand.end());
afterEach(async () => {
  for (const service of running.splice(0)) await service.drain();
});
beforeEach(() => {
  rmSync(stand.path("audit"), { recursive: true, force: true });
  rmSync(stand.path("audit.key"), { force: true });
  stand.configure();
});

/** A service with lines in the audit directory of the configuration. */
async function start(rest: Readonly<Record<string, unknown>> = {}): Promise<RunningService> {
  const { service } = await startIdentityService({ folder: stand.folder, rest });
  running.push(service);
  // A refusal is a line, too.
  await fetch(`${service.url}/call`, { method: "POST", headers: { "content-type": "application/json" }, body: CALL });
  return service;
}

async function stop(): Promise<void> {
  for (const service of running.splice(0)) await service.drain();
}

function newestFile(): string {
  const names = readdirSync(stand.path("audit")).filter((name) => name.endsWith(".jsonl"));
  return join(stand.path("audit"), names.sort().at(-1) ?? "");
}

describe("audit log", () => {
  test("before the first start there is nothing to look at", async () => {
    expect(await stand.check("audit log")).toMatchObject({ status: "not applicable" });
  });

  test("of a running service: the process that writes it is named, and its lines verify", async () => {
    await start();
    const result = await stand.check("audit log");
    expect(result.status).toBe("ok");
    expect(seenIn(result)).toContain(`written by process ${process.pid}`);
    expect(seenIn(result)).toMatch(/the lines since \d{4}-\d\d-\d\d verify/);
  });

  test("of a stopped service: no process writes it, as far as can be seen here", async () => {
    await start();
    await stop();
    const result = await stand.check("audit log");
    expect([result.status, seenIn(result)]).toEqual(["ok", expect.stringContaining("no process seen here writes it")]);
  });

  test("a line that is being written, or that a crash cut off, is no damage", async () => {
    await start();
    await stop();
    appendFileSync(newestFile(), '{"timestamp":"2026');
    expect(await stand.check("audit log")).toMatchObject({ status: "ok" });
  });

  test("signed lines that are gone fail", async () => {
    await start();
    await stop();
    truncateSync(newestFile(), 0);
    expect(await stand.check("audit log")).toMatchObject({ status: "failed" });
  });

  test("a line that is changed fails", async () => {
    await start();
    await stop();
    writeFileSync(newestFile(), readFileSync(newestFile(), "utf8").replace(/"code":"[A-Z_]+"/, '"code":"NOT_ALLOWED"'));
    const result = await stand.check("audit log");
    expect(result.status).toBe("failed");
    expect(nextIn(result)).toContain("stc audit verify");
  });
});

describe("export backlog", () => {
  const exports = [{ type: "otlp", name: "lines", url: "http://127.0.0.1:1" }];
  beforeEach(() => stand.configure({ audit: { dir: "./audit", export: exports } }));
  const deadLetters = (bytes: number): void => {
    mkdirSync(stand.path("audit/export"), { recursive: true, mode: 0o700 });
    writeFileSync(stand.path("audit/export/lines.dead.jsonl"), "", { mode: 0o600 });
    truncateSync(stand.path("audit/export/lines.dead.jsonl"), bytes);
  };

  test("lines of this minute are ok: they are on their way", async () => {
    await start();
    expect(await stand.check("export backlog")).toMatchObject({ status: "ok" });
  });

  test("older lines of a log that nobody writes are a warning", async () => {
    mkdirSync(stand.path("audit"), { mode: 0o700 });
    writeFileSync(stand.path("audit/2026-02-16.jsonl"), '{"timestamp":"2026-02-16T12:00:00.000Z","traceId":"t-1"}\n');
    const result = await stand.check("export backlog");
    expect(result.status).toBe("warning");
    expect(seenIn(result)).toMatch(/bytes of calls were not sent, the oldest of \d+ days ago/);
  });

  test("lines that the receiver refused are a warning, and a full file of them fails", async () => {
    await start();
    deadLetters(1_000);
    const few = await stand.check("export backlog");
    expect([few.status, nextIn(few)]).toEqual(["warning", expect.stringContaining("#safetoolcallexportrefused")]);
    deadLetters(DEAD_LETTERS_BYTES_MAX - 10);
    const full = await stand.check("export backlog");
    expect([full.status, seenIn(full)]).toEqual(["failed", expect.stringContaining("nearly full")]);
  });
});
