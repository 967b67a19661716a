import { existsSync, readFileSync } from "node:fs";
import { type PlainAnswer, PlainHttpClient } from "./plain-http-client.ts";

/** Pause between two tries of a client that tries again. */
const AGAIN_MS = 50;
const TRIES_MAX = 400;

export interface ReplicaLoadOptions {
  /** Where clients connect to, each time. */
  readonly url: () => string;
  /** Authorization headers. */
  readonly agent: string;
  readonly operator: string;
  /** File to which the tools `record` and `approved` append the key of each run. */
  readonly file: string;
  /** Of all clients together. */
  readonly callsPerSecond: number;
  /** Prefix of the keys. Default: one that no other load of the database has. */
  readonly keys?: string;
  /** True when clients send a change again, with its `Idempotency-Key`, until they know what became of it. */
  readonly triesAgain: boolean;
}

type ClientKind = "kept" | "new" | "approvals";
type FailureKind = "read" | ClientKind;
/** The clients for each hundred calls a second. */
const KINDS: readonly ClientKind[] = ["kept", "kept", "kept", "kept", "new", "new", "approvals"];

/** Clients of several replicas: of three calls in ten, a change with an `Idempotency-Key`; the others read. */
export class ReplicaLoad {
  readonly #options: ReplicaLoadOptions;
  readonly #clients: Promise<void>[];
  readonly #id: string;
  #isOver = false;
  #keys = 0;
  calls = 0;
  /** What was not answered as it should: reads of all clients, and what else each kind of client sends. */
  readonly failed: Record<FailureKind, string[]> = { read: [], kept: [], new: [], approvals: [] };
  /** Keys of changes that were answered as done. */
  readonly done: string[] = [];
  /** Keys of changes of which a client that tries again never learned what became of them, with the last answer. */
  readonly unknown = new Map<string, string>();
  approved = 0;

  constructor(options: ReplicaLoadOptions) {
    this.#options = options;
    this.#id = options.keys ?? Bun.randomUUIDv7();
    const kinds = Array.from({ length: Math.ceil(options.callsPerSecond / 100) }, () => KINDS).flat();
    this.#clients = kinds.map((kind) => this.#run(kind, (1_000 * kinds.length) / options.callsPerSecond));
  }

  get clients(): number {
    return this.#clients.length;
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#clients);
  }

  /** Keys of the runs, as the tools have recorded them. */
  runs(): readonly string[] {
    const { file } = this.#options;
    return existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean) : [];
  }

  /** Compares what the target has recorded with what the clients were answered, when the load has stopped. */
  exactness() {
    const runs = this.runs();
    const ran = new Set(runs);
    const known = new Set([...this.done, ...this.unknown.keys()]);
    return {
      /** Number of changes that have run. */
      ran: ran.size,
      /** Answered as done, and not there. */
      lost: this.done.filter((key) => !ran.has(key)),
      twice: repeatedIn(runs),
      /** Have run, and nobody was told that they may have. */
      unexplained: [...ran].filter((key) => !known.has(key)),
    };
  }

  summary(): string {
    const { calls, done, approved, failed, unknown } = this;
    const counts = Object.entries(failed).map(([kind, codes]) => `${kind} ${codes.length}`);
    const ends = `failed: ${counts.join(", ")}; unknown: [${[...unknown.values()].join(", ")}]`;
    return `${calls} calls, ${done.length} changes, of them ${approved} approved; ${ends}`;
  }

  async #run(kind: ClientKind, everyMs: number): Promise<void> {
    const client = new PlainHttpClient(this.#options.url, { keeps: kind === "kept" });
    for (let turn = 0; !this.#isOver; turn += 1) {
      const startedAt = performance.now();
      if (kind === "approvals") await this.#approval(client);
      else if (turn % 10 < 3) await this.#change(kind, client);
      else await this.#expect("read", () => this.#call(client, { tool: "hello", args: {} }));
      await Bun.sleep(Math.max(0, everyMs - (performance.now() - startedAt)));
    }
    client.close();
  }

  #key(): string {
    this.#keys += 1;
    return `${this.#id}-${this.#keys}`;
  }

  #call(client: PlainHttpClient, body: object, headers: Readonly<Record<string, string>> = {}): Promise<PlainAnswer> {
    this.calls += 1;
    return client.send("/call", { headers: { authorization: this.#options.agent, ...headers }, body });
  }

  /** Returns the answer if it has one of the statuses, and otherwise counts a failure. */
  async #expect(
    kind: FailureKind,
    send: () => Promise<PlainAnswer>,
    statuses: readonly number[] = [200],
  ): Promise<PlainAnswer | undefined> {
    const answer = await send().catch((error: Error) => error.message);
    if (typeof answer !== "string" && statuses.includes(answer.status)) return answer;
    this.failed[kind].push(codeOf(answer));
    return undefined;
  }

  async #change(kind: ClientKind, client: PlainHttpClient): Promise<void> {
    const key = this.#key();
    const body = { tool: "record", args: { key } };
    const send = (): Promise<PlainAnswer> => this.#call(client, body, { "idempotency-key": key });
    const isDone = await this.#until(kind, send);
    if (isDone === true) this.done.push(key);
    else if (isDone !== undefined) this.unknown.set(key, isDone);
  }

  async #approval(client: PlainHttpClient): Promise<void> {
    const { operator } = this.#options;
    const key = this.#key();
    const call = { tool: "approved", args: { key } };
    const asked = await this.#again(() => this.#call(client, call), [202]);
    if (asked === undefined) return;
    const { id } = asked.body.approval;
    const decision = { headers: { authorization: operator }, body: { decision: "approve" } };
    // The answer to a decision that was recorded may be lost.
    if ((await this.#again(() => client.send(`/approvals/${id}/decisions`, decision), [200, 409])) === undefined)
      return;
    const isDone = await this.#until("approvals", () => this.#call(client, { ...call, approval: { id } }));
    if (isDone === true) {
      this.approved += 1;
      this.done.push(key);
    } else if (isDone !== undefined) this.unknown.set(key, isDone);
  }

  /** Sends until there is an answer with one of the statuses; only once for clients that do not try again. */
  async #again(send: () => Promise<PlainAnswer>, statuses: readonly number[]): Promise<PlainAnswer | undefined> {
    for (let tries = 1; ; tries += 1) {
      const answer = await this.#expect("approvals", send, statuses);
      if (answer !== undefined || !this.#options.triesAgain || tries === TRIES_MAX) return answer;
      await Bun.sleep(AGAIN_MS);
    }
  }

  /** Returns true when the change is done; the code when nobody can know; undefined for a client that does not try again. */
  async #until(kind: ClientKind, send: () => Promise<PlainAnswer>): Promise<true | string | undefined> {
    let last: string | undefined;
    for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
      const answer = await send().catch((error: Error) => error.message);
      if (typeof answer !== "string" && answer.status === 200) return true;
      last = codeOf(answer);
      if (FINAL.test(last)) return last;
      this.failed[kind].push(last);
      if (!this.#options.triesAgain) return undefined;
      await Bun.sleep(AGAIN_MS);
    }
    return last;
  }
}

/** Of these answers, another try would get no other. */
const FINAL = / (?:OUTCOME_UNKNOWN|APPROVAL_CONSUMED)$/;

function codeOf(answer: PlainAnswer | string): string {
  if (typeof answer === "string") return answer;
  return `${answer.status} ${answer.body?.error?.code ?? answer.body?.status}`;
}

function repeatedIn(keys: readonly string[]): readonly string[] {
  const seen = new Set<string>();
  return keys.filter((key) => seen.size === seen.add(key).size);
}
