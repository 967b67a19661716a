import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { parseDocument } from "yaml";
import { type Config, type Environment, readConfig } from "./config.ts";
import { StartupError } from "./core/errors.ts";

/** What variables the process was started with; the one place that reads them. */
export function processEnvironment(): Environment {
  return process.env;
}

/**
 * Reads the configuration file. Paths in it are relative to its own folder.
 *
 * @throws {StartupError} with every mistake, each with file and field
 */
export function readConfigFile(path: string, environment: Environment): Config {
  const file = resolve(path);
  let source: string;
  try {
    source = readFileSync(file, "utf8");
  } catch (error) {
    throw new StartupError([`${file}: cannot be read (${codeOf(error)})`]);
  }
  const document = parseDocument(source, { uniqueKeys: true, maxAliasCount: 0 } as Parameters<typeof parseDocument>[1]);
  if (document.errors.length > 0) {
    throw new StartupError(document.errors.map((error) => `${file}: ${error.message.split("\n")[0]}`));
  }
  let written: unknown;
  try {
    written = document.toJS({ maxAliasCount: 0 });
  } catch (error) {
    throw new StartupError([`${file}: ${error instanceof Error ? error.message : "cannot be read"}`]);
  }
  return readConfig(written, { folder: dirname(file), environment, origin: file });
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "unknown error";
}
