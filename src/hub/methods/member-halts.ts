import type { Operation, Ran, StateOperations } from "../../database/operations.ts";
import { type CallHalt, haltWithin } from "../../halts/halt.ts";
import { listHalts } from "../../halts/operations.ts";

interface Tenant {
  readonly name: string;
  /** The state of the service that the tenant is part of. */
  readonly service: StateOperations;
}

/**
 * Returns the operations for the members of a tenant, or of the service itself: their list of halts has those that stop their calls. The
 * halts of the service stop calls of all tenants, or of the one that they name.
 */
export function withMemberHalts(own: StateOperations, tenant?: Tenant): StateOperations {
  const list = async (): Promise<Ran<readonly CallHalt[]>> => {
    const [halts, ofService] = await Promise.all([own.run(listHalts, {}), tenant?.service.run(listHalts, {})]);
    // Members of the service itself run no calls of tenants.
    const all = halts.value.filter(({ target }) => target.tenant === undefined);
    return {
      value: [...all, ...(ofService?.value ?? []).flatMap((halt) => haltWithin(tenant?.name ?? "", halt) ?? [])],
      now: Math.min(halts.now, ofService?.now ?? halts.now),
    };
  };
  return {
    ...own,
    run: <Input, Output>(operation: Operation<Input, Output>, input: Input) =>
      operation.name === listHalts.name
        ? (list() as Promise<Ran<unknown>> as Promise<Ran<Output>>)
        : own.run(operation, input),
    watch(changed) {
      const stops = [own.watch(changed), tenant?.service.watch(changed)];
      return () => {
        for (const stop of stops) stop?.();
      };
    },
  };
}
