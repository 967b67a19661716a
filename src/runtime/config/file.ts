import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { parseDocument, type YAMLParseError } from "yaml";
import { systemCode } from "../../core/error-text.ts";
import { StartupError } from "../../core/errors.ts";
import type { Modules } from "../module-types.ts";
import { type BundleSection, readBundle } from "./bundle.ts";
import type { Config, Environment } from "./config.ts";
import { readConfig, readServer } from "./reading.ts";

/** Address for health checks of a service on this machine. */
export interface HealthAddress {
  /** `http://…`, `https://…` or `unix:<path>`. */
  readonly url: string;
  /** File with the certificate presented there, PEM. It is needed because the name in it differs from the address. */
  readonly certFile?: string;
}

/**
 * Reads the configuration file. Paths in it are relative to its own folder. `amend` adds what the file does not say itself.
 *
 * @throws {StartupError} with every error, each with file and field
 */
export function readConfigFile(
  path: string,
  environment: Environment,
  modules: Modules,
  amend: (written: unknown) => unknown = (written) => written,
): Config {
  const file = resolve(path);
  return readConfig(amend(readWritten(file)), { folder: dirname(file), environment, origin: file }, modules);
}

/**
 * Returns the section `bundle` of a configuration file; undefined when it has none. Reads that section alone: without a bundle, the
 * others are not complete.
 *
 * @throws {StartupError}
 */
export function readBundleFile(path: string): BundleSection | undefined {
  const file = resolve(path);
  return readBundle(readWritten(file), { folder: dirname(file), origin: file });
}

/**
 * Returns the address for health checks of the running service. Reads the section `server` alone: an error elsewhere belongs to
 * a file that is being changed and is not in use yet. Paths are absolute.
 *
 * @throws {StartupError}
 */
export function readHealthAddress(path: string, environment: Environment): HealthAddress | undefined {
  const file = resolve(path);
  return healthAddress(
    readServer(readWritten(file), { folder: dirname(file), environment, origin: file }),
    dirname(file),
  );
}

/**
 * Returns the address of the operators' console, for people; undefined when the configuration has none. Reads the section
 * `server` alone.
 *
 * @throws {StartupError}
 */
export function readConsoleAddress(path: string, environment: Environment): string | undefined {
  const file = resolve(path);
  const { console } = readServer(readWritten(file), { folder: dirname(file), environment, origin: file });
  if (console === undefined) return undefined;
  const { host, port, tls, publicUrl } = console;
  const listening = `${tls === undefined ? "http" : "https"}://${addressOf(host, port)}`;
  return `${publicUrl?.replace(/\/$/, "") ?? listening}/console`;
}

/** Loopback addresses of a service that listens on all addresses. */
const LOOPBACK_OF: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };

/** Returns the address of the simplest listener, or undefined when the system chose the port. */
export function healthAddress(
  { operator, host, port, tls, socket }: Config["server"],
  folder: string,
): HealthAddress | undefined {
  if (operator !== undefined && operator.port !== 0)
    return { url: `http://${addressOf(operator.host, operator.port)}` };
  const isPlain = port !== "off" && port !== 0 && tls === undefined;
  if (isPlain) return { url: `http://${addressOf(host, port)}` };
  if (socket !== undefined) return { url: `unix:${resolve(folder, socket)}` };
  if (tls === undefined || port === "off" || port === 0) return undefined;
  return { url: `https://${addressOf(host, port)}`, certFile: resolve(folder, tls.certFile) };
}

function addressOf(host: string, port: number): string {
  const reachable = LOOPBACK_OF[host] ?? host;
  return `${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`;
}

/** @throws {StartupError} */
function readWritten(file: string): unknown {
  try {
    return parseYaml(readFileSync(file, "utf8"), file);
  } catch (error) {
    if (error instanceof StartupError) throw error;
    throw new StartupError([`${file}: cannot be read (${systemCode(error)})`]);
  }
}

/** Parses the YAML of a configuration. @throws {StartupError} */
export function parseYaml(source: string, file: string): unknown {
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
