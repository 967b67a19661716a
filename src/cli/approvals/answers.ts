import { z } from "zod";
import { approvalAnswer } from "../../core/api/approvals.ts";
import { canonicalJson, NotJsonError, sha256Hex } from "../../core/digest.ts";
import type { Json } from "../../core/types.ts";

/** Limits for the view in an answer: larger than any view that a service sends. */
const VIEW_LIMITS = { depthMax: 64, nodesMax: 300_000, bytesMax: 2_097_152 } as const;

const view = z.unknown().transform((shown, context): Json => {
  try {
    canonicalJson(shown, VIEW_LIMITS);
    // Returns the value, not its canonical text, so that the members keep the order of the service.
    return shown as Json;
  } catch (error) {
    if (!(error instanceof NotJsonError)) throw error;
    context.addIssue({ code: "custom", message: error.message });
    return z.NEVER;
  }
});

const approval = approvalAnswer.extend({ view: view.optional(), arguments: view.optional() });

export type ShownApproval = z.output<typeof approval>;

const one = z.object({ approval });
const page = z.object({ approvals: z.array(approval), cursor: z.string().nullish() });
const event = z.object({ id: z.string() });

/** Returns whether the view matches its digest. A decision applies to the digest. */
export function isViewOfDigest({ view, viewDigest, planDigest }: ShownApproval): boolean {
  const limits = { ...VIEW_LIMITS, depthMax: VIEW_LIMITS.depthMax + 1 };
  if (view === undefined) return true;
  if (planDigest === undefined) return false;
  return sha256Hex(canonicalJson({ t: "stc/view/v1", planDigest, view }, limits)) === viewDigest;
}

export function readApproval(body: unknown): ShownApproval | undefined {
  return one.safeParse(body).data?.approval;
}

export function readApprovalPage(body: unknown): z.output<typeof page> | undefined {
  return page.safeParse(body).data;
}

export function readEventSubject(data: string): string | undefined {
  try {
    return event.safeParse(JSON.parse(data)).data?.id;
  } catch {
    return undefined;
  }
}
