import { StartupError } from "../../core/errors.ts";

/** Objects shared by the whole process. No manifest has a reason to change them, and a refused reload must change nothing. */
const SHARED: Readonly<Record<string, object>> = {
  "Object.prototype": Object.prototype,
  "Function.prototype": Function.prototype,
  "Array.prototype": Array.prototype,
  "String.prototype": String.prototype,
  "Number.prototype": Number.prototype,
  "RegExp.prototype": RegExp.prototype,
  "Promise.prototype": Promise.prototype,
  "Map.prototype": Map.prototype,
  "Set.prototype": Set.prototype,
  "Date.prototype": Date.prototype,
  "Error.prototype": Error.prototype,
  "Uint8Array.prototype": Uint8Array.prototype,
  Object,
  Array,
  Promise,
  Date,
  JSON,
  Math,
  Reflect,
  Buffer,
};
const GLOBALS = [
  ...["Object", "Array", "String", "RegExp", "Promise", "Map", "Set", "Date", "Error", "JSON", "Math", "Reflect"],
  ...["Buffer", "URL", "TextEncoder", "TextDecoder", "crypto", "fetch", "structuredClone", "queueMicrotask"],
  ...["setTimeout", "clearTimeout", "setInterval", "clearInterval", "setImmediate", "process", "Bun"],
] as const;

type SharedState = readonly {
  readonly name: string;
  readonly object: object;
  readonly members: ReadonlyMap<string | symbol, PropertyDescriptor>;
}[];

let exit: typeof process.exit | undefined;
let loadings = 0;

let last: Promise<unknown> = Promise.resolve();

/**
 * Runs code that loads manifests. During that, `process.exit()` throws, and changes to shared objects are undone and reported.
 * This protects against mistakes: malicious code has other ways. The process runs one at a time: otherwise the changes
 * of one tenant's manifests would be reported as those of another.
 *
 * @throws {StartupError} when something was changed
 */
export function protectingGlobals<T extends { close(): Promise<void> }>(run: () => Promise<T>): Promise<T> {
  const next = last.then(() => protect(run));
  last = next.catch(() => {});
  return next;
}

async function protect<T extends { close(): Promise<void> }>(run: () => Promise<T>): Promise<T> {
  const before = capture();
  try {
    const made = await withoutExit(run);
    const problems = restore(before);
    if (problems.length === 0) return made;
    await made.close();
    throw new StartupError(problems);
  } catch (error) {
    const problems = restore(before);
    if (problems.length === 0 || !(error instanceof StartupError)) throw error;
    // Listed first, because the change may have caused the other problems.
    throw new StartupError([...problems, ...error.problems]);
  }
}

async function withoutExit<T>(run: () => Promise<T>): Promise<T> {
  loadings += 1;
  exit ??= process.exit;
  process.exit = () => {
    throw new Error("process.exit() was called");
  };
  try {
    return await run();
  } finally {
    loadings -= 1;
    if (loadings === 0 && exit !== undefined) {
      process.exit = exit;
      exit = undefined;
    }
  }
}

function capture(): SharedState {
  const shared = Object.entries(SHARED).map(([name, object]) => ({ name, object, members: membersOf(object) }));
  const globals = GLOBALS.flatMap((name) => {
    const descriptor = Object.getOwnPropertyDescriptor(globalThis, name);
    return descriptor === undefined ? [] : [[name, descriptor] as const];
  });
  return [...shared, { name: "globalThis", object: globalThis, members: new Map(globals) }];
}

function membersOf(object: object): Map<string | symbol, PropertyDescriptor> {
  return new Map(Reflect.ownKeys(object).map((key) => [key, descriptorOf(object, key)]));
}

function descriptorOf(object: object, key: string | symbol): PropertyDescriptor {
  return Object.getOwnPropertyDescriptor(object, key) ?? {};
}

function restore(before: SharedState): readonly string[] {
  return before.flatMap(({ name, object, members }) => {
    const changed = [...members].filter(([key, was]) => !isSame(was, descriptorOf(object, key)));
    for (const [key, was] of changed) Reflect.defineProperty(object, key, was);
    const added = object === globalThis ? [] : Reflect.ownKeys(object).filter((key) => !members.has(key));
    const harmful = added.filter((key) => isHarmful(object, key));
    for (const key of harmful) Reflect.deleteProperty(object, key);
    return [...changed.map(([key]) => key), ...harmful].map(
      (key) => `tools: a manifest changes ${name}.${String(key)}, which is shared by the whole process`,
    );
  });
}

/** Returns whether an added member can affect other code. A polyfill's members are seen only by code that asks for them. */
function isHarmful(object: object, key: string | symbol): boolean {
  return object === Object.prototype || descriptorOf(object, key).enumerable === true;
}

function isSame(a: PropertyDescriptor, b: PropertyDescriptor): boolean {
  return Object.is(a.value, b.value) && a.get === b.get && a.set === b.set;
}
