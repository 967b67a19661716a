import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pythonWith } from "../support/python.ts";
import { environmentOf } from "../support/stc.ts";

const USER = "stc audit";
const PASSWORD = "p@ß:/?#%w";

export type ClickHouseServer = Awaited<ReturnType<typeof startClickHouse>>;

/** ClickHouse's engine behind its HTTP interface, as far as `clickhouse_server.py` says. */
export async function startClickHouse() {
  const folder = mkdtempSync(join(tmpdir(), "stc-clickhouse-"));
  const python = await pythonWith(join(import.meta.dir, "requirements-clickhouse.txt"));
  const program = join(import.meta.dir, "clickhouse_server.py");
  const child = Bun.spawn([python, "-u", program, join(folder, "data"), USER, PASSWORD], {
    env: environmentOf({ PYTHONDONTWRITEBYTECODE: "1", TMPDIR: folder }),
    cwd: folder,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  });
  const port = await portFrom(child.stdout);
  const origin = `http://127.0.0.1:${port}`;

  /** Returns the rows that a statement answers, in the database. */
  async function send(statement: string, database = "default"): Promise<readonly Record<string, unknown>[]> {
    const response = await fetch(`${origin}/?database=${database}&default_format=JSON`, {
      method: "POST",
      headers: { "x-clickhouse-user": USER, "x-clickhouse-key": Buffer.from(PASSWORD).toString("latin1") },
      body: statement,
    });
    const text = await response.text();
    if (!response.ok) throw new Error(text);
    return text === "" ? [] : JSON.parse(text).data;
  }

  return {
    folder,
    send,
    /** Returns the URL of a new database. */
    async createDatabase(name: string): Promise<string> {
      await send(`CREATE DATABASE ${name}`);
      return `clickhouse://${encodeURIComponent(USER)}:${encodeURIComponent(PASSWORD)}@127.0.0.1:${port}/${name}`;
    },
    /** `cut`: every answer ends in its middle. */
    async switchTo(mode: "serve" | "cut"): Promise<void> {
      await fetch(`${origin}/control/${mode}`);
    },
    async end(): Promise<void> {
      child.kill("SIGKILL");
      await child.exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function portFrom(output: ReadableStream<Uint8Array>): Promise<number> {
  const reader = output.getReader();
  const { value } = await reader.read();
  if (value === undefined) throw new Error("the server ended");
  reader.releaseLock();
  return JSON.parse(new TextDecoder().decode(value)).port;
}
