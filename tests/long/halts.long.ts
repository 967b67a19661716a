import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { HaltService } from "../support/halt-service.ts";
import { inTime } from "../support/in-time.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { until } from "../support/until.ts";

const native = findPostgres();
/** The time within which a halt takes effect everywhere. */
const EVERYWHERE_MS = 1_000;
const ROUNDS = 10;

let server: PostgresServer | undefined;
let databases = 0;
let a: HaltService;
let b: HaltService;

beforeAll(async () => {
  if (native !== undefined) server = await startPostgres(native);
});
afterAll(async () => {
  await server?.end();
});
afterEach(async () => {
  server?.thaw();
  await b?.stop();
  await a?.end();
});

const codeOf = ({ body }: { readonly body: { readonly error?: { readonly code: string }; readonly status: string } }) =>
  body.error?.code ?? body.status;

/** Two services with one database and one folder, each with its own audit. */
async function startBoth(approvals: () => Promise<Readonly<Record<string, unknown>>>, sections = {}): Promise<void> {
  a = new HaltService({ audit: "audit-a" });
  b = new HaltService({ audit: "audit-b", folder: a.folder, issuers: a.issuers });
  const own = await approvals();
  await a.start({ approvals: own, ...sections });
  await b.start({ approvals: own, ...sections });
}

const inFile = async () => ({ store: "sqlite://./approvals.sqlite" });

async function inPostgres(): Promise<{ readonly storeUrlFile: string }> {
  databases += 1;
  const url = (await server?.createDatabase(`halts_${databases}`)) ?? "";
  const file = join(a.folder, "store-url");
  fs.writeFileSync(file, url, { mode: 0o600 });
  return { storeUrlFile: file };
}

/** Makes calls of one tool, one after the other, until `stop`; returns when each ended and how. */
function calling(service: HaltService, token: string) {
  const ends: { readonly at: number; readonly code: string }[] = [];
  let isDone = false;
  const work = (async () => {
    while (!isDone) {
      const reply = await service.call("do_read", { token });
      ends.push({ at: performance.now(), code: codeOf(reply) });
    }
  })();
  return {
    ends,
    async stop() {
      isDone = true;
      await work;
    },
  };
}

describe.each([
  ["a SQLite file", inFile, true],
  ["PostgreSQL", inPostgres, native !== undefined],
] as const)("two services with %s", (_name, approvals, isPossible) => {
  describe.skipIf(!isPossible)("share halts", () => {
    beforeEach(() => startBoth(approvals));

    test("a halt stops calls at once where it is set, and within a second at the other; lifting it lets them through", async () => {
      const token = await a.agent();
      await inTime(ROUNDS, EVERYWHERE_MS, async () => {
        const [here, there] = [calling(a, token), calling(b, token)];
        await until("calls at both", () => (here.ends.length > 3 && there.ends.length > 3 ? true : undefined));
        const { body } = await a.halt({ kind: "tool", tool: "do_read" });
        const setAt = performance.now();
        const countHere = here.ends.length;
        await until("HALTED at the other", () => (there.ends.at(-1)?.code === "HALTED" ? true : undefined));
        await Bun.sleep(50);
        await Promise.all([here.stop(), there.stop()]);
        // One call may have been under way.
        expect(here.ends.slice(countHere + 1).filter(({ code }) => code !== "HALTED")).toEqual([]);
        const last = Math.max(...there.ends.filter(({ code }) => code === "success").map(({ at }) => at));
        await b.resume(body.halt.id);
        await until("success at both", async () => {
          const codes = await Promise.all([a, b].map(async (one) => codeOf(await one.call("do_read", { token }))));
          return codes.every((code) => code === "success") ? true : undefined;
        });
        return last - setAt;
      });
    }, 120_000);

    test("calls that wait or run at one end by a halt that is set at the other", async () => {
      const waiting = b.call("do_write", { headers: { prefer: "wait=60" } });
      const running = b.call("slow_write");
      await until("both", () =>
        b.begun.length > 0 && b.journal().some(({ type }) => type === "approval.asked") ? true : undefined,
      );
      await a.halt({ kind: "all", cancelRunning: true });
      expect([codeOf(await waiting), codeOf(await running)]).toEqual(["HALTED", "OUTCOME_UNKNOWN"]);
    });

    test("only one of them journals the end of a halt", async () => {
      const { body } = await a.halt({ kind: "all", forSeconds: 1 });
      const expired = () =>
        [...a.journal(), ...b.journal()].filter(({ type, id }) => type === "halt.expired" && id === body.halt.id);
      await until("the line", () => (expired().length > 0 ? true : undefined));
      await Bun.sleep(1_500);
      expect(expired()).toHaveLength(1);
    });
  });
});

describe.skipIf(native === undefined)("while PostgreSQL hangs", () => {
  beforeEach(() => startBoth(inPostgres, { halts: { whenUnknown: "refuseChanges" } }));

  test("known halts stop calls, halting says that it failed, and changes are refused until it answers", async () => {
    const { body } = await a.halt({ kind: "tool", tool: "do_read" });
    await until("HALTED at the other", async () => (codeOf(await b.call("do_read")) === "HALTED" ? true : undefined));
    server?.freeze();
    expect(codeOf(await b.call("free_write"))).toBe("success");
    const failed = await a.halt({ kind: "all" });
    expect([failed.http, failed.body.error.code]).toEqual([503, "POLICY_STATE_UNAVAILABLE"]);
    await until("uncertain halts", async () =>
      codeOf(await b.call("free_write")) === "POLICY_STATE_UNAVAILABLE" ? true : undefined,
    );
    expect(codeOf(await b.call("do_read"))).toBe("HALTED");
    const reading = b.call("slow_read", { what: "slow" });
    await until("the read", () => (b.begun.at(-1) === "slow" ? true : undefined));
    b.finish();
    expect(codeOf(await reading)).toBe("success");
    server?.thaw();
    await until("known halts", async () => (codeOf(await b.call("free_write")) === "success" ? true : undefined));
    await a.resume(body.halt.id);
    await until("no halt", async () => (codeOf(await b.call("do_read")) === "success" ? true : undefined));
  }, 120_000);
});
