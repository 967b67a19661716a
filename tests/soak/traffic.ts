import { KNOWN_CUSTOMERS } from "../../src/cli/development/customers.ts";

/** One kind of call: how often it is made, and the codes that are right for it when nothing is wrong. */
interface Kind {
  readonly name: string;
  readonly weight: number;
  readonly body: unknown;
  readonly codes: readonly string[];
  readonly permissions: readonly string[];
  /** Reaches the gRPC service, and so may be told that it is away. */
  readonly needsTarget: boolean;
}

const ALL = ["bench:run", "customer-data:read", "platform:git:read"];
const local = { permissions: ALL, needsTarget: false } as const;
const remote = { permissions: ALL, needsTarget: true } as const;
const customer = (customerId: string): unknown => ({ tool: "get_customer", args: { customerId } });
const UNKNOWN_CUSTOMER = "3f0c9a52-6b1e-4c77-9d3a-ffffffffffff";

const KINDS: readonly Kind[] = [
  {
    name: "echo",
    weight: 60,
    body: { tool: "bench_echo", args: { text: "x", count: 1 } },
    codes: ["success"],
    ...local,
  },
  { name: "words", weight: 5, body: { tool: "soak_words", args: {} }, codes: ["success"], ...local },
  { name: "customer", weight: 25, body: customer(KNOWN_CUSTOMERS.johnSmith), codes: ["success"], ...remote },
  { name: "no such customer", weight: 3, body: customer(UNKNOWN_CUSTOMER), codes: ["TARGET_REFUSED"], ...remote },
  { name: "leak", weight: 2, body: customer(KNOWN_CUSTOMERS.leaksAsInternal), codes: ["TARGET_FAILED"], ...remote },
  { name: "broken", weight: 2, body: customer(KNOWN_CUSTOMERS.breaksContract), codes: ["INVALID_OUTPUT"], ...remote },
  { name: "git", weight: 1, body: { tool: "git_log", args: { repo: "self", count: 1 } }, codes: ["success"], ...local },
  { name: "bad input", weight: 3, body: { tool: "bench_echo", args: {} }, codes: ["INVALID_INPUT"], ...local },
  { name: "no tool", weight: 1, body: { tool: "no_such_tool", args: {} }, codes: ["TOOL_NOT_FOUND"], ...local },
  {
    ...{ name: "no permission", weight: 3, body: customer(KNOWN_CUSTOMERS.johnSmith), codes: ["PERMISSION_DENIED"] },
    ...{ permissions: ["bench:run"], needsTarget: false },
  },
];

/** What a service that is away, or comes back, makes of calls that need it. */
const AWAY_CODES = ["TARGET_UNAVAILABLE", "TARGET_FAILED", "DEADLINE_EXCEEDED"];
/** What a service that ends makes of any call. */
const ENDING_CODES = ["SHUTTING_DOWN", "CANCELLED", "no answer"];

/** What is being done to the service at the moment, as far as calls can notice. */
export interface Circumstances {
  targetAway: boolean;
  /** Tokens are signed with a key that the service has not fetched yet. */
  keysNew: boolean;
  ending: boolean;
}

export interface TrafficOptions {
  readonly url: () => string;
  readonly token: (sub: string, permissions: readonly string[]) => Promise<string>;
  readonly circumstances: Circumstances;
  readonly callers: number;
}

const TOKEN_MS = 20_000;
const ANSWER_MS = 30_000;

/** Callers that call again and again, as fast as they are let, and know which answers are right. */
export class Traffic {
  readonly #options: TrafficOptions;
  readonly #tokens = new Map<string, { readonly token: Promise<string>; readonly at: number }>();
  /** By kind and code. */
  readonly answers = new Map<string, number>();
  /** What nothing that was done explains; the first ones. */
  readonly unexplained: string[] = [];
  answered = 0;
  lost = 0;
  /** When callers were told that they are strangers, in milliseconds of this process. */
  readonly #strangersAt: number[] = [];
  #perSecond = Number.POSITIVE_INFINITY;
  #nextAt = 0;
  #isOver = false;
  #callers: Promise<void>[] = [];

  constructor(options: TrafficOptions) {
    this.#options = options;
  }

  start(): void {
    this.#callers = Array.from({ length: this.#options.callers }, (_, index) => this.#caller(`agent-${index % 8}`));
  }

  /** Calls a second, of all callers together. */
  pace(perSecond: number): void {
    this.#perSecond = perSecond;
    this.#nextAt = performance.now();
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#callers);
  }

  /** Answers of the last `ms` that told callers that they are strangers. */
  strangers(ms: number): number {
    const from = performance.now() - ms;
    return this.#strangersAt.filter((at) => at >= from).length;
  }

  async #caller(sub: string): Promise<void> {
    while (!this.#isOver) {
      await this.#turn();
      const kind = pick();
      // What was done while the call was under way explains its answer too.
      const before = { ...this.#options.circumstances };
      const code = await this.#call(sub, kind);
      this.#judge(kind, code, [before, this.#options.circumstances]);
    }
  }

  async #turn(): Promise<void> {
    if (this.#perSecond === Number.POSITIVE_INFINITY) return;
    const at = this.#nextAt;
    this.#nextAt = Math.max(at, performance.now() - 1_000) + 1_000 / this.#perSecond;
    const waitMs = at - performance.now();
    if (waitMs > 0) await Bun.sleep(waitMs);
  }

  async #call(sub: string, kind: Kind): Promise<string> {
    try {
      const response = await fetch(`${this.#options.url()}/call`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${await this.#token(sub, kind.permissions)}`,
          "content-type": "application/json",
        },
        body: JSON.stringify(kind.body),
        signal: AbortSignal.timeout(ANSWER_MS),
      });
      const answer = (await response.json()) as { status: string; error?: { code: string } };
      this.answered += 1;
      return answer.error?.code ?? answer.status;
    } catch {
      this.lost += 1;
      return "no answer";
    }
  }

  #token(sub: string, permissions: readonly string[]): Promise<string> {
    const key = `${sub} ${permissions.length}`;
    const known = this.#tokens.get(key);
    if (known !== undefined && performance.now() - known.at < TOKEN_MS) return known.token;
    const token = this.#options.token(sub, permissions);
    this.#tokens.set(key, { token, at: performance.now() });
    return token;
  }

  #judge(kind: Kind, code: string, circumstances: readonly Circumstances[]): void {
    const what = `${kind.name}: ${code}`;
    this.answers.set(what, (this.answers.get(what) ?? 0) + 1);
    if (code === "UNAUTHENTICATED") this.#strangersAt.push(performance.now());
    const allowed = [
      ...kind.codes,
      ...(kind.needsTarget && circumstances.some(({ targetAway }) => targetAway) ? AWAY_CODES : []),
      ...(circumstances.some(({ keysNew }) => keysNew) ? ["UNAUTHENTICATED"] : []),
      ...(circumstances.some(({ ending }) => ending) ? ENDING_CODES : []),
    ];
    if (!allowed.includes(code) && this.unexplained.length < 100) this.unexplained.push(what);
  }
}

/** Every kind as often as it weighs. */
const LOTS: readonly Kind[] = KINDS.flatMap((kind) => Array.from({ length: kind.weight }, () => kind));

function pick(): Kind {
  const kind = LOTS[Math.floor(Math.random() * LOTS.length)];
  if (kind === undefined) throw new Error("no kinds of calls");
  return kind;
}
