import { methodsOf, type Route } from "../endpoint.ts";
import { PARAM_LENGTH_MAX } from "../server-options.ts";
import { segmentsOf } from "../target-path.ts";

/** A route that takes a request, and the values of its path's parameters. */
interface Match<Value> {
  readonly value: Value;
  readonly params: Readonly<Record<string, string>>;
}

interface ParameterRoute<Value> {
  readonly method: string;
  readonly segments: readonly string[];
  readonly value: Value;
}

const NO_PARAMS: Readonly<Record<string, string>> = Object.freeze({});

/** Finds the route of a request: by method and exact path, or by a path with parameters. Static paths come first. */
export class RouteTable<Value> {
  readonly #exact = new Map<string, Match<Value>>();
  readonly #parameterized: ParameterRoute<Value>[] = [];

  add({ path, endpoint }: Route, value: Value): void {
    for (const method of methodsOf(endpoint)) {
      if (path.includes("/:")) this.#parameterized.push({ method, segments: path.split("/"), value });
      else this.#exact.set(`${method} ${path}`, { value, params: NO_PARAMS });
    }
  }

  /** Returns `invalid` for a path with an invalid escape or an overlong parameter. */
  find(method: string, target: string): Match<Value> | "invalid" | undefined {
    const known = this.#exact.get(`${method} ${target}`);
    if (known !== undefined) return known;
    const segments = segmentsOf(target);
    if (!segments.every((segment) => segment !== undefined)) return "invalid";
    const hasSlash = segments.some((segment) => segment.includes("/"));
    const exact = hasSlash ? undefined : this.#exact.get(`${method} ${segments.join("/")}`);
    return exact ?? this.#withParameters(method, segments);
  }

  #withParameters(method: string, target: readonly string[]): Match<Value> | "invalid" | undefined {
    for (const route of this.#parameterized) {
      const params = route.method === method ? paramsOf(route.segments, target) : undefined;
      if (params === undefined) continue;
      const isTooLong = Object.values(params).some((value) => value.length > PARAM_LENGTH_MAX);
      return isTooLong ? "invalid" : { value: route.value, params };
    }
    return undefined;
  }
}

/** Returns the query of a target, without `?`. */
export function queryOf(target: string): string {
  const at = target.indexOf("?");
  if (at === -1) return "";
  const end = target.indexOf("#", at);
  return target.slice(at + 1, end === -1 ? undefined : end);
}

function paramsOf(route: readonly string[], target: readonly string[]): Record<string, string> | undefined {
  if (route.length !== target.length) return undefined;
  const params: Record<string, string> = {};
  for (const [at, segment] of route.entries()) {
    const value = target[at] ?? "";
    if (segment.startsWith(":")) params[segment.slice(1)] = value;
    else if (segment !== value) return undefined;
  }
  return params;
}
