interface Shared<Resource> {
  readonly resource: Resource;
  /** Tenants that use it; undefined: the service itself. */
  readonly users: Set<string | undefined>;
}

/** One tenant's part in a shared resource. */
interface Share<Resource> {
  readonly resource: Resource;
  /** Closes the resource when nobody else uses it. */
  leave(): Promise<void>;
}

/**
 * Resources that the tenants of a process share, by the URL of their database. A tenant that joins again while it still has a share
 * gets another resource: two services in one process are then as independent as two processes.
 */
export class Sharing<Resource extends { close(): Promise<void> }> {
  readonly #byUrl = new Map<string, Set<Shared<Resource>>>();

  /** Gives the tenant a share. Calls `open` for the first user of a resource. */
  join(url: string, tenant: string | undefined, open: () => Resource): Share<Resource> {
    const all = this.#byUrl.get(url) ?? new Set();
    const shared = all.values().find(({ users }) => !users.has(tenant)) ?? { resource: open(), users: new Set() };
    const { resource, users } = shared;
    this.#byUrl.set(url, all.add(shared));
    users.add(tenant);
    let left: Promise<void> | undefined;
    const leave = async (): Promise<void> => {
      users.delete(tenant);
      if (users.size > 0) return;
      all.delete(shared);
      if (all.size === 0) this.#byUrl.delete(url);
      await resource.close();
    };
    return {
      resource,
      leave() {
        left ??= leave();
        return left;
      },
    };
  }
}
