import { Refusal } from "../../core/errors.ts";
import type { BusyReason, Reloaded, ReloadRequester } from "../../runtime/reload/types.ts";
import { json } from "../answers.ts";
import { type Endpoint, endpointsWith } from "../endpoint.ts";

/** What this endpoint needs of the service. */
export interface ReloadPart {
  readonly reload: (by: ReloadRequester) => Promise<Reloaded>;
}

const { endpoint } = endpointsWith<ReloadPart>();

/** Limits of one answer; the log has every problem. */
const PROBLEMS_MAX = 100;
const PROBLEM_CHARACTERS_MAX = 1_000;

const BUSY = {
  rate: ["RATE_LIMITED", "The configuration was read too often: reload.perMinuteMax."],
  lingering: ["OVERLOADED", "Calls are still in progress on several earlier configurations."],
  closing: ["SHUTTING_DOWN", "The service is shutting down."],
} as const satisfies Record<BusyReason, readonly [string, string]>;

export const endpoints: readonly Endpoint<ReloadPart>[] = [
  endpoint({
    method: "POST",
    path: "/reload",
    summary: "Adopt a changed configuration.",
    audience: "operators",
    permission: "service:reload",
    recordsForgeries: true,
    onlyWith: '`reload.trigger` other than `"off"`',
    responses: { 200: {}, 422: { description: "The configuration is refused.", schema: { type: "object" } } },
    audited: "change",
    async handle({ caller: { issuer, subject } }, { reload }) {
      const reloaded = await reload({ issuer, subject });
      if (reloaded.outcome === "busy") {
        const [code, message] = BUSY[reloaded.reason];
        const limit = code === "RATE_LIMITED" && { details: { limit: "reload" } };
        throw new Refusal(code, message, { ...limit, retryAfterMs: reloaded.retryAfterMs });
      }
      if (reloaded.outcome === "refused") {
        const problems = reloaded.problems.slice(0, PROBLEMS_MAX);
        const shown = problems.map((problem) => problem.slice(0, PROBLEM_CHARACTERS_MAX));
        return json(422, { status: "refused", problems: shown, ...reloaded.each });
      }
      const { generation, sha256, outcome } = reloaded;
      return json(200, { status: outcome, generation, hash: sha256, ...reloaded.each });
    },
  }),
];
