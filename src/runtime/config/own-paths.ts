import { realpathSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { OwnPath } from "../../core/target-kind.ts";
import { type Config, pathFrom } from "./config.ts";

/** Configuration keys whose values are the service's own files or directories. */
const PATH_KEY =
  /^(?:dir|socket|proto|descriptorSet|openapi|kubeconfig|rootCert|clientCert|clientKey|[a-zA-Z]*(?:File|Dir))$/;
/** URLs of files: every `sqlite:` URL, and URLs of other schemes whose path begins with a slash or with dots. */
const FILE_URL = /^(?:sqlite:(?:\/\/)?|[a-z][a-z0-9+.-]*:\/\/(?=\.{0,2}\/))/;
/** Entries of programs that the configuration starts. */
const OTHERS_WORDS = /^systems\.[^.]+\.mcp$/;

/**
 * Returns all of the service's own paths that agents must not access: configuration, manifests, contracts, keys, audit, stores.
 */
export function ownPaths(config: Config): readonly OwnPath[] {
  return namedPaths(config).map(({ field, path }) => ({ field, path: nearestRealPath(path) }));
}

/** Returns the same paths without resolving links. */
export function namedPaths(config: Config): readonly OwnPath[] {
  const paths: OwnPath[] = [];
  const add = (field: string, path: string): void => {
    paths.push({ field, path: pathFrom(config, path) });
  };
  const visit = (value: unknown, field: string): void => {
    if (typeof value !== "object" || value === null) return;
    for (const [key, inner] of Object.entries(value)) {
      // Arguments and variables of another program name that program's files.
      if (OTHERS_WORDS.test(field) && (key === "args" || key === "env")) continue;
      const below = Array.isArray(value) ? `${field}[${key}]` : `${field}${field === "" ? "" : "."}${key}`;
      if (typeof inner === "string" && PATH_KEY.test(key)) add(below, inner);
      else if (typeof inner === "string" && FILE_URL.test(inner)) add(below, inner.replace(FILE_URL, ""));
      else visit(inner, below);
    }
  };
  const { server, tools, audit, jwt, systems, commands, approvals, assertion, telemetry, origin } = config;
  for (const [index, source] of tools.entries()) if (typeof source === "string") add(`tools[${index}]`, source);
  visit({ server, audit, jwt, systems, commands, approvals, assertion, telemetry }, "");
  if (statSync(origin, { throwIfNoEntry: false })?.isFile() === true) add("the configuration", origin);
  return paths;
}

/** Returns the real path of the nearest existing directory, with the names below it that do not exist yet appended. */
function nearestRealPath(path: string): string {
  const absolute = resolve(path);
  try {
    return realpathSync(absolute);
  } catch {
    const above = dirname(absolute);
    return above === absolute ? absolute : join(nearestRealPath(above), absolute.slice(above.length));
  }
}
