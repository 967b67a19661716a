import { expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rounds } from "../support/rounds.ts";
import { until } from "../support/until.ts";

/** Long: the service is killed again and again under load; whatever it answered is in the audit. */
const ROUNDS = rounds({ few: 12, many: 25 });
const CALLERS = 64;
const PROJECT = join(import.meta.dir, "../..");

const folder = mkdtempSync(join(tmpdir(), "stc-kill-"));

interface Started {
  readonly port: number;
  kill(): Promise<void>;
}

async function start(): Promise<Started> {
  const child = Bun.spawn([process.execPath, join(PROJECT, "tests/bench/servers.ts"), "governed", folder, "audit"], {
    stdout: "pipe",
    stderr: "inherit",
  });
  const { value } = await child.stdout.getReader().read();
  return {
    port: Number(new TextDecoder().decode(value).trim().split("\n").at(-1)),
    async kill() {
      child.kill("SIGKILL");
      await child.exited;
    },
  };
}

async function loadUntilDeath(port: number, token: string, answered: Set<string>): Promise<void> {
  const body = JSON.stringify({ tool: "bench_echo", args: { text: "hello", count: 1 } });
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const caller = async (): Promise<void> => {
    for (;;) {
      try {
        const response = await fetch(`http://127.0.0.1:${port}/call`, { method: "POST", headers, body });
        const { status, traceId } = (await response.json()) as { status: string; traceId: string };
        if (status === "success") answered.add(traceId);
      } catch {
        return;
      }
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
}

function audited(): Set<string> {
  const lines = readdirSync(join(folder, "audit"))
    .filter((name) => name.endsWith(".jsonl"))
    .flatMap((name) =>
      readFileSync(join(folder, "audit", name), "utf8")
        .split("\n")
        .slice(0, -1),
    );
  return new Set(lines.map((line) => (JSON.parse(line) as { traceId: string }).traceId));
}

test(
  "everything answered is in the audit, however often the service is killed",
  async () => {
    const { issueBenchTokens } = await import("../bench/token.ts");
    const { agent: token } = await issueBenchTokens(folder);
    const answered = new Set<string>();
    try {
      for (let round = 0; round < ROUNDS; round += 1) {
        const service = await start();
        const before = answered.size;
        const load = loadUntilDeath(service.port, token, answered);
        await until("an answer", () => (answered.size > before ? true : undefined));
        await new Promise((resolve) => setTimeout(resolve, 150 + ((round * 77) % 200)));
        await service.kill();
        await load;
      }
      const lines = audited();
      expect(answered.size).toBeGreaterThan(ROUNDS);
      expect([...answered].filter((traceId) => !lines.has(traceId))).toEqual([]);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
  { timeout: 180_000 },
);
