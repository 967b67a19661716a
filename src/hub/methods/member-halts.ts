import type { Operation, Ran, StateOperations } from "../../database/operations.ts";
import type { CallHalt } from "../../halts/halt.ts";
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
    return {
      value: [...halts.value, ...(ofService?.value ?? [])].flatMap((halt) => shownTo(tenant?.name, halt)),
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

/** A member does not know tenants: among its halts, one that names its tenant names none. */
function shownTo(tenant: string | undefined, halt: CallHalt): readonly CallHalt[] {
  const { tenant: named, ...target } = halt.target;
  return named === undefined || named === tenant ? [{ ...halt, target }] : [];
}
