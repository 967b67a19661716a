import type * as Cedar from "@cedar-policy/cedar-wasm/web";
// The package exports no path of this file. Rejected: its variant for Node, which looks for the file where the binary was compiled.
import * as wasmFile from "../../../node_modules/@cedar-policy/cedar-wasm/web/cedar_wasm_bg.wasm" with { type: "file" };

export type Engine = typeof Cedar;

let engine: Promise<Engine> | undefined;

/** Loads Cedar at the first use: it takes 80 ms and 20 MB. */
export function loadEngine(): Promise<Engine> {
  engine ??= load();
  return engine;
}

/** The bundler's path of the file. The package's own types describe the module's functions instead. */
const { default: wasmPath } = wasmFile as unknown as { readonly default: string };

async function load(): Promise<Engine> {
  const [cedar, module] = await Promise.all([import("@cedar-policy/cedar-wasm/web"), Bun.file(wasmPath).arrayBuffer()]);
  cedar.initSync({ module });
  return cedar;
}

/**
 * Names of parsed sets that are free again. Cedar keeps every parsed set under its name for as long as the process runs, and cannot
 * remove one: a set that is no longer needed is replaced by an empty one, and its name by the next set.
 */
const freeNames: string[] = [];
let names = 0;

/** The parsed sets of one point. Equal sets are kept once. */
export class PolicySets {
  readonly #engine: Engine;
  /** Ids of the policies, joined → name of the parsed set. */
  readonly #sets = new Map<string, string>();
  #isClosed = false;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** @throws {Error} when the sets are closed: their names may stand for the policies of another point */
  assertOpen(): void {
    if (this.#isClosed) throw new Error("the configuration of the point is no longer in use");
  }

  /** Returns the name of a parsed set. @throws {Error} when Cedar does not accept it */
  add(policies: readonly { readonly id: string; readonly text: string }[]): string {
    this.assertOpen();
    const key = JSON.stringify(policies.map(({ id }) => id));
    const known = this.#sets.get(key);
    if (known !== undefined) return known;
    names += freeNames.length === 0 ? 1 : 0;
    const name = freeNames.pop() ?? `set-${names}`;
    this.#parse(name, Object.fromEntries(policies.map(({ id, text }) => [id, text])));
    this.#sets.set(key, name);
    return name;
  }

  close(): void {
    this.#isClosed = true;
    for (const name of this.#sets.values()) {
      this.#parse(name, {});
      freeNames.push(name);
    }
    this.#sets.clear();
  }

  #parse(name: string, staticPolicies: Readonly<Record<string, string>>): void {
    const parsed = this.#engine.preparsePolicySet(name, { staticPolicies });
    if (parsed.type === "failure") throw new Error(parsed.errors.map(({ message }) => message).join("; "));
  }
}
