import { afterEach, beforeEach, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Receiver } from "../approvals/notify/receiver.ts";
import { auditEntries, journalEntries } from "../support/audit-files.ts";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { RunningStc, runStc, SIGNATURES_NOT_CHECKED } from "../support/stc.ts";
import { until } from "../support/until.ts";

/** A configuration, and the processes that serve it one after the other. */
let world: ReloadService;
let child: RunningStc | undefined;
let receiver: Receiver;
let url = "";

beforeEach(() => {
  receiver = new Receiver();
});
afterEach(async () => {
  child?.child.kill("SIGKILL");
  child = undefined;
  await receiver.close();
  await world.end();
});

async function serve(): Promise<RunningStc> {
  child = new RunningStc(["serve", "--config", world.file]);
  const listening = await child.printed(/"url":"[^"]+"/);
  url = /"url":"([^"]+)"/.exec(listening)?.[1] ?? "";
  return child;
}

async function killed(): Promise<void> {
  child?.child.kill("SIGKILL");
  await child?.child.exited;
}

async function call(
  token: string,
  more: Readonly<Record<string, unknown>> = {},
): Promise<ReturnType<typeof JSON.parse>> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const body = JSON.stringify({ tool: "hello", args: {}, ...more });
  return (await fetch(`${url}/call`, { method: "POST", headers, body })).json();
}

function refusals(): number {
  return auditEntries(join(world.folder, "audit"))
    .filter(({ error }) => error?.code === "UNAUTHENTICATED")
    .reduce((sum, { count = 1 }) => sum + count, 0);
}

test("a kill -9 loses at most ten seconds of counts of unauthenticated clients, and readers add them up", async () => {
  world = new ReloadService({ log: { level: "info" }, limits: { strangerLinesPerMinute: 5 } });
  await serve();
  const knocked = 300;
  for (let made = 0; made < knocked; made += 1) expect((await call("nobody")).error.code).toBe("UNAUTHENTICATED");
  expect(refusals()).toBeLessThan(knocked);
  // Two waits: each looks for about ten seconds.
  await until("the sums", () => (refusals() === knocked ? true : undefined)).catch(() =>
    until("the sums", () => (refusals() === knocked ? true : undefined)),
  );
  await killed();
  expect(refusals()).toBe(knocked);
  await serve();
  expect((await call(await world.agent())).status).toBe("success");
  for (let made = 0; made < 20; made += 1) await call("nobody");
  expect(await child?.end("SIGTERM")).toBe(0);
  expect(refusals()).toBe(knocked + 20);

  const dir = join(world.folder, "audit");
  const lines = auditEntries(dir).length;
  // Two minutes may have been met, and an end: lines of their own, and a sum every ten seconds of each.
  expect(lines).toBeLessThan(60);
  const verified = await runStc(["audit", "verify", "--dir", dir]);
  expect([verified.code, verified.err]).toEqual([SIGNATURES_NOT_CHECKED, ""]);
  const stats = JSON.parse((await runStc(["audit", "stats", "--dir", dir, "--json"])).out);
  expect(stats.calls).toBe(knocked + 21);
  expect(new Map(stats.byCode).get("UNAUTHENTICATED")).toBe(knocked + 20);
  const query = await runStc(["audit", "query", "--dir", dir, "--json", "--code", "UNAUTHENTICATED", "--limit", "100"]);
  const found = query.out.split("\n").filter((line) => line.startsWith("{"));
  expect(found.map((line) => JSON.parse(line).count ?? 1).reduce((sum, count) => sum + count, 0)).toBe(knocked + 20);
});

test("a half-written configuration is refused, and the complete one adopted", async () => {
  const rates = (calls: number) => ({ limits: { rates: { caller: { calls, seconds: 86_400 } } } });
  world = new ReloadService({ log: { level: "info" }, reload: { trigger: "watch", perMinuteMax: 6_000 }, ...rates(2) });
  const running = await serve();
  const token = await world.agent();
  for (const want of ["success", "success", "denied"]) expect((await call(token)).status).toBe(want);
  world.configure(rates(4));
  const whole = readFileSync(world.file);
  writeFileSync(world.file, whole.subarray(0, whole.length / 2));
  running.child.kill("SIGHUP");
  await running.printed("configuration.refused");
  expect((await call(token)).error.code).toBe("RATE_LIMITED");
  writeFileSync(world.file, whole);
  await running.printed("configuration.changed");
  for (const want of ["success", "success", "denied"]) expect((await call(token)).status).toBe(want);
});

test("a kill -9 during repeated reloads of limits and webhooks: the start uses the current files", async () => {
  const configured = (round: number) => ({
    limits: { rates: { caller: { calls: 1_000 + round, seconds: 60 } } },
    approvals: {
      store: "sqlite://./approvals.sqlite",
      webhooks: [{ name: "chat", url: `${receiver.url}?round=${round}`, secretFile: "./key" }],
    },
  });
  world = new ReloadService({ log: { level: "info" }, ...configured(0) });
  world.write("tools/hello.ts", manifest({ classification: "write" }));
  world.write("key", `whsec_${Buffer.alloc(32, 5).toString("base64")}\n`);
  for (let kill = 0; kill < 4; kill += 1) {
    const running = await serve();
    const token = await world.agent();
    for (let round = 1; round <= 3; round += 1) {
      world.configure(configured(10 * kill + round));
      running.child.kill("SIGHUP");
      expect((await call(token, { session: `${kill}-${round}` })).status).toBe("pending");
    }
    await Bun.sleep(kill * 15);
    await killed();
  }
  const last = await serve();
  const metrics = { headers: { authorization: `Bearer ${await world.operator()}` } };
  const shown = await (await fetch(`${url}/metrics`, metrics)).text();
  expect(shown).toContain('stc_webhook_disabled{webhook="chat"} 0');
  expect(await last.end("SIGTERM")).toBe(0);
  const dir = join(world.folder, "audit");
  expect((await runStc(["audit", "verify", "--dir", dir])).code).toBe(SIGNATURES_NOT_CHECKED);
  const refused = journalEntries(dir).filter(({ type }) => type === "configuration.refused");
  expect(refused).toEqual([]);
});
