import type { Endpoint } from "../http/endpoint.ts";

/** What a build contains, by kind of module. Everything is imported when it is first needed: the library loads no HTTP code. */
export interface Modules {
  readonly endpoints: readonly (() => Promise<{ readonly endpoints: readonly Endpoint[] }>)[];
}

export const MODULES: Modules = {
  endpoints: [
    () => import("../http/routes/service.ts"),
    () => import("../http/routes/call.ts"),
    () => import("../http/routes/tools.ts"),
    () => import("../http/routes/approvals.ts"),
    () => import("../http/routes/sessions.ts"),
    () => import("../http/routes/rpc.ts"),
    () => import("../http/routes/events.ts"),
    () => import("../http/routes/webhooks.ts"),
    () => import("../http/routes/audit.ts"),
  ],
};

/** Loads the endpoints of a build. */
export async function loadEndpoints({ endpoints }: Pick<Modules, "endpoints">): Promise<readonly Endpoint[]> {
  const loaded = await Promise.all(endpoints.map((load) => load()));
  return loaded.flatMap((module) => module.endpoints);
}
