import type { Environment } from "./config.ts";

/**
 * Returns the environment variables of the process. No other function reads them. In a separate file, so that commands that
 * need no configuration do not load its schemas.
 */
export function processEnvironment(): Environment {
  return process.env;
}
