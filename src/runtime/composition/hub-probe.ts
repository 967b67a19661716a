import { VERSION } from "../../core/version.ts";
import { HubRefusal } from "../../hub/errors.ts";
import { askSelf } from "../../hub/methods/self.ts";
import type { Config } from "../config/config.ts";
import type { Modules } from "../module-types.ts";
import { newRequestId, openConnections } from "./hub-member.ts";
import { readHub } from "./hub-settings.ts";

/** The request of `stc doctor` and `stc check --connect` to the hub of a member. */

const ASK_MS_MAX = 4_000;

/** The hub knows the member's certificate or token, and refuses it. */
export class NotAccepted extends Error {
  override readonly name = "NotAccepted";
}

/**
 * Asks the hub under which name it knows this member; undefined when the service is no member, or its files cannot be read, which
 * whoever assembles the configuration reports. Rejects with `NotAccepted`, or with another error that says why there is no answer.
 */
export async function askHub(config: Config, modules: Modules, now: () => number): Promise<string | undefined> {
  const problems: string[] = [];
  const { member } = config.hub === undefined ? {} : readHub(config, config.hub, { modules, problems, now });
  if (member === undefined || problems.length > 0) return undefined;
  try {
    const { name } = await askSelf({
      ...openConnections(config, member),
      token: member.readToken,
      version: VERSION,
      newId: newRequestId,
      timeoutMs: ASK_MS_MAX,
    });
    return name;
  } catch (error) {
    if (error instanceof HubRefusal) throw new NotAccepted(error.message, { cause: error });
    throw error;
  }
}
