import type { Config } from "../config.ts";
import { processEnvironment, readConfigFile } from "../config-file.ts";
import { StartupError } from "../core/errors.ts";

export interface ConfigurationOptions {
  readonly config?: string;
  readonly dev?: boolean;
}

export interface Configured {
  readonly config: Config;
  /** Starts what only development brings along; resolves to the function that stops it. */
  start(): Promise<() => Promise<void>>;
}

/** Names in the environment through which whoever sets it could run code inside the service. */
const INJECTING = ["BUN_OPTIONS", "BUN_BE_BUN", "BUN_INSPECT", "BUN_INSPECT_PRELOAD"];

/**
 * The configuration that the command line or STC_CONFIG names; there is no default, and development is never fallen into.
 *
 * @throws {StartupError}
 */
export async function configuration({ config, dev }: ConfigurationOptions): Promise<Configured> {
  const environment = processEnvironment();
  const injecting = INJECTING.filter((variable) => environment[variable]);
  if (injecting.length > 0)
    throw new StartupError(injecting.map((variable) => `${variable} is set: it can run code inside the service`));
  if (dev === true) {
    if (config !== undefined) throw new StartupError(["--dev and --config exclude each other"]);
    const { developmentStand } = await import("../dev/stand.ts");
    return developmentStand(environment, Date.now());
  }
  const file = config ?? environment["STC_CONFIG"];
  if (!file) throw new StartupError(["no configuration: set STC_CONFIG, give --config FILE, or --dev for development"]);
  return { config: readConfigFile(file, environment), start: async () => async () => {} };
}
