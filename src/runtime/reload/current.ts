import type { CallerContext } from "../../pipeline/caller-context.ts";
import type { Snapshots } from "../../pipeline/proxy.ts";
import type { Registry } from "../../pipeline/registry.ts";

/** Returns a registry that always uses the current configuration snapshot, for listeners that outlive all snapshots. */
export function currentRegistry(generations: Snapshots): Registry {
  return {
    find: (name) => generations.current().registry.find(name),
    known: (found, admitted) => generations.current().registry.known(found, admitted),
    list: () => generations.current().registry.list(),
  };
}

/** Returns a caller context that always uses the current configuration snapshot. */
export function currentCallers(generations: Snapshots): CallerContext {
  return {
    verify: (...shown) => generations.current().callers.verify(...shown),
    recall: (...shown) => generations.current().callers.recall(...shown),
    verifyToken: (...shown) => generations.current().callers.verifyToken(...shown),
    knows: (authorization) => generations.current().callers.knows(authorization),
    assertOperator: (person) => generations.current().callers.assertOperator(person),
    reload: (issuers) => generations.current().callers.reload(issuers),
    clear: () => generations.current().callers.clear(),
    fetchedKeys: (...named) => generations.current().callers.fetchedKeys(...named),
  };
}
