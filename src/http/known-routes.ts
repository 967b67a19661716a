import type { FastifyInstance } from "fastify";

interface KnownRoute {
  readonly methods: readonly string[];
  readonly segments: readonly string[];
}

/** What a route is called that is there for another method (RFC 9110, 15.5.6). */
export class KnownRoutes {
  readonly #routes: KnownRoute[] = [];

  /** Of every route that is declared from now on. */
  watch(app: FastifyInstance): void {
    app.addHook("onRoute", ({ method, url }) => {
      this.#routes.push({ methods: [method].flat(), segments: url.split("/") });
    });
  }

  /** Which methods the target's path is there for, in alphabetical order; none when there is no such route. */
  methodsOf(target: string): readonly string[] {
    const segments = pathOf(target).split("/").map(decoded);
    const found = this.#routes.filter((route) => isOf(route, segments));
    return [...new Set(found.flatMap(({ methods }) => methods))].sort();
  }
}

/** Without the scheme and host of a target that is a whole URL, and without its query. */
function pathOf(target: string): string {
  return target.replace(/^[a-z]{1,8}:\/\/[^/?#]*/i, "").replace(/[?#].*$/s, "");
}

function isOf({ segments }: KnownRoute, asked: readonly (string | undefined)[]): boolean {
  return segments.length === asked.length && segments.every((one, at) => one.startsWith(":") || one === asked[at]);
}

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
