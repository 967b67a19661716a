import { cutText, membersHeadline, shownText, WHAT_CHARACTERS_MAX } from "../../core/headline.ts";
import { isTable } from "../../core/json.ts";
import type { Headline, Json, ShownPlan } from "../../core/types.ts";

/** The part of a path that is shown; the rest of the headline is for the body. */
const PATH_CHARACTERS_MAX = 120;

/**
 * Returns the method, the path with its query, and the body of a request; for a GraphQL request, its operation and variables. The
 * system's name is shown next to the headline.
 */
export function httpHeadline({ method, url, body, operation }: ShownPlan): Headline {
  if (operation !== undefined) return operationHeadline(operation, body);
  const address = shownText(url);
  const { pathname, search } = URL.parse(address) ?? { pathname: address, search: "" };
  const { text: path, left } = cutText(pathname + search, PATH_CHARACTERS_MAX);
  const sent = body === undefined ? undefined : membersHeadline(body, "member", WHAT_CHARACTERS_MAX - path.length);
  const more = [...(left > 0 ? [`${left} more characters of the path`] : []), sent?.more ?? []].flat();
  return {
    does: shownText(method),
    what: `${path}${left > 0 ? "…" : ""}${sent === undefined ? "" : ` ${sent.what}`}`,
    ...(more.length > 0 && { more: more.join(", ") }),
  };
}

function operationHeadline(operation: Json, body: Json | undefined): Headline {
  const variables = isTable(body) ? (body["variables"] as Json | undefined) : body;
  const { what, ...more } = membersHeadline(variables ?? {}, "variable");
  return { does: shownText(operation), what: what === "" ? "without variables" : what, ...more };
}
