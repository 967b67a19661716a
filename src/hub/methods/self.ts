import { z } from "zod";
import type { StateOperations } from "../../database/operations.ts";
import { listHalts } from "../../halts/operations.ts";
import { HubConnection, type HubConnectionOptions } from "../client/connection.ts";
import type { HubMethod } from "../contract.ts";
import { encodeWire } from "../wire.ts";

const NAME = "members.self";
/** Stands for the id of a log: whoever asks has none. */
const INSTANCE = "probe";

const answer = z.object({ value: z.object({ name: z.string() }), now: z.number() });

/** The hub's end: who the member is here. The hub's database is asked as well. */
export function selfMethod(operations: StateOperations): HubMethod {
  return {
    name: NAME,
    input: z.strictObject({}),
    isProbe: true,
    handle: async (_, { member }) => ({ value: { name: member.name }, now: (await operations.run(listHalts, {})).now }),
  };
}

interface Asking extends Pick<HubConnectionOptions, "url" | "connections" | "token" | "tenant"> {
  readonly version: string;
  readonly newId: () => string;
  readonly timeoutMs: number;
}

/**
 * The member's end: asks once, and closes the connections. Returns the name under which the hub knows the member, and the time of the
 * hub's database. Rejects with `HubRefusal` or `NoAnswer`.
 */
export async function askSelf({ version, newId, timeoutMs, ...options }: Asking) {
  const connection = new HubConnection({ ...options, facts: () => ({ instance: INSTANCE, version }) });
  try {
    const body = encodeWire({ id: newId(), input: {} });
    const { value, now } = answer.parse(await connection.post(NAME, body, { timeoutMs }));
    return { name: value.name, now };
  } finally {
    connection.close();
  }
}
