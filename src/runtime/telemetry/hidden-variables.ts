/**
 * Runs `make` as if the environment had no variable that begins so: what the environment says is read in one place, and
 * OpenTelemetry's exporter would add headers of the environment to ours, and open files that it names. `make` is synchronous,
 * so that nobody else sees them missing.
 */
export function hidingVariables<T>(prefix: string, make: () => T): T {
  const hidden = Object.entries(process.env).filter(([name]) => name.startsWith(prefix));
  for (const [name] of hidden) delete process.env[name];
  try {
    return make();
  } finally {
    Object.assign(process.env, Object.fromEntries(hidden));
  }
}
