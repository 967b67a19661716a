import { createServer } from "node:net";
import { lockHolder } from "../../audit/journal/directory-lock.ts";
import { logsIn } from "../../audit/logs.ts";
import { errorText, systemCode } from "../../core/error-text.ts";
import { VERSION } from "../../core/version.ts";
import { HubRefusal } from "../../hub/errors.ts";
import { askSelf } from "../../hub/methods/self.ts";
import { type Config, pathFrom } from "../config/config.ts";
import type { Modules } from "../module-types.ts";
import { newRequestId, openConnections } from "./hub-member.ts";
import { readHub } from "./hub-settings.ts";

/** Probes of a hub: by a member (`stc doctor`, `stc check --connect`), and of a hub's own port (`stc check --connect`). */

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

/**
 * Returns why this service could not listen for members at the hub's address; undefined when it could, or when it runs and listens
 * there.
 */
export async function listenProblem({ hub, audit, ...config }: Config): Promise<string | undefined> {
  if (hub?.listen === undefined) return undefined;
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  const server = createServer();
  server.once("error", (error) => {
    if (systemCode(error) !== "EADDRINUSE") return resolve(errorText(error));
    const isRunning = logsIn(pathFrom(config, audit.dir)).some(({ dir }) => lockHolder(dir) !== undefined);
    resolve(isRunning ? undefined : `${hub.listen?.port} is in use, and this service does not run`);
  });
  server.listen(hub.listen, () => server.close(() => resolve(undefined)));
  return promise;
}
