import type { Environment } from "./config.ts";

/**
 * Returns the environment variables of the process. Only this function reads them. A file of its own, so that commands that need
 * no configuration do not load its schemas.
 */
export function processEnvironment(): Environment {
  return process.env;
}
