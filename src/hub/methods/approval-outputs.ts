import { z } from "zod";
import { MODES } from "../../approvals/types.ts";
import { APPROVAL_STATES } from "../../core/types.ts";
import { HubUnavailable } from "../errors.ts";
import type { ApprovalMethodName } from "./approval-inputs.ts";

/** Schemas by which a member checks answers before a call runs because of them. A hub of another release may send more. */

const found = <Value extends z.ZodType>(value: Value) => value.nullish();

const approval = z.looseObject({
  id: z.string(),
  state: z.enum(APPROVAL_STATES),
  planDigest: z.string(),
  requester: z.looseObject({ issuer: z.string(), subject: z.string() }),
});
const grant = z.looseObject({
  id: z.string(),
  issuer: z.string(),
  subject: z.string(),
  session: z.string(),
  grantKey: z.string(),
  approvalId: z.string(),
  grantedBy: z.looseObject({ issuer: z.string(), subject: z.string() }),
});
const session = z.looseObject({ id: z.string(), issuer: z.string(), subject: z.string(), mode: z.enum(MODES) });

const priorApproval = z.looseObject({ id: z.string(), state: z.enum(APPROVAL_STATES) });
const prior = z.looseObject({ usable: priorApproval.optional(), earlier: z.array(priorApproval) });
const claimed = z.looseObject({
  outcome: z.literal("claimed"),
  approval: approval.extend({ state: z.literal("claimed") }),
});

const OUTPUTS: { readonly [Name in ApprovalMethodName]?: z.ZodType } = {
  ask: z.discriminatedUnion("outcome", [
    claimed,
    z.looseObject({ outcome: z.enum(["asked", "denied_before"]), approval }),
    z.looseObject({ outcome: z.literal("outdated"), prior }),
    z.looseObject({ outcome: z.literal("backlog") }),
  ]),
  claim: z.discriminatedUnion("outcome", [
    claimed,
    z.looseObject({ outcome: z.enum(["mismatch", "not_approved"]), approval }),
    z.looseObject({ outcome: z.literal("not_found") }),
  ]),
  priorOf: prior,
  get: found(approval),
  findGrant: found(grant),
  boundedGrants: z.array(grant),
  useGrant: found(grant),
  findSession: found(session),
  hasSessionEnded: z.boolean(),
  claimsOf: z.array(z.looseObject({ id: z.string(), state: z.enum(["claimed", "in_doubt"]) })),
  beginKey: z.looseObject({ outcome: z.enum(["begin", "answered", "running", "unknown", "other_args"]) }),
};

/** Members of an input with which the answer is compared. */
interface Asked {
  readonly id?: string;
  readonly attach?: "any" | { readonly id: string } | undefined;
  readonly claims?: boolean | undefined;
  readonly planDigest?: string;
  readonly grantKey?: string;
  readonly requester?: { readonly issuer: string; readonly subject: string; readonly session?: string | undefined };
}

/**
 * Returns the value of an answer.
 *
 * @throws {HubUnavailable} when no hub gives such an answer to the request
 */
export function checkedOutput(name: ApprovalMethodName, input: object, value: unknown): unknown {
  if (OUTPUTS[name]?.safeParse(value).success === false) throw malformed(name);
  if (value !== null && value !== undefined && !isOf(name, input, value)) throw malformed(name);
  return value;
}

function isOf(name: ApprovalMethodName, asked: Asked, value: unknown): boolean {
  switch (name) {
    case "ask":
    case "claim": {
      const { outcome, approval: used } = value as { outcome: string; approval: z.output<typeof approval> };
      if (outcome !== "claimed") return true;
      return mayUse(used.id, asked) && used.planDigest === asked.planDigest && isOfCaller(used.requester, asked);
    }
    case "findGrant": {
      const granted = value as z.output<typeof grant>;
      return granted.grantKey === asked.grantKey && isOfSession(granted, asked);
    }
    case "boundedGrants":
      return (value as readonly z.output<typeof grant>[]).every((granted) => isOfSession(granted, asked));
    case "get":
    case "useGrant":
      return (value as { readonly id: string }).id === asked.id;
    case "findSession": {
      const opened = value as z.output<typeof session>;
      return opened.id === asked.id && isOfCaller(opened, asked);
    }
    default:
      return true;
  }
}

/** A request names the approval, or wants one that it may use. */
function mayUse(found: string, { id, attach, claims = false }: Asked): boolean {
  if (id !== undefined) return found === id;
  return claims && attach !== undefined && (attach === "any" || attach.id === found);
}

function isOfCaller(
  { issuer, subject }: { readonly issuer: string; readonly subject: string },
  { requester }: Asked,
): boolean {
  return issuer === requester?.issuer && subject === requester.subject;
}

function isOfSession(granted: z.output<typeof grant>, asked: Asked): boolean {
  return isOfCaller(granted, asked) && granted.session === (asked.requester?.session ?? "");
}

function malformed(name: string): HubUnavailable {
  return new HubUnavailable(`the hub's answer to ${name} is malformed`);
}
