import { cutText, membersHeadline, shownText } from "../../core/headline.ts";
import type { Headline, ShownPlan } from "../../core/types.ts";

const NAME_CHARACTERS_MAX = 64;

/** Returns the name of the server's tool, and the arguments that it is sent. */
export function mcpHeadline({ tool, arguments: given = null }: ShownPlan): Headline {
  return { does: cutText(shownText(tool), NAME_CHARACTERS_MAX).text, ...membersHeadline(given) };
}
