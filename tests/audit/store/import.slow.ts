import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { postgresExporter } from "../../../src/audit/export/stores.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { openReceiver } from "../../support/receivers.ts";
import { type Ended, runStc } from "../../support/stc.ts";
import { exportLog, writeReplica } from "../../support/stored-logs.ts";
import { writeLog, writeWorkersLogs } from "../support/chained-log.ts";

const native = findPostgres();
const folder = mkdtempSync(join(tmpdir(), "stc-import-"));
let server: PostgresServer;
beforeAll(async () => {
  if (native !== undefined) server = await startPostgres(native);
});
afterAll(async () => {
  await server?.end();
  rmSync(folder, { recursive: true, force: true });
});

/** Everything in a store, without the time at which a checkpoint came. */
async function contents(database: string): Promise<Readonly<Record<string, readonly object[]>>> {
  return {
    lines: await server.send("SELECT * FROM audit_lines ORDER BY log, stream, seq, day, hash", database),
    logs: await server.send("SELECT * FROM audit_logs ORDER BY log, stream", database),
    checkpoints: await server.send(
      "SELECT log, stream, size, note FROM audit_checkpoints ORDER BY log, stream, size",
      database,
    ),
  };
}

/** Runs `stc audit import` into a database, whose URL is in a file. */
function importInto(url: string, args: readonly string[], stdin?: string): Promise<Ended> {
  const file = join(mkdtempSync(join(folder, "url-")), "url");
  writeFileSync(file, `${url}\n`);
  return runStc(["audit", "import", "--to-store", file, ...args], stdin === undefined ? {} : { stdin });
}

describe.skipIf(native === undefined)("a store that is filled in another way equals that of the exporter", () => {
  const replicas = [writeReplica(folder, 0, 1_300), writeReplica(folder, 1, 400)];
  const signed = join(folder, "signed");
  const dirs = [...replicas, signed];
  let direct: Awaited<ReturnType<typeof contents>>;
  let count: number;
  beforeAll(async () => {
    await writeLog(signed);
    // A line that the service did not write has no link.
    appendFileSync(join(replicas[0] ?? "", "2026-02-16.jsonl"), "another line\n");
    const url = await server.createDatabase("direct");
    const urlFile = join(folder, "direct-url");
    writeFileSync(urlFile, url);
    const parts = {
      path: (path: string) => path,
      clock: Date.now,
      problem: (_: string, message: string) => {
        throw new Error(message);
      },
    };
    const receiver = postgresExporter.open({ urlFile }, parts);
    if (receiver === undefined) throw new Error("no receiver");
    for (const dir of dirs) await exportLog(dir, receiver);
    await receiver.close?.();
    direct = await contents("direct");
    count = (direct["lines"]?.length ?? 0) + (direct["checkpoints"]?.length ?? 0);
    expect(direct["checkpoints"]?.length).toBeGreaterThan(0);
  });

  test("from the directories of replicas that are gone, also twice", async () => {
    const url = await server.createDatabase("volumes");
    const args = dirs.flatMap((dir) => ["--dir", dir]);
    for (const _ of [1, 2]) {
      const ended = await importInto(url, args);
      expect(ended).toEqual({ code: 0, out: `${count} lines and checkpoints are in the store\n`, err: "" });
      expect(await contents("volumes")).toEqual(direct);
    }
  });

  test("from what a collector received over OTLP, as files and on standard input", async () => {
    const bodies: string[] = [];
    const collector = Bun.serve({
      ...{ hostname: "127.0.0.1", port: 0 },
      async fetch(request) {
        bodies.push(await request.text());
        return new Response("{}");
      },
    });
    for (const dir of dirs)
      await exportLog(mkdtempCopy(dir), openReceiver({ url: `http://127.0.0.1:${collector.port}` }));
    await collector.stop(true);
    const [one, other] = ["one.jsonl", "other.jsonl"].map((name) => join(folder, name));
    const middle = Math.floor(bodies.length / 2);
    writeFileSync(one ?? "", bodies.slice(0, middle).join("\n"));
    writeFileSync(other ?? "", `${bodies.slice(middle).join("\n")}\n`);
    const files = await importInto(await server.createDatabase("otlp_files"), [one ?? "", other ?? ""]);
    expect(files).toEqual({ code: 0, out: `${count} lines and checkpoints are in the store\n`, err: "" });
    expect(await contents("otlp_files")).toEqual(direct);
    // The order of a transport does not matter.
    const stdin = bodies.toReversed().join("\n\n");
    const piped = await importInto(await server.createDatabase("otlp_stdin"), [], stdin);
    expect(piped).toEqual({ code: 0, out: `${count} lines and checkpoints are in the store\n`, err: "" });
    expect(await contents("otlp_stdin")).toEqual(direct);
  });

  /** A copy has no positions of the exporter that filled the first store. */
  function mkdtempCopy(dir: string): string {
    const copy = mkdtempSync(join(folder, "copy-"));
    Bun.spawnSync(["cp", "-r", `${dir}/.`, copy]);
    rmSync(join(copy, "export"), { recursive: true, force: true });
    return copy;
  }
});

describe.skipIf(native === undefined)("stc audit import", () => {
  test("the logs of workers are stored as well", async () => {
    const dir = join(folder, "workers");
    await writeWorkersLogs(dir);
    const url = await server.createDatabase("workers");
    expect(await importInto(url, ["--dir", dir])).toMatchObject({ code: 0, err: "" });
    const [logs] = await server.send("SELECT count(*)::int AS logs FROM audit_logs", "workers");
    expect(logs).toEqual({ logs: 6 });
  });

  test("names what is refused and what cannot be read, and stores the rest", async () => {
    const url = await server.createDatabase("faulty");
    const line = { stream: "calls", log: "", day: "2026-02-16", offset: 0, line: "sound" };
    const texts = [
      line,
      { ...line, offset: 1, line: "with NUL \0" },
      { ...line, stream: "other" },
      { ...line, offset: 2 },
    ];
    const stdin = [
      ...texts.map((text) => JSON.stringify(text)),
      "hello",
      "",
      '{"resourceLogs":[{"scopeLogs":[{"logRecords":[{}]}]}]}',
    ];
    const ended = await importInto(url, [], stdin.join("\n"));
    expect(ended).toEqual({
      code: 1,
      out: "2 lines and checkpoints are in the store\n",
      err: [
        "standard input:3: not what an exporter sends",
        "standard input:5: not what an exporter sends",
        "refused: calls of log -, 2026-02-16:1: SQLSTATE 22P05",
        "1 records of other services left out",
        "",
      ].join("\n"),
    });
    const rows = await server.send("SELECT line FROM audit_lines ORDER BY seq", "faulty");
    expect(rows).toEqual([{ line: "sound" }, { line: "sound" }]);
  });

  test("a store that does not answer is named at once", async () => {
    const ended = await importInto("postgres://stc:secret-word@127.0.0.1:1/audit", [], "");
    expect(ended).toMatchObject({ code: 66, out: "" });
    expect(ended.err).toStartWith("the audit store accepts no lines: ");
    expect(ended.err).not.toContain("secret-word");
  });

  test("a file that is missing is named", async () => {
    const url = await server.createDatabase("missing");
    const missing = await importInto(url, [join(folder, "nowhere.jsonl")]);
    expect(missing).toMatchObject({ code: 66, err: `${join(folder, "nowhere.jsonl")} cannot be read (ENOENT)\n` });
  });

  test("directories and files are not mixed, and a store is needed", async () => {
    expect(await importInto("postgres://x@h/d", ["--dir", folder, "file"])).toMatchObject({
      code: 64,
      err: "give one of --dir, --from-kafka and files\n",
    });
    expect(await importInto("mysql://x", [])).toMatchObject({ code: 66 });
  });
});
