/**
 * The few functions of the Reflect Metadata proposal that the dependency injection inside `@peculiar/x509` asks for
 * while it loads. The `reflect-metadata` package would be a dependency of the product for the sake of development
 * certificates.
 */
const stored = new WeakMap<object, Map<unknown, unknown>>();

function defineMetadata(key: unknown, value: unknown, target: object): void {
  const own = stored.get(target) ?? new Map<unknown, unknown>();
  stored.set(target, own.set(key, value));
}

function getOwnMetadata(key: unknown, target: object): unknown {
  return stored.get(target)?.get(key);
}

function getMetadata(key: unknown, target: object): unknown {
  for (let at: object | null = target; at !== null; at = Object.getPrototypeOf(at) as object | null) {
    const own = stored.get(at);
    if (own?.has(key)) return own.get(key);
  }
  return undefined;
}

function metadata(key: unknown, value: unknown): (target: object) => void {
  return (target) => defineMetadata(key, value, target);
}

/** To be called before that library is loaded. */
export function provideReflectMetadata(): void {
  if (!("getMetadata" in Reflect)) Object.assign(Reflect, { defineMetadata, getOwnMetadata, getMetadata, metadata });
}
