import type { CallerName } from "../caller.tsx";
import { SOURCE } from "../calls/fleet.tsx";
import { hrefOf } from "../route.ts";

/** The paths from which an agent's calls are read, and the searches that show them. */

/** Returns the path of the calls of the last day, of one caller or of all. `query` says which logs are asked. */
export function activityPath(filter: Readonly<Record<string, string>>, query: URLSearchParams): string {
  return `/audit/activity${queryText(filter, query)}`;
}

export function queryText(filter: Readonly<Record<string, string>>, query: URLSearchParams): string {
  const params = new URLSearchParams(filter);
  const source = query.get(SOURCE);
  if (source !== null) params.set(SOURCE, source);
  const text = params.toString();
  return text === "" ? "" : `?${text}`;
}

/** Returns the audit's filters for a caller. */
export function callerFilter({ sub, iss }: CallerName): Readonly<Record<string, string>> {
  return { sub, ...(iss !== undefined && { iss }) };
}

/** Returns the route of a search for calls. */
export function callsHref(filter: Readonly<Record<string, string>>): string {
  return hrefOf("calls", [], new URLSearchParams(filter));
}
