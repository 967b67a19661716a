import { beforeAll, describe, expect, test } from "bun:test";
import type { AgentsServer } from "../http/agents-servers.ts";
import { actAs, type Ids, unknownIds } from "./acts.ts";
import { normal } from "./normal.ts";
import { FOREIGN, type Probe, READINGS } from "./probes.ts";
import { lastingRows, normalRows, TABLES, type TablesReader } from "./tables.ts";
import { type Tenant, TenantsWorld } from "./tenants-world.ts";

/** A server and a database that must isolate tenants. */
export interface Setting {
  readonly http: AgentsServer;
  /** Returns the URL of an empty PostgreSQL database; undefined for files of SQLite. */
  readonly store: () => Promise<string | undefined>;
  readonly tables: TablesReader;
}

/** Compares two services: in one, acme has done everything before globex does anything; in the other, acme has done nothing. */
export function testIsolation(name: string, setting: Setting): void {
  describe(name, () => {
    let busy: Awaited<ReturnType<typeof seenByGlobex>>;
    let silent: typeof busy;
    beforeAll(async () => {
      busy = await seenByGlobex(setting, true);
      silent = await seenByGlobex(setting, false);
    });

    test("every answer to globex is the same whether acme has used the service or not; acme's ids are unknown ids", () => {
      for (const [at, answer] of busy.seen.answers.entries()) expect<unknown>(answer).toEqual(silent.seen.answers[at]);
      expect(busy.seen.answers).toHaveLength(silent.seen.answers.length);
    });

    test("globex's log says the same", () => {
      expect(busy.seen.entries).toEqual(silent.seen.entries);
      expect(busy.seen.journal).toEqual(silent.seen.journal);
      expect(busy.seen.entries.length).toBeGreaterThan(10);
    });

    test("globex's calls run: none is taken for one of acme's, or stopped by a halt of acme's", () => {
      expect(busy.seen.done).toEqual(silent.seen.done);
      expect(busy.seen.done.length).toBeGreaterThan(5);
    });

    test("globex's rows are the same", () => {
      expect(busy.seen.rows).toEqual(silent.seen.rows);
    });

    test("nothing that globex asks for changes acme's log, rows or state", () => {
      expect(busy.after).toEqual(busy.before);
      expect(busy.learning).toBe("observing");
    });

    test("the name of acme is in none of the answers, rows and lines of globex", () => {
      expect(named(busy.seen, "acme")).toEqual([]);
    });

    test("nothing is in the log and the rows of the service itself", () => {
      expect(busy.service).toEqual(silent.service);
      expect(busy.service.entries).toEqual([]);
    });

    test("every table of the schema has a row in the list, and acme's acts have left something in each that is a tenant's", () => {
      expect(Object.keys(busy.acmeRows).sort()).toEqual(Object.keys(TABLES).sort());
      const used = Object.entries(busy.acmeRows).filter(([, rows]) => rows.length > 0);
      const expected = Object.keys(TABLES).filter((table) => TABLES[table] === "acts");
      expect(used.map(([table]) => table).sort()).toEqual(expected.sort());
    });

    test("to acme itself, its own ids are known: each gets another answer than globex has got", () => {
      const answers = new Map(busy.foreign);
      const same = busy.own.filter(([asked, answer]) => JSON.stringify(answers.get(asked)) === JSON.stringify(answer));
      expect(busy.own.length).toBeGreaterThan(20);
      expect(same).toEqual([]);
    });
  });
}

type Answers = readonly (readonly [asked: string, answer: unknown])[];

async function ask(world: TenantsWorld, tenant: Tenant, probes: readonly Probe[], ids: Ids): Promise<Answers> {
  const answers: (readonly [string, unknown])[] = [];
  for (const { endpoint, names, ask: send } of probes) {
    const { http, body } = await send(world, tenant, ids);
    const name = `${endpoint} ${names ?? ""} ${answers.length}`;
    answers.push([name, [http, endpoint.endsWith("/metrics") ? metricsIn(body) : normal(body)]]);
  }
  return answers;
}

/** Leaves out metrics that depend on time. */
function metricsIn(body: unknown): unknown {
  return typeof body === "string"
    ? body.split("\n").filter((line) => !/^#|seconds|delay|_bytes|stc_webhook_/.test(line))
    : normal(body);
}

async function seenByGlobex({ http, store, tables }: Setting, isAcmeBusy: boolean) {
  const world = new TenantsWorld();
  try {
    await world.start({ http, postgresUrl: await store() });
    const ids = isAcmeBusy ? await actAs(world, "acme") : unknownIds();
    const halt = { kind: "all", reason: "drill" };
    const halted = isAcmeBusy ? await world.asOperator("acme", "POST", "/halts", { body: halt }) : undefined;
    const before = await stateOf(world, tables);
    const first = await ask(world, "globex", READINGS, ids);
    const foreign = await ask(world, "globex", FOREIGN, ids);
    await actAs(world, "globex");
    const last = await ask(world, "globex", READINGS, ids);
    const after = await stateOf(world, tables);
    const seen = {
      answers: [...first, ...foreign, ...last],
      entries: world.entriesOf("globex").map(normal),
      journal: journalOf(world, "globex").map(normal),
      done: world.done.globex,
      rows: normalRows(await tables(world, "globex")),
    };
    const service = {
      entries: world.entriesOf(undefined),
      journal: journalOf(world, undefined).map(normal),
      rows: normalRows(await tables(world, undefined)),
    };
    const acmeRows = await tables(world, "acme");
    const { learning, own } = halted ? await ownOf(world, ids, halted.body.halt.id) : { learning: "", own: [] };
    return { seen, service, before, after, acmeRows, foreign: numbered(foreign), learning, own };
  } finally {
    await world.end();
  }
}

/** Failed deliveries are recorded when they are repeated, whatever anybody asks. */
function journalOf(world: TenantsWorld, tenant: Tenant | undefined) {
  return world.journalOf(tenant).filter(({ type }) => !type.startsWith("webhook."));
}

/** Returns everything that acme has in its log, its rows and its system. */
async function stateOf(world: TenantsWorld, tables: TablesReader) {
  return {
    entries: world.entriesOf("acme"),
    journal: journalOf(world, "acme"),
    rows: lastingRows(await tables(world, "acme")),
    done: [...world.done.acme],
  };
}

/** Returns the answers to acme itself where its ids are named. */
async function ownOf(world: TenantsWorld, ids: Ids, haltId: string) {
  const { body } = await world.asOperator("acme", "GET", "/tools/notes_read/learning/progress");
  await world.asOperator("acme", "DELETE", `/halts/${haltId}`);
  return { learning: body.learning.state, own: numbered(await ask(world, "acme", NAMING, ids)) };
}

const NAMING = FOREIGN.filter(({ names }) => names !== undefined);

/** Returns the answers to requests that name an id, numbered among themselves. */
function numbered(answers: Answers): Answers {
  return answers
    .map(([name, answer]) => [name.replace(/ \d+$/, ""), answer] as const)
    .filter(([name]) => !name.endsWith(" "))
    .map(([name, answer], at) => [`${name} ${at}`, answer]);
}

/** Returns the texts in which the name occurs. */
function named(seen: Readonly<Record<string, unknown>>, name: string): readonly string[] {
  return Object.values(seen)
    .flatMap((each) => (Array.isArray(each) ? each : [each]))
    .map((each) => JSON.stringify(each))
    .filter((text) => text.includes(name));
}
