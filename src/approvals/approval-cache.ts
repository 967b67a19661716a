import type { Approver } from "./identities.ts";
import type { Approval, Approvals, Decided, Decision, Grant } from "./types.ts";

/** The part of `SafeToolCall` that a cache uses. */
interface GrantKeeper {
  approval(id: string): Promise<Approval | undefined>;
  decide(decision: Decision): Promise<Decided>;
  grants(filter?: { readonly session?: string }): Promise<readonly Grant[]>;
  revoke: Approvals["revoke"];
  revokeGrant: Approvals["revokeGrant"];
}

/** Exactly one call: the pending result that it got. */
export interface AskedCall {
  readonly approval: { readonly id: string };
}

/**
 * Decisions about calls, remembered for a session (`sid:` and the token's `sid`). They are grants in the approvals' store
 * (`approvals.store`): each covers the same call with the same arguments, survives a restart, and ends as other grants do.
 *
 * Rejected: an approval by the tool's name, which would cover arguments that nobody has seen.
 */
export class ApprovalCache {
  readonly #keeper: GrantKeeper;
  readonly #by: Approver;

  /** `by`: the approver in whose name the program decides; the program vouches for it. */
  constructor(keeper: GrantKeeper, by: Approver) {
    this.#keeper = keeper;
    this.#by = by;
  }

  /**
   * Approves the call for the session, or denies it. Returns false when the decision does not count: the call does not belong to the
   * session, is already decided, or may not be remembered.
   */
  async set(session: string, { approval: { id } }: AskedCall, approved: boolean): Promise<boolean> {
    if ((await this.#requestOf(session, id)) === undefined) return false;
    const answer = approved ? ({ decision: "approve", scope: "session" } as const) : ({ decision: "deny" } as const);
    const { outcome } = await this.#keeper.decide({ id, by: this.#by, ...answer });
    return outcome === "decided" || outcome === "counted";
  }

  /** Returns the decision about the call; undefined when it is not decided, or its approval has ended. */
  async get(session: string, { approval: { id } }: AskedCall): Promise<boolean | undefined> {
    const asked = await this.#requestOf(session, id);
    if (asked?.state === "denied") return false;
    if (asked === undefined) return undefined;
    const held = await this.#keeper.grants({ session });
    return held.some(({ approvalId, bounded }) => approvalId === id && bounded === undefined) || undefined;
  }

  async has(session: string, call: AskedCall): Promise<boolean> {
    return (await this.get(session, call)) !== undefined;
  }

  /** Ends all grants of the session, and takes back its approvals that no call has used. */
  async clear(session: string): Promise<void> {
    await this.#revokeAll({ session });
  }

  /** Ends all grants of all sessions. */
  async clearAll(): Promise<void> {
    await this.#revokeAll({});
  }

  async #requestOf(session: string, id: string): Promise<Approval | undefined> {
    const asked = await this.#keeper.approval(id);
    return asked?.requester.session === session ? asked : undefined;
  }

  /** Lists again until none is left: a list has an upper bound. */
  async #revokeAll(filter: { readonly session?: string }): Promise<void> {
    for (;;) {
      const held = await this.#keeper.grants(filter);
      if (held.length === 0) return;
      for (const { id, approvalId } of held) {
        // The approved call itself may not have run yet.
        await this.#keeper.revoke(approvalId, this.#by);
        await this.#keeper.revokeGrant(id, this.#by);
      }
    }
  }
}
