import { type PlainAnswer, PlainHttpClient } from "../../support/plain-http-client.ts";
import type { Fleet } from "./fleet.ts";
import type { FleetService } from "./service.ts";

const AGAIN_MS = 50;
/** An agent gives up then. */
const TRIES_MAX = 600;
/** Final answers: another try would get the same. */
const FINAL = /^(?:OUTCOME_UNKNOWN|APPROVAL_CONSUMED)$/;

interface StreamOptions {
  readonly fleet: Fleet;
  readonly member: FleetService;
  /** From the start of one change to the start of the next. */
  readonly everyMs: number;
}

/**
 * The agent of one member, which makes one change after another: each with an Idempotency-Key, every second one with an approval. It
 * sends a change again until it knows what became of it.
 */
export class ChangeStream {
  readonly member: FleetService;
  readonly #fleet: Fleet;
  readonly #everyMs: number;
  readonly #ended: Promise<void>;
  #isOver = false;
  /** Keys of the changes that were answered as done. */
  readonly done: string[] = [];
  /** Keys of the changes of which nobody knows what became, with the code. */
  readonly unknown = new Map<string, string>();
  /** Trace ids of all answers. */
  readonly answered: string[] = [];
  /** The codes of all answers, those that never came included. */
  readonly answers: { readonly at: number; readonly code: string }[] = [];
  /** Times at which the changes were done. */
  readonly doneAt: number[] = [];
  approved = 0;

  constructor({ fleet, member, everyMs }: StreamOptions) {
    this.member = member;
    this.#fleet = fleet;
    this.#everyMs = everyMs;
    this.#ended = this.#run();
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#ended;
  }

  async #run(): Promise<void> {
    const client = new PlainHttpClient(() => this.member.url, { keeps: true });
    await Bun.sleep(Math.random() * this.#everyMs);
    for (let turn = 0; !this.#isOver; turn += 1) {
      const startedAt = performance.now();
      await this.#change(client, turn % 2 === 0 ? "record" : "approved");
      await Bun.sleep(Math.max(0, this.#everyMs - (performance.now() - startedAt)));
    }
    client.close();
  }

  async #change(client: PlainHttpClient, tool: "record" | "approved"): Promise<void> {
    const key = `${this.member.name}-${crypto.randomUUID()}`;
    let more: object = {};
    let code = "";
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const answer = await this.#send(client, key, { tool, args: { key }, ...more });
      code = codeOf(answer);
      this.answers.push({ at: performance.now(), code });
      if (answer?.body?.traceId !== undefined) this.answered.push(answer.body.traceId);
      if (answer?.status === 200) {
        this.done.push(key);
        if (tool === "approved") this.approved += 1;
        this.doneAt.push(performance.now());
        return;
      }
      if (FINAL.test(code)) break;
      if (answer?.status === 202) {
        const { id } = answer.body.approval;
        more = { approval: { id } };
        await this.#decide(id);
      } else await Bun.sleep(AGAIN_MS);
    }
    this.unknown.set(key, code);
  }

  async #send(client: PlainHttpClient, key: string, body: object): Promise<PlainAnswer | undefined> {
    const authorization = await this.#fleet.agent(`agent-of-${this.member.name}`);
    return client.send("/call", { headers: { authorization, "idempotency-key": key }, body }).catch(() => undefined);
  }

  /** Asks one hub after the other: the answer to a decision that was recorded may be lost. */
  async #decide(id: string): Promise<void> {
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const hub = this.#fleet.hubs[tries % this.#fleet.hubs.length];
      const path = `/approvals/${id}/decisions`;
      const decided = await this.#fleet.atHub("POST", path, { decision: "approve" }, hub).catch(() => undefined);
      if (decided?.http === 200 || decided?.http === 409) return;
      await Bun.sleep(AGAIN_MS);
    }
  }
}

function codeOf(answer: PlainAnswer | undefined): string {
  if (answer === undefined) return "no answer";
  return answer.body?.error?.code ?? answer.body?.status ?? String(answer.status);
}
