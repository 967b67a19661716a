import type { Operation, StateOperations } from "../../src/database/operations.ts";
import type { HubAnswer, HubClient, HubMethod, Pushed, PushSource } from "../../src/hub/contract.ts";
import { HubUnavailable } from "../../src/hub/errors.ts";
import { HubOnly, hubState, stateMethods, statePushes } from "../../src/hub/methods/state.ts";
import { decodeWire, encodeWire } from "../../src/hub/wire.ts";

/** Whether the tests of the shared state run on a database, or on a member of a hub that has it. */
export const stateKind: { now: "database" | "member" } = { now: "database" };

const sent = (value: unknown): unknown => decodeWire(encodeWire(value));

/** The client of a member, without a network: everything passes the wire's encoding and the methods' schemas. */
export class WiredClient implements HubClient {
  readonly #methods: ReadonlyMap<string, HubMethod>;
  readonly #sources: readonly PushSource[];
  readonly #pushed = new Map<string, Pushed>();
  readonly #watchers = new Set<() => void>();
  #ids = 0;
  /** Every answer is lost once, and its request repeated with the same id. */
  losesAnswers = false;
  /** Issuers that the member may speak for; undefined: all. */
  issuers: readonly string[] | undefined;
  /** Names of the methods that were called. */
  readonly calls: string[] = [];
  readonly isConnected = true;

  constructor(operations: StateOperations) {
    this.#methods = new Map(stateMethods(operations).map((method) => [method.name, method]));
    this.#sources = statePushes(operations);
  }

  async call(name: string, input: unknown): Promise<HubAnswer> {
    const method = this.#methods.get(name);
    if (method === undefined) throw new Error(`the hub does not offer ${name}`);
    this.calls.push(name);
    this.#ids += 1;
    const request = {
      member: { name: "m", instance: "i", speaksFor: (issuer: string) => this.issuers?.includes(issuer) ?? true },
      id: `request-${this.#ids}`,
      digest: name,
      signal: new AbortController().signal,
    };
    let answer: HubAnswer | undefined;
    for (let times = this.losesAnswers ? 2 : 1; times > 0; times -= 1) {
      const { value, now } = await method.handle(method.input.parse(sent(input)), request);
      answer = { value: sent(value), now };
    }
    if (answer === undefined) throw new HubUnavailable("no answer");
    return answer;
  }

  /** Sends what the member watches; it stays fresh until `silence`. */
  async push(): Promise<void> {
    for (const { name, current } of this.#sources) {
      const { value, now } = await current();
      this.#pushed.set(name, { value: sent(value), now });
    }
    for (const changed of [...this.#watchers]) changed();
  }

  silence(): void {
    this.#pushed.clear();
  }

  pushed(name: string): Pushed | undefined {
    return this.#pushed.get(name);
  }

  watch(changed: () => void): () => void {
    this.#watchers.add(changed);
    return () => void this.#watchers.delete(changed);
  }

  async close(): Promise<void> {}
}

/** A member's state over a client. What operators do, they do at the hub. */
export function memberState(client: HubClient, atHub: StateOperations): StateOperations {
  const state = hubState(client, { hub: "https://hub.test" });
  return {
    ...state,
    async run<Input, Output>(operation: Operation<Input, Output>, input: Input) {
      try {
        return await state.run(operation, input);
      } catch (error) {
        if (!(error instanceof HubOnly)) throw error;
        return atHub.run(operation, input);
      }
    },
  };
}

/**
 * The state as the tests of this file reach it: `operations` themselves, or as a member of the hub that runs them. `losesAnswers`:
 * the hub does everything that it is asked for twice.
 */
export function stateInUse(operations: StateOperations, { losesAnswers = false } = {}): StateOperations {
  if (stateKind.now === "database") return operations;
  const client = new WiredClient(operations);
  client.losesAnswers = losesAnswers;
  return memberState(client, operations);
}

/** Registers the tests of a file of `tests/` again, for a member. A module that was loaded before would register nothing. */
export async function overHub(path: string): Promise<void> {
  stateKind.now = "member";
  await import(`../${path}?member`);
}
