import { lookup } from "node:dns/promises";
import type { LookupFunction } from "node:net";
import { type AddressClass, type AddressRules, addressProblem, literalAddress } from "./addresses.ts";

/** Returns the addresses of a name. */
export type Resolve = (hostname: string) => Promise<readonly string[]>;

export class ForbiddenAddress extends Error {
  override readonly name = "ForbiddenAddress";

  constructor(problem: AddressClass) {
    super(`the host has a ${problem} address, which is not allowed`);
  }
}

export async function systemResolve(hostname: string): Promise<readonly string[]> {
  return (await lookup(hostname, { all: true })).map(({ address }) => address);
}

/** Resolves the name for a new connection and checks exactly the addresses that it uses. One forbidden address refuses all. */
export function checkedLookup(rules: AddressRules, resolve: Resolve): LookupFunction {
  return (hostname, _options, callback) => {
    resolve(hostname)
      .then((addresses) => {
        assertAllowed(addresses, rules);
        callback(
          null,
          addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
        );
      })
      .catch((error: NodeJS.ErrnoException) => callback(error, []));
  };
}

function assertAllowed(addresses: readonly string[], rules: AddressRules): void {
  if (addresses.length === 0) throw new Error("the name has no address");
  for (const address of addresses) {
    const problem = addressProblem(address, rules);
    if (problem !== undefined) throw new ForbiddenAddress(problem);
  }
}

export interface Host {
  readonly hostname: string;
  /** The address, if the host is one, without brackets; otherwise the name. */
  readonly name: string;
  /** The class of an address that no connection may go to; undefined for an allowed one, and for a name. */
  readonly problem: AddressClass | undefined;
}

export function judgedHost(hostname: string, rules: AddressRules): Host {
  const literal = literalAddress(hostname);
  const problem = literal === undefined ? undefined : addressProblem(literal, rules);
  return { hostname, name: literal ?? hostname, problem };
}
