import type { FastifyRequest } from "fastify";
import type { Unverified } from "../../approvals/notify/signature.ts";
import { StrangerLimit } from "../../audit/strangers.ts";
import { Refusal } from "../../core/errors.ts";
import type { OperatorDoor } from "../operator-door.ts";

/** Refused messages of one source that get a line of their own; the others are summed up. */
const LINES_PER_MINUTE_MAX = 10;

/** Why a message decided nothing. */
type Reason =
  | Unverified
  | "unreadable"
  | "flood"
  | "replayed"
  | "unknown_user"
  | "revoked_user"
  | "unknown_approval"
  | "other_plan";

/** What somebody tries who may not decide; all else may happen to an honest integration. */
const FORGED: ReadonlySet<string> = new Set<Reason | "own_question">([
  ...([
    "unsigned",
    "late",
    "signature",
    "replayed",
    "unknown_user",
    "revoked_user",
    "other_plan",
    "own_question",
  ] as const),
]);

/** What is journaled of a refusal beside its code. */
interface Refused {
  readonly reason: Reason | "own_question" | "refused";
  readonly refusal: unknown;
}

/** A refusal, and what the journal calls it. */
export class Unheard extends Error {
  readonly reason: Reason | "own_question";
  readonly refusal: Refusal;

  constructor(reason: Reason | "own_question", refusal: Refusal) {
    super(reason);
    this.reason = reason;
    this.refusal = refusal;
  }
}

interface Attempted {
  /** Undefined when there is none of that name: what a stranger calls it is not written down. */
  readonly name: string | undefined;
  readonly request: FastifyRequest;
}

/** Every message that decided nothing leaves a line, as far as nobody fills the journal with them. */
export class RefusedMessages {
  readonly #door: OperatorDoor;
  readonly #limit = new StrangerLimit({ linesPerMinuteMax: LINES_PER_MINUTE_MAX });

  constructor(door: OperatorDoor) {
    this.#door = door;
  }

  async note({ reason, refusal }: Refused, { name, request }: Attempted): Promise<void> {
    const code = refusal instanceof Refusal ? refusal.code : "INTERNAL";
    const nowMs = this.#door.now();
    await this.sumUp(nowMs);
    const source = request.ip;
    if (this.#limit.sumUp({ source, code, traceId: "" }, nowMs) !== undefined) return;
    const type = FORGED.has(reason) ? "approval.forged" : "webhook.refused";
    await this.#door.record({ type, webhook: name, source, reason, code });
  }

  async sumUp(nowMs: number): Promise<void> {
    for (const { source, code, count } of this.#limit.drain(nowMs)) {
      await this.#door.record({ type: "webhook.refused", source, code, count });
    }
  }
}
