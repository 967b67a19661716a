import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { operationsOn } from "../../src/database/operations.ts";
import { Quotas } from "../../src/quotas/quotas.ts";
import type { QuotaRule } from "../../src/quotas/rules.ts";
import { callerOf, run, toolOf } from "../quotas/world.ts";
import { createApprovalWorld } from "../support/approvals.ts";
import { clockedDatabase } from "../support/approvals-postgres.ts";
import { EndingWorld } from "../support/ending-world.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { manifest } from "../support/reload-service.ts";
import { openState } from "../support/shared-state.ts";
import { until } from "../support/until.ts";

/** Long: quotas in a real PostgreSQL, of processes that are killed and parted from it. */
const native = findPostgres();
let server: PostgresServer;

beforeAll(async () => {
  if (native !== undefined) server = await startPostgres(native);
});
afterAll(() => server?.end());

/** Passes connections on to a port, until they are cut. */
class Wire {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  port = 0;

  constructor(target: number) {
    this.#server = createServer((near) => {
      const far = connect(target, "127.0.0.1");
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#sockets.add(from);
        from.pipe(to);
        from.on("error", () => to.destroy());
        from.on("close", () => {
          this.#sockets.delete(from);
          to.destroy();
        });
      }
    });
  }

  async open(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    this.port = (this.#server.address() as { readonly port: number }).port;
    return this;
  }

  /** Breaks all connections, whatever is on its way. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): void {
    this.cut();
    this.#server.close();
  }
}

describe.skipIf(native === undefined)("two services on one PostgreSQL", () => {
  const LIMIT = 900;
  const BLOCK = LIMIT / 100;
  const CALLERS = 12;
  const services: { readonly world: EndingWorld; readonly wire: Wire }[] = [];
  let targetLog: string;

  beforeEach(async () => {
    const url = new URL(await server.createDatabase("quotas"));
    for (let index = 0; index < 2; index += 1) {
      const wire = await new Wire(Number(url.port)).open();
      const issuers = services[0]?.world.world.issuers;
      const world = new EndingWorld({
        approvals: { storeUrlFile: "./url" },
        limits: { quotas: [{ name: "all", per: [], calls: LIMIT, window: "month" }] },
        ...(issuers && { jwt: { issuers: issuers.profiles() } }),
      });
      const through = new URL(url);
      through.port = String(wire.port);
      world.world.write("url", `${through}\n`);
      if (index === 0) targetLog = join(world.world.folder, "runs");
      const body = `appendFileSync(${JSON.stringify(targetLog)}, process.pid + "\\n"); return { said: "ran" };`;
      const before = 'import { appendFileSync } from "node:fs";';
      world.world.write("tools/counted.ts", manifest({ name: "counted", before, body }));
      services.push({ world, wire });
    }
    writeFileSync(targetLog, "");
    await Promise.all(services.map(({ world }) => world.start()));
  });
  afterEach(async () => {
    for (const { wire } of services) wire.close();
    await Promise.all(services.map(({ world }) => world.remove()));
    services.length = 0;
  });

  test("run exactly what a quota allows, but for what a crash or a cut connection loses", async () => {
    const runs = (): number => readFileSync(targetLog, "utf8").split("\n").length - 1;
    const token = await services[0]?.world.world.issuers.token({
      ...{ kind: "good", sub: "agent-7", permissions: ["hello:say"] },
    });
    const codes = new Map<string, number>();
    const finished = [false, false];
    let isDisturbed = true;
    const caller = async (index: number): Promise<void> => {
      for (let isOver = false; !isOver; ) {
        const { code } = (await services[index]?.world.call("counted", token ?? "")) ?? { code: "" };
        codes.set(code, (codes.get(code) ?? 0) + 1);
        isOver = code === "QUOTA_EXCEEDED" && !isDisturbed;
        finished[index] ||= isOver;
        // Calls are not sent faster than the disturbances come.
        await new Promise((resolve) => setTimeout(resolve, code === "success" ? 15 : 50));
      }
    };
    const calling = Promise.all(Array.from({ length: CALLERS }, (_, index) => caller(index % 2)));
    let kills = 0;
    let cuts = 0;
    try {
      for (const goal of [100, 200, 300, 400, 500, 600]) {
        await until(`${goal} runs`, () => (runs() >= goal ? true : undefined));
        const { world, wire } = services[(goal / 100) % 2] ?? (services[0] as (typeof services)[0]);
        if (goal % 200 === 0) {
          await world.end("SIGKILL");
          kills += 1;
          await world.start();
        } else {
          for (let cut = 0; cut < 3; cut += 1) {
            wire.cut();
            cuts += 1;
            await new Promise((resolve) => setTimeout(resolve, 20));
          }
        }
      }
      await server.kill();
      cuts += 2;
      await server.start();
    } finally {
      isDisturbed = false;
      await calling;
    }
    expect(finished).toEqual([true, true]);
    // Each loses what a process held, and what its waiting calls had taken.
    const lost = (kills + cuts) * (BLOCK + CALLERS);
    expect(runs()).toBeLessThanOrEqual(LIMIT);
    expect(runs()).toBeGreaterThanOrEqual(LIMIT - lost);
    expect(runs()).toBeGreaterThan(600);
    const [row = {}] = await server.send("SELECT used FROM policy_quota_use", "quotas");
    expect(Number(row["used"])).toBeLessThanOrEqual(LIMIT);
    console.info(`${runs()} runs of ${LIMIT}; ${kills} kills, ${cuts} cuts; ${JSON.stringify([...codes])}`);
  }, 180_000);
});

describe.skipIf(native === undefined)("quotas in PostgreSQL", () => {
  const read = toolOf("read_thing", { cost: 0.3 });
  const RULES: readonly QuotaRule[] = [
    { name: "calls", per: ["caller"], calls: 150, window: "hour" },
    { name: "cost", per: [], cost: 90, window: "day" },
    { name: "bytes", per: ["tool"], bytes: 1_000_000_000_000, window: "month" },
  ];
  let database: Awaited<ReturnType<typeof clockedDatabase>>;
  let now: number;
  const opened: { readonly quotas: Quotas; readonly close: () => Promise<void> }[] = [];

  /** A process, whose own clock is wrong by `skewMs`. */
  function open(rules = RULES, skewMs = 0): Quotas {
    const state = openState({ url: database.url, now: () => 0 });
    const clock = (): number => now + skewMs;
    const quotas = new Quotas({
      rules,
      state: operationsOn(state, async () => {}),
      clock,
      monotonic: () => performance.now(),
      log: () => {},
    });
    opened.push({ quotas, close: () => state.close() });
    return quotas;
  }

  beforeEach(async () => {
    now = Date.parse("2026-02-16T12:30:00.000Z");
    database = await clockedDatabase(server);
    database.setClock(now);
    const world = createApprovalWorld(async () => database);
    await (await world.open()).close();
    await world.end();
  });
  afterEach(async () => {
    for (const { close } of opened.splice(0)) await close();
  });

  test("four processes, whose clocks differ, let exactly the quota through at the same time", async () => {
    const processes = [0, -3_600_000, 3_600_000, 5_000].map((skewMs) => open(RULES, skewMs));
    const callers = ["ann", "bob"].map((name) => callerOf(name));
    const ends = await Promise.all(
      processes.flatMap((quotas) =>
        callers.flatMap((caller) =>
          Array.from({ length: 60 }, () => run(quotas, { tool: read, caller }, { bytes: 100 })),
        ),
      ),
    );
    const first = ends.filter((end) => end === "ran").length;
    expect(first).toBeGreaterThan(250);
    for (const quotas of processes) {
      await Promise.all(
        callers.flatMap((caller) => Array.from({ length: 20 }, () => run(quotas, { tool: read, caller }))),
      );
    }
    const { uses } = await (processes[0] as Quotas).list({ filter: {}, limit: 10 });
    const used = Object.fromEntries(uses.map(({ quota, subject, used: amount }) => [`${quota} ${subject}`, amount]));
    expect([used["calls ann"], used["calls bob"], used["cost "]]).toEqual([150, 150, 90]);
    for (const { quotas } of opened) await quotas.close();
    const after = await (processes[0] as Quotas).list({ filter: { quota: "bytes" }, limit: 10 });
    expect(after.uses[0]?.used).toBe(first * 100);
  });

  test("the next window begins by the server's clock; a reset, a page and a sweep work there, too", async () => {
    const quotas = open();
    const call = { tool: read, caller: callerOf("ann") };
    const calls = (count: number) => Promise.all(Array.from({ length: count }, () => run(quotas, call)));
    expect((await calls(160)).filter((end) => end === "ran")).toHaveLength(150);
    expect(await quotas.reset({ quota: "calls", issuer: call.caller.issuer, subject: "ann" })).toBe(1);
    expect((await calls(10)).filter((end) => end === "ran")).toHaveLength(10);
    now += 3_600_000;
    database.setClock(now);
    expect((await calls(140)).filter((end) => end === "ran")).toHaveLength(140);
    const page = await quotas.list({ filter: { quota: "calls" }, limit: 1 });
    expect(page.uses.map(({ subject, used }) => [subject, used])).toEqual([["ann", 140]]);
    now += 40 * 86_400_000;
    database.setClock(now);
    await quotas.sweep();
    const [row = {}] = await server.send(
      "SELECT count(*)::int AS count FROM policy_quota_use",
      new URL(database.url).pathname.slice(1),
    );
    expect(row["count"]).toBe(0);
  });

  test("a server that hangs lets calls with a lease through, and refuses others within seconds", async () => {
    const quotas = open([{ name: "calls", per: ["caller"], calls: 1_000, window: "day" }]);
    const call = { tool: read, caller: callerOf("ann") };
    await run(quotas, call);
    server.freeze();
    try {
      expect(await Promise.all(Array.from({ length: 9 }, () => run(quotas, call)))).toEqual(Array(9).fill("ran"));
      const from = performance.now();
      expect(await Promise.all(Array.from({ length: 9 }, () => run(quotas, call)))).toEqual(
        Array(9).fill("POLICY_STATE_UNAVAILABLE"),
      );
      expect(performance.now() - from).toBeLessThan(10_000);
    } finally {
      server.thaw();
    }
    expect(await until("the server", async () => ((await run(quotas, call)) === "ran" ? "ran" : undefined))).toBe(
      "ran",
    );
  });
});
