import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { stringify } from "yaml";
import { AskingService, type Reply } from "../support/asking-service.ts";
import type { DyingWrite } from "../support/dies-at-write.ts";
import { freePorts } from "../support/ports.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { environmentOf, runStc, SIGNATURES_NOT_CHECKED, STC } from "../support/stc.ts";
import { until } from "../support/until.ts";

/**
 * Long: `stc serve` is killed at each moment of a change of a PostgreSQL database: at each of its messages, and at each line of its
 * journal and audit. The next service continues with the same files. What they say then is compared with the database.
 */
const TABLES = `CREATE ROLE reader LOGIN; CREATE ROLE writer LOGIN; CREATE TABLE counters (id int PRIMARY KEY, n int NOT NULL);
INSERT INTO counters SELECT id, 0 FROM generate_series(1, 500) AS id;
GRANT SELECT ON counters TO reader; GRANT SELECT, UPDATE ON counters TO writer;`;

const id = { type: "integer", minimum: 1, maximum: 500 };
const TOOL = {
  ...{ name: "counter_add", description: "Adds one to a counter.", classification: "write" },
  permissions: { required: ["counters"] },
  input: { type: "object", additionalProperties: false, required: ["id"], properties: { id } },
  target: {
    system: "shop",
    sql: {
      statement: "update counters set n = n + 1 where id = $1::int4 returning n",
      parameters: ["{id}"],
      one: true,
      rows: { count: "select count(*) from counters where id = $1::int4" },
    },
  },
  output: { type: "object", required: ["n"], properties: { n: { type: "integer" } } },
  outputPolicy: { n: "allow" },
  examples: { accepts: [{ id: 1 }], rejects: [{ id: "1 or true" }] },
};

/** What the wire does with a message of the service: the service is killed before the message, with it, or with its answer. */
type Cut = "lost" | "arrives" | "withheld";
const CUTS: readonly Cut[] = ["lost", "arrives", "withheld"];

interface WireMoment {
  /** The user whose messages count. */
  readonly user: "writer" | "reader";
  /** Counted from the call. */
  readonly message: number;
  readonly cut: Cut;
  /** Whether the connection is cut with COMMIT, which arrives: the service asks what has become of it. */
  readonly losesCommit?: boolean;
}

/** A connection between the service and the database that knows where in a call it is. */
class CountingWire {
  readonly #sockets = new Set<Socket>();
  readonly #server;
  /** Messages of the service since `arm`, by user. */
  messages: Record<WireMoment["user"], string[]> = { writer: [], reader: [] };
  #moment: WireMoment | undefined;
  #kill: () => void = () => {};

  constructor(port: number) {
    this.#server = createServer((client) => {
      const server = connect(port, "127.0.0.1");
      let user: WireMoment["user"] | undefined;
      let isCut = false;
      let isWithheld = false;
      for (const socket of [client, server]) {
        this.#sockets.add(socket);
        socket.on("error", () => {});
        socket.on("close", () => this.#sockets.delete(socket));
      }
      client.on("data", (sent: Buffer) => {
        if (isCut) return;
        user ??= sent.includes("user\0writer\0") ? "writer" : "reader";
        const cut = this.#cutAt(user, sent);
        if (cut === "withheld") isWithheld = true;
        else if (cut !== undefined) isCut = true;
        if (cut === "lost") server.destroy();
        else server.write(sent);
        if (cut === "arrives") server.end();
        if (isCut) this.#kill();
        if (this.#moment?.losesCommit === true && !isCut && /\bcommit\b/i.test(sent.toString("latin1"))) {
          isCut = true;
          server.end();
          client.destroy();
        }
      });
      server.on("data", (answer) => {
        if (isWithheld) {
          isCut = true;
          this.#kill();
          server.end();
        } else if (!client.destroyed && !isCut) client.write(answer);
      });
      client.on("end", () => server.end());
      client.on("close", () => server.end());
      server.on("close", () => client.destroy());
    });
  }

  async open(): Promise<number> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return (this.#server.address() as { readonly port: number }).port;
  }

  /** Counts from now on, and kills at the moment. */
  arm(kill: () => void, moment?: WireMoment): void {
    this.messages = { writer: [], reader: [] };
    this.#moment = moment;
    this.#kill = kill;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #cutAt(user: WireMoment["user"], sent: Buffer): Cut | undefined {
    const at = this.messages[user].push(sent.toString("latin1")) - 1;
    const moment = this.#moment;
    return moment?.user === user && moment.message === at ? moment.cut : undefined;
  }
}

class KilledService extends AskingService {
  server: PostgresServer | undefined;
  wire: CountingWire | undefined;
  readonly #port = freePorts();
  #child: Bun.Subprocess | undefined;

  override get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async prepare(native: string): Promise<void> {
    this.server = await startPostgres(native);
    await this.server.createDatabase("shop");
    await this.server.send(TABLES, "shop");
    await this.server.trust();
    this.wire = new CountingWire(this.server.port);
    mkdirSync(join(this.folder, "tools"));
    writeFileSync(join(this.folder, "tools/add.tool.yaml"), stringify(TOOL));
    const url = `postgres://127.0.0.1:${await this.wire.open()}/shop`;
    const sql = { url, read: { user: "reader" }, write: { user: "writer" }, connections: 1 };
    const config = {
      server: { port: this.#port },
      audit: { dir: "audit" },
      tools: ["tools"],
      jwt: { issuers: this.issuers.profiles() },
      systems: { shop: { sql } },
      approvals: { store: "sqlite://approvals.sqlite", mode: "yolo" },
    };
    writeFileSync(join(this.folder, "stc.yaml"), stringify(config));
  }

  get isRunning(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Starts the service, in the place of one that runs; false when it is killed before it listens. */
  async start(dying?: DyingWrite): Promise<boolean> {
    if (this.isRunning) {
      this.kill();
      await this.killed();
    }
    const [program = "", ...options] = STC;
    const main = options.pop() ?? "";
    const preload = join(import.meta.dir, "../support/dies-at-write.ts");
    const argv = [program, ...options, "--preload", preload, main, "serve", "--config", join(this.folder, "stc.yaml")];
    const child = Bun.spawn(argv, {
      env: environmentOf({ ...(dying && { DIES_AT: JSON.stringify(dying) }) }),
      cwd: this.folder,
      stdout: "pipe",
      stderr: "inherit",
    });
    this.#child = child;
    let printed = "";
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      printed += text;
      if (printed.includes('"url":"http:')) return true;
    }
    await child.exited;
    return false;
  }

  readonly kill = (): void => this.#child?.kill("SIGKILL");

  /** Waits until the service has been killed, and its connections have ended. */
  async killed(): Promise<void> {
    await this.#child?.exited;
    expect(this.#child?.signalCode).toBe("SIGKILL");
    await until("the end of the connections", async () => {
      const left = await this.server?.send("SELECT 1 FROM pg_stat_activity WHERE usename IN ('reader', 'writer')");
      return left?.length === 0 ? true : undefined;
    });
  }

  /** Calls the tool for a row; undefined when the service does not answer. */
  async add(row: number): Promise<Reply | undefined> {
    const token = await this.agent({ permissions: ["counters"] });
    const headers = { "idempotency-key": `row-${row}` };
    const body = { tool: "counter_add", args: { id: row }, callId: `row-${row}` };
    return this.send("POST", "/call", { token, headers, body }).catch(() => undefined);
  }

  async runsOf(row: number): Promise<number> {
    const [found] = (await this.server?.send(`SELECT n FROM counters WHERE id = ${row}`, "shop")) ?? [];
    return Number(found?.["n"]);
  }

  /** Returns the outcome of a transaction; one whose connection is lost may take a moment to end. */
  async outcomeOf(transaction: unknown): Promise<unknown> {
    return until("the end of a transaction", async () => {
      const [row] = (await this.server?.send(`SELECT pg_xact_status('${transaction}'::xid8) AS status`, "shop")) ?? [];
      return row?.["status"] === "in progress" ? undefined : row?.["status"];
    });
  }

  override async end(): Promise<void> {
    this.kill();
    await this.#child?.exited;
    this.wire?.close();
    await this.server?.end();
    await super.end();
  }
}

type Claim = "executed" | "not executed" | "not executed: no transaction" | "committed" | "aborted";

const native = findPostgres();

describe.skipIf(native === undefined)("a service that is killed during a change", () => {
  const service = new KilledService();
  const claims: Claim[] = [];
  /** Findings of the services, and ends of repeated calls. */
  const findings: string[] = [];
  const repeats: string[] = [];
  /** Rows that have been used: each moment has a row of its own. */
  let rows = 0;
  /** Messages of a change that is not disturbed. */
  let calmCount = 0;
  let moments = 0;
  beforeAll(() => service.prepare(native ?? ""));
  afterAll(() => service.end());

  /** Compares what the files of the killed service say about its call with the database. */
  async function compare(row: number, reply: Reply | undefined): Promise<void> {
    const runs = await service.runsOf(row);
    const [entry, another] = service.entries().filter(({ request }) => request?.callId === `row-${row}`);
    expect(another).toBeUndefined();
    if (reply?.http === 200) expect(entry?.decision).toBe("ALLOWED");
    const claim = await claimOf(entry, row);
    claims.push(claim);
    const isMade = claim === "executed" || claim === "committed";
    expect({ claim, runs }).toEqual({ claim, runs: isMade ? 1 : 0 });
  }

  async function claimOf(entry: ReturnType<KilledService["entry"]>, row: number): Promise<Claim> {
    const journal = service.journal();
    const intent = journal.find(({ type, callId }) => type === "intent" && callId === `row-${row}`);
    if (entry === undefined) {
      expect(intent).toBeUndefined();
      return "not executed";
    }
    if (entry.decision === "ALLOWED") return "executed";
    if (entry.error?.code !== "OUTCOME_UNKNOWN") return "not executed";
    const prepared = journal.filter(({ type, traceId }) => type === "change.prepared" && traceId === entry.traceId);
    if (prepared.length === 0) return "not executed: no transaction";
    expect(prepared.length).toBe(1);
    return (await service.outcomeOf(prepared[0]?.["transaction"])) as Claim;
  }

  /** Compares what the service finds out about its interrupted change with the database; nothing where no change was prepared. */
  async function resolved(row: number, given?: "unknown"): Promise<void> {
    const [entry] = service.entries().filter(({ request }) => request?.callId === `row-${row}`);
    const ofCall = (type: string) =>
      service.journal().filter((line) => line.type === type && line["traceId"] === entry?.traceId);
    const [prepared] = ofCall("change.prepared");
    if (entry?.error?.code !== "OUTCOME_UNKNOWN" || prepared === undefined) return;
    const [found] = await until("what became of the change", () => {
      const lines = ofCall("change.resolved");
      return lines.length > 0 ? lines : undefined;
    });
    const { system, transaction } = prepared;
    const outcome = given ?? (await service.outcomeOf(transaction));
    expect(found).toMatchObject({ system, transaction, outcome });
    if (given === undefined) expect(await service.runsOf(row)).toBe(outcome === "committed" ? 1 : 0);
    findings.push(String(outcome));
  }

  /** Repeats the call with its key, after which the change is made once, unless its outcome is unknown. */
  async function repeat(row: number): Promise<void> {
    const before = await service.runsOf(row);
    const code = await until("the settled key", async () => {
      const again = await service.add(row);
      const refusal = again?.body.error?.code;
      if (again?.http === 200) {
        const withheld = { result: null, filteredFields: ["*"], truncated: true };
        expect(again.body).toMatchObject(again.body.result === null ? withheld : { result: { n: 1 } });
        if (again.body.result === null) expect(before).toBe(1);
        return "answered";
      }
      // The line of the journal is written before the key is settled.
      return refusal === "OUTCOME_UNKNOWN" && isResolved(row) ? undefined : refusal;
    });
    const after = await service.runsOf(row);
    if (code === "answered") expect(after).toBe(1);
    else expect([code, after]).toEqual(["OUTCOME_UNKNOWN", before]);
    repeats.push(code);
  }

  function isResolved(row: number): boolean {
    const [entry] = service.entries().filter(({ request }) => request?.callId === `row-${row}`);
    return service.journal().some(({ type, traceId }) => type === "change.resolved" && traceId === entry?.traceId);
  }

  /**
   * Plays one moment: a call during which the service dies, another service, and the same call again. The other service is the one that
   * dies at the next moment, unless `dying` needs a start of its own.
   */
  async function dies(arrange: (row: number) => Promise<unknown> | unknown, dying?: (row: number) => DyingWrite) {
    rows += 1;
    moments += 1;
    const row = rows;
    if (dying !== undefined || !service.isRunning) expect(await service.start(dying?.(row))).toBe(true);
    await arrange(row);
    const reply = await service.add(row);
    // An answer would mean that the moment did not come.
    expect(reply).toBeUndefined();
    await service.killed();
    service.wire?.arm(() => {});
    return { row, reply };
  }

  async function survived({ row, reply }: { readonly row: number; readonly reply: Reply | undefined }): Promise<void> {
    expect(await service.start()).toBe(true);
    await compare(row, reply);
    await resolved(row);
    await repeat(row);
  }

  test("at each message of its transaction", async () => {
    const calm = await calmMessages();
    calmCount = calm.writer.length;
    const texts = calm.writer.map((text) => text.replaceAll(/[^\x20-\x7e]+/g, " "));
    // The transaction begins, changes the row, and ends, in this order.
    const found = [/BEGIN/, /update counters/, /\bcommit\b/i].map((part) => texts.findIndex((text) => part.test(text)));
    expect([...found].sort((one, other) => one - other)).toEqual(found);
    expect(found[0]).toBeGreaterThanOrEqual(0);
    for (const [message] of texts.entries()) {
      for (const cut of CUTS) {
        await survived(await dies(() => service.wire?.arm(service.kill, { user: "writer", message, cut })));
      }
    }
  });

  /** Returns the messages of a call that is not disturbed. */
  async function calmMessages(): Promise<CountingWire["messages"]> {
    rows += 1;
    expect(await service.start()).toBe(true);
    service.wire?.arm(() => {});
    const reply = await service.add(rows);
    const messages = service.wire?.messages;
    service.kill();
    await service.killed();
    expect(reply?.body.result).toEqual({ n: 1 });
    if (messages === undefined) throw new Error("there is no wire");
    return messages;
  }

  const WRITES: readonly (readonly [line: string, texts: (row: number) => readonly string[]])[] = [
    ["the intent", (row) => ['"type":"intent"', `row-${row}`]],
    ["the transaction", () => ['"type":"change.prepared"']],
    ["the entry", (row) => ['"decision":', `row-${row}`]],
  ];
  const WHEN: readonly DyingWrite["when"][] = ["before", "torn", "written", "synced"];
  test.each(WRITES)("at the line of %s", async (_, texts) => {
    for (const when of WHEN) {
      await survived(
        await dies(
          () => {},
          (row) => ({ texts: texts(row), when }),
        ),
      );
    }
  });

  test("while it counts the rows for the plan", async () => {
    // BEGIN, the count, ROLLBACK.
    for (let message = 0; message < 3; message += 1) {
      for (const cut of CUTS) {
        await survived(await dies(() => service.wire?.arm(service.kill, { user: "reader", message, cut })));
      }
    }
  });

  test("while it asks what has become of a lost COMMIT", async () => {
    // On another connection: its start, BEGIN, the question, ROLLBACK.
    for (let message = calmCount; message < calmCount + 4; message += 1) {
      for (const cut of CUTS) {
        const killed = await dies(() =>
          service.wire?.arm(service.kill, { user: "writer", message, cut, losesCommit: true }),
        );
        await survived(killed);
      }
    }
  });

  /** Kills the service when its change is prepared. */
  const prepared = () =>
    dies(
      () => {},
      () => ({ texts: ['"type":"change.prepared"'], when: "synced" }),
    );

  test("and again while the next service writes its entry", async () => {
    for (const when of WHEN) {
      const killed = await prepared();
      expect(await service.start({ texts: ['"decision":', `row-${killed.row}`], when })).toBe(false);
      await service.killed();
      await survived(killed);
    }
  });

  test("while its database is away, and comes back", async () => {
    const killed = await prepared();
    service.server?.freeze();
    expect(await service.start()).toBe(true);
    service.server?.thaw();
    await resolved(killed.row);
    expect(findings.at(-1)).toBe("aborted");
    // Its tools are checked again.
    await until("the tool", async () => ((await service.add(killed.row))?.http === 200 ? true : undefined));
    expect(await service.runsOf(killed.row)).toBe(1);
    service.kill();
    await service.killed();
  });

  test("and its database starts again, which nobody can tell from another database with its transactions", async () => {
    const killed = await prepared();
    await service.server?.stop();
    await service.server?.start();
    expect(await service.start()).toBe(true);
    await resolved(killed.row, "unknown");
    const again = await service.add(killed.row);
    expect([again?.body.error.code, await service.runsOf(killed.row)]).toEqual(["OUTCOME_UNKNOWN", 0]);
    service.kill();
    await service.killed();
  });

  test("after its answer", async () => {
    rows += 1;
    moments += 1;
    const row = rows;
    expect(await service.start()).toBe(true);
    const reply = await service.add(row);
    service.kill();
    await service.killed();
    expect(reply?.body.result).toEqual({ n: 1 });
    await survived({ row, reply });
  });

  test("leaves an audit that verifies, after more than 40 moments with every kind of outcome", async () => {
    service.kill();
    await service.killed();
    const verified = await runStc(["audit", "verify", "--dir", join(service.folder, "audit")]);
    expect([verified.code, verified.out]).toEqual([SIGNATURES_NOT_CHECKED, expect.not.stringContaining("damage")]);
    const counted = [claims, findings, repeats].map((all) =>
      Object.entries(Object.groupBy<string, string>(all, (one) => one)).map(([one, some]) => `${one} ${some?.length}`),
    );
    console.log(`${moments} moments: ${counted.map((one) => one.join(", ")).join("; found later: ")}`);
    expect([...new Set(findings)].sort()).toEqual(["aborted", "committed", "unknown"]);
    expect(moments).toBeGreaterThanOrEqual(40);
    const kinds: readonly Claim[] = [
      "executed",
      "not executed",
      "not executed: no transaction",
      "committed",
      "aborted",
    ];
    expect([...new Set(claims)].sort()).toEqual([...kinds].sort());
  });
});
