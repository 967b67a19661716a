import { membersHeadline, shownText } from "../../core/headline.ts";
import type { Headline, ShownPlan } from "../../core/types.ts";

/** Returns service and method without their package, and the fields of the message. */
export function grpcHeadline({ path, message = null }: ShownPlan): Headline {
  const method = shownText(path);
  return {
    does: method.slice(Math.max(method.lastIndexOf("."), method.indexOf("/")) + 1),
    ...membersHeadline(message, "field"),
  };
}
