import { lookup } from "node:dns/promises";
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

/** Returns a resolver of exactly the addresses that a new connection may use. One forbidden address refuses all. */
export function checkedAddresses(rules: AddressRules, resolve: Resolve): Resolve {
  return async (hostname) => {
    const addresses = await resolve(hostname);
    assertAllowed(addresses, rules);
    return addresses;
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
