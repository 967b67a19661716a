import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { parseDocument, type YAMLParseError } from "yaml";
import { systemCode } from "../../core/error-text.ts";
import { StartupError } from "../../core/errors.ts";
import { type Config, type Environment, readConfig, readServer } from "./config.ts";
import { placeOf, type ServerAddresses } from "./server-address.ts";

/**
 * Reads the configuration file. Paths in it are relative to its own folder.
 *
 * @throws {StartupError} with every error, each with file and field
 */
export function readConfigFile(
  path: string,
  environment: Environment,
  modules?: Parameters<typeof readConfig>[2],
): Config {
  const file = resolve(path);
  return readConfig(readWritten(file), { folder: dirname(file), environment, origin: file }, modules);
}

/**
 * Returns the address at which the running service can be asked for its health. Reads the section `server` alone: an error
 * elsewhere belongs to a file that is being changed and is not in use yet. Paths are absolute.
 *
 * @throws {StartupError}
 */
export function readServerPlace(path: string, environment: Environment): ServerAddresses | undefined {
  const file = resolve(path);
  return placeOf(readServer(readWritten(file), { folder: dirname(file), environment, origin: file }), dirname(file));
}

/** @throws {StartupError} */
function readWritten(file: string): unknown {
  let source: string;
  try {
    source = readFileSync(file, "utf8");
  } catch (error) {
    throw new StartupError([`${file}: cannot be read (${systemCode(error)})`]);
  }
  const document = parseDocument(source, { uniqueKeys: true, maxAliasCount: 0 } as Parameters<typeof parseDocument>[1]);
  const [error] = document.errors;
  // Only the first error: later ones mostly follow from it.
  if (error !== undefined) throw new StartupError([`${file}: ${yamlProblem(error, source)}`]);
  try {
    return document.toJS({ maxAliasCount: 0 });
  } catch (error) {
    const message = error instanceof ReferenceError ? NO_ALIASES : "cannot be read";
    throw new StartupError([`${file}: ${message}`]);
  }
}

const NO_ALIASES = "YAML aliases (*name) are not supported: write the value out in each place";

function yamlProblem({ code, message, linePos, pos }: YAMLParseError, source: string): string {
  const line = linePos?.[0].line ?? "?";
  if (code === "MULTIPLE_DOCS") return `holds several YAML documents: keep one, without --- after it (line ${line})`;
  if (code === "DUPLICATE_KEY") {
    const [key = ""] = /^[\w.-]{0,64}/.exec(source.slice(pos[0])) ?? [];
    return `has the key ${key} twice in one table (line ${line})`;
  }
  return (message.split("\n")[0] ?? "").replace(/:$/, "");
}
