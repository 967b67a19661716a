import type { Asked, Claim, Claimed } from "../../approvals/types.ts";
import type { HubAnswer, HubCallOptions } from "../contract.ts";
import { HubUnavailable } from "../errors.ts";

/** A request that takes an approval for a call, if there is one. */
interface Use {
  readonly call: string;
  readonly answer: Promise<unknown>;
}

/** The call that uses the approval. */
export type UsedBy = Pick<Claim, "requester" | "planDigest">;

interface Sending<Value> {
  /** Passes the request to the client. Rejects with `HubUnavailable` only when the client does, which then calls `late`. */
  readonly request: (options: HubCallOptions) => Promise<HubAnswer>;
  /** Checks the answer's value. @throws {HubUnavailable} when it is malformed */
  readonly read: (value: unknown) => Value;
}

interface UsesOptions {
  /** Tells the hub that an approval was not used. Calls `done` when the hub knows it, or never will. */
  readonly giveBack: (approvalId: string, done: () => void) => void;
}

/**
 * The requests of this process that take approvals. Each is listed until the hub has answered it in time, or has back the approval that
 * it gave too late: meanwhile, the hub says that the approval is in use, although no call runs with it.
 */
export class ApprovalUses {
  readonly #open = new Set<Use>();
  readonly #giveBack: UsesOptions["giveBack"];

  constructor({ giveBack }: UsesOptions) {
    this.#giveBack = giveBack;
  }

  /**
   * Sends a request. Rejects with `HubUnavailable` also when the approval is in use and another request for the same call gets no
   * answer in time: the approval may become usable again.
   */
  async send<Value extends Asked | Claimed>(
    { requester, planDigest }: UsedBy,
    { request, read }: Sending<Value>,
  ): Promise<Value> {
    const call = JSON.stringify([requester.issuer, requester.subject, planDigest]);
    const before = this.#openFor(call);
    const answer = request({ late: (late) => this.#late(use, late) });
    const use: Use = { call, answer };
    this.#open.add(use);
    let answered: HubAnswer;
    try {
      answered = await answer;
      this.#open.delete(use);
    } catch (error) {
      // After `HubUnavailable`, the client calls `late`.
      if (!(error instanceof HubUnavailable)) this.#open.delete(use);
      throw error;
    }
    const value = read(answered.value);
    if (isInUse(value)) await assertAnswered([...before, ...this.#openFor(call)]);
    return value;
  }

  #openFor(call: string): readonly Use[] {
    return [...this.#open].filter((use) => use.call === call);
  }

  #late(use: Use, answer: HubAnswer | undefined): void {
    const done = (): void => void this.#open.delete(use);
    const used = answer?.value as Asked | Claimed | null | undefined;
    if (used?.outcome === "claimed") this.#giveBack(used.approval.id, done);
    else done();
  }
}

function isInUse(value: Asked | Claimed): boolean {
  return value.outcome === "not_approved" && value.approval.state === "claimed";
}

/** @throws {HubUnavailable} */
async function assertAnswered(uses: readonly Use[]): Promise<void> {
  const answers = await Promise.allSettled(uses.map(({ answer }) => answer));
  const isOpen = answers.some((one) => one.status === "rejected" && one.reason instanceof HubUnavailable);
  if (isOpen) throw new HubUnavailable("the approval is in use by a request that got no answer in time");
}
