import { type GrantBounds, termsInWords } from "../../approvals/grants.ts";
import type { Requester } from "../../approvals/identities.ts";
import type { RiskAssessment } from "../../approvals/risk.ts";
import { type RenderedView, renderView, type Show } from "../../approvals/view.ts";
import type { ApprovalView } from "../../core/approval-view.ts";
import type { Planned } from "../../core/evidence.ts";
import type { FlowJudgement } from "../../data-flow/flow.ts";
import { namesSecret } from "../../detection/sanitize-args.ts";
import type { Detector } from "../../detection/sensitive.ts";
import { secretsOf } from "../redactor.ts";

/** A call as it is shown to people. */
interface ShownCall {
  readonly planned: Pick<Planned, "tool" | "binding" | "plan" | "input" | "digest">;
  readonly requester: Requester;
  readonly assessment: Pick<RiskAssessment, "risk" | "rules" | "notes">;
  readonly reason?: string | undefined;
  /** The widest bounded grant that approvers may give. */
  readonly offer?: GrantBounds | undefined;
  readonly flow?: FlowJudgement | undefined;
  /** Whether an approver may answer for later calls of the session as well. */
  readonly hasGrants?: boolean | undefined;
}

/**
 * Renders what approvers see of a call. What plan and tool say is filled by `viewOf`; grants and what the caller has read, here.
 * Returns undefined when it is too large to show.
 */
export function renderCall(detector: Detector, call: ShownCall): RenderedView | undefined {
  const { planned, requester, assessment, reason, offer, flow, hasGrants } = call;
  const { tool, binding, plan, input, digest: planDigest } = planned;
  const { risk, rules, notes } = assessment;
  const { session } = requester;
  const names = Object.keys(tool.input.shape);
  return renderView({
    tool,
    binding,
    plan,
    input,
    planDigest,
    requester,
    risk,
    rules,
    notes,
    reason,
    others: (show) => ({
      // Holds no argument of the call, so nothing in it is hidden.
      ...(offer !== undefined && { grant: termsInWords(offer.terms, { tool: tool.name, session, names }) }),
      ...(flow !== undefined && dataFlowShown(flow, hasGrants === true, show)),
    }),
    ...secretsOf(detector),
    namesSecret,
  });
}

/** Returns what the caller has read, and where values of the arguments appeared in it. */
function dataFlowShown({ labels: carried = [], origins }: FlowJudgement, hasGrants: boolean, show: Show): ApprovalView {
  const named = origins.filter((one) => one.origins.length > 0);
  if (carried.length === 0 && named.length === 0) return {};
  const offered = hasGrants
    ? named.flatMap(({ argument, questioned }) =>
        vouchable(argument, questioned, show).map((value) => ({ argument: show(argument), value })),
      )
    : [];
  return {
    dataFlow: {
      carried,
      arguments: named.map(({ argument, isDestination, isUntrusted, origins: sources, more }) => ({
        argument: show(argument),
        ...(isDestination && { destination: true }),
        ...(isUntrusted && { untrusted: true }),
        sources: sources.map(({ tool, traceId, of, field, place, at, labels, isTrusted, isWhole }) => ({
          tool,
          traceId,
          ...(of !== "" && { of: show(of) }),
          field: show(field),
          ...(place !== undefined && { place: show(place) }),
          at: new Date(at).toISOString(),
          labels,
          ...(isTrusted && { trusted: true }),
          ...(!isWhole && { part: true }),
        })),
        ...(more > 0 && { more }),
      })),
    },
    ...(offered.length > 0 && { vouchable: offered }),
  };
}

/** Returns the addresses that approvers can vouch for: those that they see as they are, also where an argument's name hides them. */
function vouchable(path: string, questioned: readonly string[], show: Show): readonly string[] {
  const names = ["value", ...path.split(/[.[\]]+/).filter((name) => name !== "")];
  return questioned.filter((text) =>
    names.every((name) => Object.values(Object(show({ [name]: text }))).every((shown) => shown === text)),
  );
}
