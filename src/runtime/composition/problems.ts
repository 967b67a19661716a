import { errorText } from "../../core/error-text.ts";
import { ManifestError, StartupError } from "../../core/errors.ts";
import type { LoadedTools } from "../manifests/sources.ts";

/** Runs `make`. Errors are added to the list, in operators' terms, and undefined is returned. */
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
  return error.faults.map(
    ({ field, message }) => `${file === undefined ? "" : `${file}: `}tool ${error.tool}: ${field}: ${message}`,
  );
}
