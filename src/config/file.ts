import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { parseDocument, type YAMLParseError } from "yaml";
import { type Config, type Environment, readConfig } from "../config.ts";
import { StartupError } from "../core/errors.ts";
import { systemCode } from "../core/system-code.ts";

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
    throw new StartupError([`${file}: cannot be read (${systemCode(error)})`]);
  }
  const document = parseDocument(source, { uniqueKeys: true, maxAliasCount: 0 } as Parameters<typeof parseDocument>[1]);
  const [error] = document.errors;
  // Only the first: those after it are mostly its echoes.
  if (error !== undefined) throw new StartupError([`${file}: ${yamlProblem(error)}`]);
  let written: unknown;
  try {
    written = document.toJS({ maxAliasCount: 0 });
  } catch (error) {
    const message = error instanceof ReferenceError ? NO_ALIASES : "cannot be read";
    throw new StartupError([`${file}: ${message}`]);
  }
  return readConfig(written, { folder: dirname(file), environment, origin: file });
}

const NO_ALIASES = "YAML aliases (*name) are not supported: write the value out in each place";

function yamlProblem({ code, message, linePos }: YAMLParseError): string {
  if (code !== "MULTIPLE_DOCS") return (message.split("\n")[0] ?? "").replace(/:$/, "");
  return `holds several YAML documents: keep one, without --- after it (line ${linePos?.[0].line ?? "?"})`;
}
