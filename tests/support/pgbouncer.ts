import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePorts } from "./ports.ts";
import { until } from "./until.ts";

/** PgBouncer refuses to run as root. */
const NOBODY = 65_534;

/** Debian: `apt-get install pgbouncer`. */
export function findPgBouncer(): string | undefined {
  return Bun.which("pgbouncer", { PATH: `${process.env["PATH"]}:/usr/sbin` }) ?? undefined;
}

/** A real PgBouncer in transaction mode in front of the database of a URL, to which it has at most `connections`. */
export async function startPgBouncer(program: string, url: string, connections = 10) {
  const database = new URL(url);
  const dir = mkdtempSync(join(tmpdir(), "stc-pgbouncer-"));
  const port = freePorts();
  const file = join(dir, "pgbouncer.ini");
  const name = database.pathname.slice(1);
  const password = decodeURIComponent(database.password);
  writeFileSync(
    file,
    `[databases]
${name} = host=127.0.0.1 port=${database.port} dbname=${name} user=${database.username} password='${password}'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${connections}
max_client_conn = 200
`,
  );
  chmodSync(dir, 0o755);
  const isRoot = process.getuid?.() === 0;
  const child = Bun.spawn(
    [...(isRoot ? ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"] : []), program, file],
    {
      stdio: ["ignore", "ignore", Bun.file(join(dir, "log"))],
    },
  );
  const pooled = new URL(url);
  pooled.port = String(port);
  const plain = pooled.href;
  pooled.searchParams.set("pgbouncer", "true");
  await until("PgBouncer", async () => {
    const sql = new Bun.SQL({ url: plain, max: 1, prepare: false, connectionTimeout: 5 });
    try {
      return (await sql.unsafe("SELECT 1")).length;
    } catch {
      return undefined;
    } finally {
      await sql.close({ timeout: 0 });
    }
  });
  return {
    url: pooled.href,
    async end(): Promise<void> {
      child.kill("SIGTERM");
      await child.exited;
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
