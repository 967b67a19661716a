import { errorText, systemCode } from "../../core/error-text.ts";
import { ManifestError, StartupError } from "../../core/errors.ts";
import { type Config, pathFrom } from "../config/config.ts";
import { readPlainFile } from "../config/plain-file.ts";
import type { LoadedTools } from "../manifests/sources.ts";

/**
 * Returns the result of `make`. When the start or a manifest is refused, adds the problems to the list and returns undefined.
 */
export function attempt<T>(problems: string[], make: () => T, loaded?: LoadedTools): T | undefined {
  try {
    return make();
  } catch (error) {
    if (error instanceof StartupError) problems.push(...error.problems);
    else if (error instanceof AggregateError)
      problems.push(...error.errors.flatMap((inner) => manifestProblems(inner, loaded)));
    else throw error;
    return undefined;
  }
}

function manifestProblems(error: unknown, loaded: LoadedTools | undefined): readonly string[] {
  if (!(error instanceof ManifestError)) return [errorText(error)];
  const tool = loaded?.tools.find(({ name }) => name === error.tool);
  const file = tool === undefined ? undefined : loaded?.origins.get(tool);
  const lineOf = tool === undefined ? undefined : loaded?.lines.get(tool);
  return error.faults.map((fault) => {
    const line = lineOf?.(fault);
    const at = `${file === undefined ? "" : `${file}: `}${line === undefined ? "" : `line ${line}: `}`;
    return `${at}tool ${error.tool}: ${fault.field}: ${fault.message}`;
  });
}

interface NamedFile {
  readonly path: string;
  readonly field: string;
}

/** Reads a file that the configuration names. If it cannot be read, returns undefined and adds a problem with field and file. */
export function readNamed(config: Config, { path, field }: NamedFile, problems: string[]): Buffer | undefined {
  try {
    return readNamedFile(config, path);
  } catch (error) {
    problems.push(`${field}: ${errorText(error)}`);
    return undefined;
  }
}

/** @throws {Error} that names the file as the configuration does */
export function readNamedFile(config: Config, path: string): Buffer {
  try {
    return readPlainFile(pathFrom(config, path));
  } catch (error) {
    throw new Error(`${path} cannot be read (${systemCode(error)})`);
  }
}
