import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs, { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { operationsOn, type StateJournal } from "../../src/database/operations.ts";
import type { SharedState } from "../../src/database/shared-state.ts";
import { haltFile } from "../../src/halts/file.ts";
import type { HaltableCall, HaltTarget } from "../../src/halts/halt.ts";
import { Halts, type WhenUnknown } from "../../src/halts/halts.ts";
import { type ApprovalWorld, createApprovalWorld, type JournalLine } from "../support/approvals.ts";
import { stateInUse } from "../support/hub-state.ts";
import { openState } from "../support/shared-state.ts";

const BY = { issuer: "https://staff.example", subject: "olga" };
const POLL_MS = 500;
const STALE_MS = 5_000;

/** Processes that share one database, whose clock and whose answers a test controls. */
class Fleet {
  readonly world: ApprovalWorld;
  readonly lines: JournalLine[] = [];
  readonly logged: string[] = [];
  readonly dir = mkdtempSync(join(tmpdir(), "stc-halts-"));
  /** The monotonic clock; the wall clocks of the processes are wrong by `skewMs`. */
  monotonic = 0;
  skewMs = 0;
  isAway = false;
  journalFails = false;
  #ids = 0;

  constructor(world: ApprovalWorld) {
    this.world = world;
  }

  advance(ms: number): void {
    this.monotonic += ms;
    this.world.now += ms;
  }

  process(name: string, whenUnknown: WhenUnknown = "keepLast"): Process {
    return new Process(this, name, whenUnknown);
  }

  state(): SharedState {
    const inner = openState({ url: this.world.url, now: () => this.world.now });
    const answered = <T>(work: () => Promise<T>): Promise<T> =>
      this.isAway ? Promise.reject(new Error("the database is away")) : work();
    return {
      ...inner,
      read: (work) => answered(() => inner.read(work)),
      write: (work) => answered(() => inner.write(work)),
      // Tests poll themselves.
      watch: () => () => {},
    };
  }

  nextId(): string {
    this.#ids += 1;
    return `halt-${this.#ids}`;
  }

  end(): void {
    fs.rmSync(this.dir, { recursive: true, force: true });
  }
}

class Process {
  readonly fleet: Fleet;
  readonly path: string;
  readonly whenUnknown: WhenUnknown;
  readonly #state: SharedState;
  halts: Halts;

  constructor(fleet: Fleet, name: string, whenUnknown: WhenUnknown) {
    this.fleet = fleet;
    this.path = join(fleet.dir, `${name}.json`);
    this.whenUnknown = whenUnknown;
    this.#state = fleet.state();
    this.halts = this.#make();
  }

  #make(): Halts {
    const { fleet } = this;
    const journal: StateJournal = async (line) => {
      if (fleet.journalFails) throw new Error("the journal fails");
      fleet.lines.push(line as JournalLine);
    };
    return new Halts({
      state: stateInUse(operationsOn(this.#state, journal)),
      file: haltFile(this.path),
      journal,
      newId: () => fleet.nextId(),
      clock: () => fleet.world.now + fleet.skewMs,
      monotonic: () => fleet.monotonic,
      log: (message) => fleet.logged.push(message),
      whenUnknown: this.whenUnknown,
    });
  }

  async restart(): Promise<this> {
    this.halts.close();
    this.halts = this.#make();
    await this.halts.start();
    return this;
  }

  poll(): Promise<void> {
    return this.halts.refresh().catch(() => {});
  }

  /** The code with which a call would be refused. */
  verdict(call: Partial<Called> = {}): string {
    return this.halts.refusalFor(callOf(call))?.code ?? "passes";
  }

  close(): Promise<void> {
    this.halts.close();
    return this.#state.close();
  }
}

interface Called {
  readonly tool: string;
  readonly system: string;
  readonly changes: boolean;
  readonly issuer: string;
  readonly subject: string;
  readonly actors: readonly string[];
  readonly actorIssuers: readonly (string | undefined)[];
  readonly sid: string | undefined;
  readonly session: string | undefined;
}

function callOf(call: Partial<Called>): HaltableCall {
  const { tool = "t", system = "s", changes = false, issuer = "i", subject = "a", actors = [], sid, session } = call;
  const { actorIssuers } = call;
  return {
    tool: { name: tool, classification: changes ? "write" : "read", target: { system } },
    caller: { issuer, subject, actors, actorIssuers, session: sid },
    session,
  } as unknown as HaltableCall;
}

const target = (kind: HaltTarget["kind"], value = "", issuer = ""): HaltTarget => ({ kind, value, issuer });
const within = (tenant: string, halted: HaltTarget = ALL): HaltTarget => ({ ...halted, tenant });
const ALL = target("all");
const ACTORS = { actors: ["y", "x"] };

let world: ApprovalWorld;
let fleet: Fleet;
const opened: Process[] = [];
beforeEach(async () => {
  world = createApprovalWorld();
  await world.open();
  fleet = new Fleet(world);
});
afterEach(async () => {
  for (const process of opened.splice(0)) await process.close();
  fleet.end();
  await world.end();
});

async function started(name = "one", whenUnknown?: WhenUnknown): Promise<Process> {
  const process = fleet.process(name, whenUnknown);
  opened.push(process);
  await process.halts.start();
  return process;
}

async function set({ halts }: Process, halted: HaltTarget, forMs?: number): Promise<string> {
  const made = await halts.set({ target: halted, reason: "r", cancelRunning: false, until: undefined, forMs, by: BY });
  if (made.outcome !== "set") throw new Error(made.outcome);
  return made.halt.id;
}

describe("a call is stopped by a halt of", () => {
  test.each<[string, HaltTarget, Partial<Called>, boolean]>([
    ["everything", ALL, {}, true],
    ["its tool", target("tool", "t"), {}, true],
    ["another tool", target("tool", "T"), {}, false],
    ["its system", target("system", "s"), {}, true],
    ["a system with its tool's name", target("system", "t"), {}, false],
    ["its caller", target("caller", "a", "i"), {}, true],
    ["a caller of another issuer", target("caller", "a", "j"), {}, false],
    ["a caller whose issuer and subject join to the same text", target("caller", "ia", ""), {}, false],
    ["an actor of its chain that names no issuer", target("caller", "x", "j"), { actors: ["y", "x"] }, true],
    ["an actor that names its issuer", target("caller", "x", "j"), { ...ACTORS, actorIssuers: [undefined, "j"] }, true],
    [
      "its actor's namesake at another issuer",
      target("caller", "x", "k"),
      { ...ACTORS, actorIssuers: ["k", "j"] },
      false,
    ],
    ["the session of its token", target("session", "sid:1"), { sid: "sid:1", session: "2" }, true],
    ["the session that it names", target("session", "2"), { session: "2" }, true],
    ["a prototype's member", target("tool", "constructor"), {}, false],
  ])("%s", async (_title, halted, call, isStopped) => {
    const process = await started();
    await set(process, halted);
    expect(process.verdict(call)).toBe(isStopped ? "HALTED" : "passes");
  });
});

test("several halts that stop a call: it is told the latest end, or none if one has none", async () => {
  const process = await started();
  await set(process, ALL, 1_000);
  await set(process, target("tool", "t"), 5_000);
  const first = process.halts.refusalFor(callOf({}));
  expect([first?.retryAfterMs, first?.findings?.map(({ reason }) => reason)]).toEqual([
    5_000,
    ["halt halt-1", "halt halt-2"],
  ]);
  await set(process, target("caller", "a", "i"));
  const second = process.halts.refusalFor(callOf({}));
  expect([second?.retryAfterMs, second?.details]).toEqual([undefined, undefined]);
});

test("a thousand halts are in force, and no more", async () => {
  const process = await started();
  await process.fleet.world.open();
  const state = fleet.state();
  await state.write(async (sql) => {
    for (let index = 0; index < 999; index += 1) {
      await sql`INSERT INTO policy_halts (id, kind, issuer, value, reason, cancels_running, set_issuer, set_subject, set_at)
        VALUES (${`h${index}`}, 'caller', 'i', ${`other-${index}`}, 'r', 0, 'i', 's', 1)`;
    }
  });
  await state.close();
  await set(process, target("caller", "last", "i"));
  const refused = await process.halts.set({ target: ALL, reason: "r", cancelRunning: false, until: undefined, by: BY });
  expect(refused.outcome).toBe("too_many");
  expect([process.verdict(), process.verdict({ subject: "other-500" }), process.verdict({ subject: "last" })]).toEqual([
    "passes",
    "HALTED",
    "HALTED",
  ]);
});

test("a halt whose line cannot be written is not set, and one that cannot be journaled stays when it is lifted", async () => {
  const process = await started();
  const id = await set(process, target("tool", "t"));
  fleet.journalFails = true;
  expect(await set(process, ALL).catch((error: Error) => error.message)).toBe("the journal fails");
  expect(await process.halts.lift(id, BY).catch((error: Error) => error.message)).toBe("the journal fails");
  fleet.journalFails = false;
  await process.poll();
  expect([process.verdict(), process.verdict({ tool: "other" })]).toEqual(["HALTED", "passes"]);
});

describe("while the database is away", () => {
  test("known halts stay, and end when their time comes, whatever the clock of the process says", async () => {
    const process = await started();
    await set(process, ALL, 60_000);
    fleet.isAway = true;
    fleet.skewMs = 3_600_000;
    fleet.advance(59_000);
    await process.poll();
    expect(process.verdict()).toBe("HALTED");
    fleet.advance(1_000);
    expect(process.verdict()).toBe("passes");
    expect(process.halts.describe()).toEqual({ scope: "shared", status: "stale", active: 0 });
  });

  test("a restarted process knows its halts from disk, with their time by the database's clock", async () => {
    const process = await started();
    fleet.skewMs = -7_200_000;
    await set(process, target("tool", "t"), 60_000);
    await set(process, target("system", "other"));
    fleet.isAway = true;
    await process.restart();
    expect([process.verdict(), process.verdict({ changes: true, tool: "x" })]).toEqual(["HALTED", "passes"]);
    fleet.advance(60_001);
    expect([process.verdict(), process.verdict({ system: "other" })]).toEqual(["passes", "HALTED"]);
    expect(fs.statSync(process.path).mode & 0o777).toBe(0o600);
  });

  test("a process that has never known the halts refuses changes, and nothing else, until it does", async () => {
    fleet.isAway = true;
    const process = await started();
    expect(process.halts.describe().status).toBe("unknown");
    const refusal = process.halts.refusalFor(callOf({ changes: true }));
    expect([refusal?.code, refusal?.findings?.[0]?.reason]).toEqual([
      "POLICY_STATE_UNAVAILABLE",
      "the halts are not known",
    ]);
    expect(process.verdict()).toBe("passes");
    fleet.isAway = false;
    await process.poll();
    expect(process.verdict({ changes: true })).toBe("passes");
    // Also that there are no halts is known at the next start.
    fleet.isAway = true;
    await process.restart();
    expect(process.verdict({ changes: true })).toBe("passes");
  });

  test.each([
    ["cut", (text: string) => text.slice(0, -20)],
    ["changed", (text: string) => text.replace('"kind":"all"', '"kind":"tool"')],
    ["empty", () => ""],
    ["something else", () => "[]\n\n"],
  ])(
    "a file that is %s is logged and journaled, and changes are refused until the halts are read",
    async (_how, damage) => {
      const process = await started();
      await set(process, ALL);
      fs.writeFileSync(process.path, damage(fs.readFileSync(process.path, "utf8")));
      fleet.isAway = true;
      await process.restart();
      expect([process.verdict(), process.verdict({ changes: true })]).toEqual(["passes", "POLICY_STATE_UNAVAILABLE"]);
      expect(fleet.lines.at(-1)).toMatchObject({ type: "halts.unreadable" });
      expect(fleet.logged.join("\n")).toContain("the file with the last known halts is unusable");
      fleet.isAway = false;
      await process.poll();
      expect(process.verdict()).toBe("HALTED");
      fleet.isAway = true;
      await process.restart();
      expect(process.verdict()).toBe("HALTED");
    },
  );

  test("a link in place of the file is not followed", async () => {
    const process = await started();
    fs.rmSync(process.path);
    fs.symlinkSync("/etc/passwd", process.path);
    fleet.isAway = true;
    await process.restart();
    expect(process.verdict({ changes: true })).toBe("POLICY_STATE_UNAVAILABLE");
  });

  test("with refuseChanges, changes are refused after five seconds, and pass when the database answers again", async () => {
    const process = await started("strict", "refuseChanges");
    const lax = await started("lax");
    fleet.isAway = true;
    fleet.advance(STALE_MS);
    await Promise.all([process.poll(), lax.poll()]);
    expect(process.verdict({ changes: true })).toBe("passes");
    fleet.advance(1);
    await Promise.all([process.poll(), lax.poll()]);
    expect([process.verdict({ changes: true }), process.verdict(), lax.verdict({ changes: true })]).toEqual([
      "POLICY_STATE_UNAVAILABLE",
      "passes",
      "passes",
    ]);
    lax.halts.change("refuseChanges");
    expect(lax.verdict({ changes: true })).toBe("POLICY_STATE_UNAVAILABLE");
    fleet.isAway = false;
    await process.poll();
    expect(process.verdict({ changes: true })).toBe("passes");
  });
});

test("without a shared state, halts are this process's: nothing is read, written to disk or followed", async () => {
  const state = openState({ now: () => world.now });
  const read: string[] = [];
  const counted: SharedState = {
    ...state,
    read(work) {
      read.push("read");
      return state.read(work);
    },
  };
  const halts = new Halts({
    state: operationsOn(counted, async () => {}),
    ...{ file: undefined, journal: async () => {}, newId: () => "h", clock: () => world.now, monotonic: () => 0 },
    ...{ log: () => {}, whenUnknown: "refuseChanges" },
  });
  await halts.start();
  expect([halts.refusalFor(callOf({ changes: true })), read]).toEqual([undefined, []]);
  await halts.set({ target: ALL, reason: "r", cancelRunning: false, until: undefined, by: BY });
  expect(halts.refusalFor(callOf({}))?.code).toBe("HALTED");
  expect(halts.describe()).toEqual({ scope: "process", status: "ok", active: 1 });
  await state.close();
});

describe("in a tenant", () => {
  const endings: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const end of endings.splice(0)) await end();
  });

  /** The tenant's own halts, which are in its memory alone. */
  function tenantOf({ halts }: Process, name: string): Halts {
    const state = openState({ now: () => world.now });
    const tenant = new Halts({
      state: operationsOn(state, async () => {}),
      ...{ file: undefined, journal: async () => {}, newId: () => `own-${name}` },
      ...{ clock: () => world.now, monotonic: () => fleet.monotonic, log: () => {}, whenUnknown: "keepLast" },
      serviceHalts: halts.forTenant(name),
    });
    endings.push(async () => {
      tenant.close();
      await state.close();
    });
    return tenant;
  }

  /** The codes and findings of a call to the service itself, to acme and to globex. */
  function verdicts(service: Process, tenants: readonly Halts[], call: Partial<Called> = {}) {
    return [service.halts, ...tenants].map((halts) => {
      const refusal = halts.refusalFor(callOf(call));
      return refusal && [refusal.code, ...(refusal.findings ?? []).map(({ reason }) => String(reason))];
    });
  }

  test.each<[string, HaltTarget, readonly string[]]>([
    [
      "of everything is in force in the service and in every tenant",
      ALL,
      ["halt halt-1", "halt halt-1 of the service"],
    ],
    ["of a tool, too", target("tool", "t"), ["halt halt-1", "halt halt-1 of the service"]],
    ["that names another tenant is in force in none of them", within("other"), []],
    ["of a tool with the tenant's name stops nothing", target("tool", "acme"), []],
  ])("a halt of the service %s", async (_title, halted, [own, inTenants = ""]) => {
    const service = await started();
    const tenants = [tenantOf(service, "acme"), tenantOf(service, "globex")];
    await set(service, halted);
    const refused = own === undefined ? undefined : ["HALTED", inTenants];
    const stopsAll = own !== undefined && halted.kind === "all";
    expect(verdicts(service, tenants)).toEqual([own === undefined ? undefined : ["HALTED", own], refused, refused]);
    expect(tenants.map((each) => each.stopsAll())).toEqual([stopsAll, stopsAll]);
  });

  test("a halt that names a tenant stops all calls of that tenant, and none of the service or of another", async () => {
    const service = await started();
    const [acme, globex] = [tenantOf(service, "acme"), tenantOf(service, "globex")];
    await set(service, within("acme"), 60_000);
    expect(fleet.lines.at(-1)).toMatchObject({ type: "halt.set", kind: "all", haltedTenant: "acme" });
    const halted = ["HALTED", "halt halt-1 of the service"];
    expect(verdicts(service, [acme, globex])).toEqual([undefined, halted, undefined]);
    expect([service.halts.stopsAll(), acme.stopsAll(), globex.stopsAll()]).toEqual([false, true, false]);
    fleet.advance(60_000);
    expect(verdicts(service, [acme, globex])).toEqual([undefined, undefined, undefined]);
  });

  test("a halt of a tool in a tenant stops its calls there alone, also after a restart without the database", async () => {
    const service = await started();
    await set(service, within("acme", target("tool", "t")));
    fleet.isAway = true;
    await service.restart();
    const tenants = [tenantOf(service, "acme"), tenantOf(service, "globex")];
    const halted = ["HALTED", "halt halt-1 of the service"];
    expect(verdicts(service, tenants)).toEqual([undefined, halted, undefined]);
    expect(verdicts(service, tenants, { tool: "other" })).toEqual([undefined, undefined, undefined]);
    expect(tenants.map((each) => each.stopsAll())).toEqual([false, false]);
  });

  test("a halt of the tenant's own stops its calls alone, whatever it names", async () => {
    const service = await started();
    const [acme, globex] = [tenantOf(service, "acme"), tenantOf(service, "globex")];
    const order = { reason: "r", cancelRunning: false, until: undefined, by: BY };
    await acme.set({ target: ALL, ...order });
    await globex.set({ target: within("acme"), ...order });
    expect(verdicts(service, [acme, globex])).toEqual([undefined, ["HALTED", "halt own-acme"], undefined]);
    expect([service.halts.stopsAll(), acme.stopsAll(), globex.stopsAll()]).toEqual([false, true, false]);
    // The service's halt is found although the tenant has one of its own, which does not match.
    await set(service, target("tool", "t"));
    expect(verdicts(service, [globex])[1]).toEqual(["HALTED", "halt halt-1 of the service"]);
  });

  test("a new halt of the service is passed to a tenant, with the calls that it stops there", async () => {
    const service = await started();
    const heard: string[] = [];
    for (const name of ["acme", "globex"]) {
      tenantOf(service, name).listen((added, cancelling) => {
        const code = (halting: typeof added) => halting(callOf({}))?.code ?? "passes";
        heard.push(`${name}: ${code(added)}, running ${code(cancelling)}`);
      });
    }
    const halt = (name: string, cancelRunning: boolean) =>
      service.halts.set({ target: within(name), reason: "r", cancelRunning, until: undefined, by: BY });
    await halt("acme", true);
    await halt("globex", false);
    expect(heard).toEqual([
      "acme: HALTED, running HALTED",
      "globex: passes, running passes",
      "acme: passes, running passes",
      "globex: HALTED, running passes",
    ]);
  });

  test("a tenant refuses changes while the service's halts are not known, and a halted call as halted", async () => {
    fleet.isAway = true;
    const service = await started();
    const acme = tenantOf(service, "acme");
    expect(verdicts(service, [acme], { changes: true })[1]).toEqual([
      "POLICY_STATE_UNAVAILABLE",
      "the halts are not known",
    ]);
    expect(verdicts(service, [acme])[1]).toBeUndefined();
    await acme.set({ target: ALL, reason: "r", cancelRunning: false, until: undefined, by: BY });
    expect(verdicts(service, [acme], { changes: true })[1]).toEqual(["HALTED", "halt own-acme"]);
  });
});

type Step =
  | { readonly kind: "halt"; readonly at: number; readonly tool: number; readonly forMs: number | undefined }
  | { readonly kind: "resume"; readonly at: number; readonly which: number }
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "restart"; readonly at: number }
  | { readonly kind: "away" | "back" };

const at = fc.nat({ max: 1 });
const steps = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant("halt" as const),
        at,
        tool: fc.nat({ max: 2 }),
        forMs: fc.constantFrom(undefined, 700, 3_000),
      }),
    },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant("resume" as const), at, which: fc.nat({ max: 9 }) }) },
    {
      weight: 4,
      arbitrary: fc.record({ kind: fc.constant("wait" as const), ms: fc.constantFrom(100, 500, 1_000, 4_000) }),
    },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant("restart" as const), at }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom(...(["away", "back", "back"] as const)) }) },
  ),
  { minLength: 5, maxLength: 40 },
) satisfies fc.Arbitrary<readonly Step[]>;

test("no order of halts, ends, restarts and outages lets a halted call through for more than a poll", async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (walk) => {
      const own = createApprovalWorld();
      await own.open();
      const mine = new Fleet(own);
      const processes = [mine.process("0"), mine.process("1")];
      try {
        for (const process of processes) await process.halts.start();
        /** Changes in their order, and up to which one each process has read. */
        const model: { id: string; tool: string; until: number; set: number; lifted: number }[] = [];
        let changes = 0;
        const read = [0, 0];
        const noteRead = (index: number) => {
          if (!mine.isAway) read[index] = changes;
        };
        for (const step of walk) {
          if (step.kind === "away" || step.kind === "back") mine.isAway = step.kind === "away";
          // The processes poll while time passes.
          for (let left = step.kind === "wait" ? step.ms : 0; left > 0; left -= POLL_MS) {
            mine.advance(Math.min(left, POLL_MS));
            if (left < POLL_MS) break;
            await Promise.all(processes.map((process) => process.poll()));
            for (const index of processes.keys()) noteRead(index);
          }
          const process = "at" in step ? processes[step.at] : undefined;
          if (step.kind === "halt" && process !== undefined) {
            const id = await set(process, target("tool", `t${step.tool}`), step.forMs).catch(() => undefined);
            expect(id === undefined).toBe(mine.isAway);
            const until = step.forMs === undefined ? Number.POSITIVE_INFINITY : own.now + step.forMs;
            changes += 1;
            if (id !== undefined)
              model.push({ id, tool: `t${step.tool}`, until, set: changes, lifted: Number.POSITIVE_INFINITY });
            noteRead(step.at);
          }
          if (step.kind === "resume" && process !== undefined) {
            const chosen = model[step.which % Math.max(model.length, 1)];
            const lifted = await process.halts.lift(chosen?.id ?? "none", BY).catch(() => undefined);
            changes += 1;
            if (lifted !== undefined && chosen !== undefined) chosen.lifted = changes;
            noteRead(step.at);
          }
          if (step.kind === "restart") {
            await process?.restart();
            noteRead(step.at);
          }
          for (const [index, each] of processes.entries()) {
            const known = read[index] ?? 0;
            for (const tool of ["t0", "t1", "t2"]) {
              // A process that cannot read keeps what it knew, and that only.
              const isHalted = model.some(
                (halt) => halt.tool === tool && halt.until > own.now && halt.set <= known && halt.lifted > known,
              );
              const verdict = each.verdict({ tool, changes: true });
              expect({ step, tool, verdict }).toEqual({ step, tool, verdict: isHalted ? "HALTED" : "passes" });
            }
          }
        }
      } finally {
        for (const process of processes) await process.close();
        mine.end();
        await own.end();
      }
    }),
    { numRuns: 25, endOnFailure: false },
  );
});
