import { expect, test } from "bun:test";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { environmentOf, STC } from "../support/stc.ts";
import { until } from "../support/until.ts";

/** Of one file, in units of 1024 bytes: room for the start and a few reloads. */
const FILE_KIB_MAX = 6;
const RELOADS_MAX = 30;
/** Beyond the limit a write fails, as on a full disk, and nobody is killed for it. */
const LIMITED = ["bash", "-c", `trap "" XFSZ; ulimit -f ${FILE_KIB_MAX}; exec "$@"`, "bash"];

test("a change that cannot be recorded is not adopted, and calls report that the audit is unavailable", async () => {
  const world = new ReloadService({ log: { level: "info" }, audit: { dir: "./audit" } });
  const child = Bun.spawn([...LIMITED, ...STC, "serve", "--config", world.file], {
    env: environmentOf({}),
    stdout: "pipe",
    stderr: "inherit",
  });
  const log: string[] = [];
  const decoder = new TextDecoder();
  void child.stdout.pipeTo(new WritableStream({ write: (bytes) => void log.push(decoder.decode(bytes)) }));
  try {
    const url = await until("the service's address", () => /"url":"([^"]+)"/.exec(log.join(""))?.[1]);
    const send = async (path: string, token: string, body: unknown) => {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      const answer = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
      return (await answer.json()) as ReturnType<typeof JSON.parse>;
    };
    const operator = await world.operator();
    const agent = await world.agent();
    let last = { status: "changed", generation: 1, problems: [] as readonly string[] };
    let inUse = 1;
    for (let round = 0; round < RELOADS_MAX && last.status === "changed"; round += 1) {
      inUse = last.generation;
      world.write("tools/hello.ts", manifest({ says: `round ${round}` }));
      last = await send("/reload", operator, {});
    }
    expect(last.status).toBe("refused");
    expect(last.problems.join()).toStartWith("reload: could not be recorded: cannot write to ");
    expect(inUse).toBeGreaterThan(1);
    expect((await send("/call", agent, { tool: "hello", args: {} })).error).toMatchObject({
      code: "AUDIT_UNAVAILABLE",
    });
    const readiness = await fetch(`${url}/readyz`, { headers: { authorization: `Bearer ${operator}` } });
    expect(readiness.status).toBe(503);
    expect(await readiness.json()).toMatchObject({
      reasons: ["audit_unavailable"],
      configuration: { generation: inUse, lastRefused: { problems: 1 } },
    });
    child.kill("SIGTERM");
    expect(await child.exited).toBe(0);
    expect(world.journal("configuration.changed").at(-1)).toMatchObject({ generation: inUse });
  } finally {
    child.kill("SIGKILL");
    await world.end();
  }
});
