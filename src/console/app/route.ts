/** A route of the console: the part of the URL after `#`. */
export interface AppRoute {
  /** First segment, such as `approvals`; empty at the start. */
  readonly page: string;
  readonly rest: readonly string[];
  readonly query: URLSearchParams;
}

const FRAGMENT_CHARACTERS_MAX = 8_192;

/** Reads a fragment such as `#/approvals/3f2c…?risk=high`. A fragment of another form is the start page. */
export function readRoute(fragment: string): AppRoute {
  const isRoute = fragment.startsWith("#/") && fragment.length <= FRAGMENT_CHARACTERS_MAX;
  const [path = "", ...query] = (isRoute ? fragment.slice(2) : "").split("?");
  const [page = "", ...rest] = path.split("/").map(decoded);
  return { page, rest: rest.filter((segment) => segment !== ""), query: new URLSearchParams(query.join("?")) };
}

/** Returns the fragment of a route, for `href`. */
export function hrefOf(page: string, rest: readonly string[] = [], query?: URLSearchParams): string {
  const path = [page, ...rest].map(encodeURIComponent).join("/");
  const text = query?.toString() ?? "";
  return `#/${path}${text === "" ? "" : `?${text}`}`;
}

/** The one-time link's value in a fragment `#link=…`; undefined in any other. */
export function readLink(fragment: string): string | undefined {
  return /^#link=([\w.~-]{1,512})$/.exec(fragment)?.[1];
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
