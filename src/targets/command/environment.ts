import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";
import type { Fault } from "../../core/errors.ts";
import type { CliTarget } from "../../core/types.ts";
import { tokenFault } from "./argv.ts";

/** Variable of every child, by which descendants outside its process group are found. Not part of plans. */
export const CALL_MARKER = "STC_CALL_ID";

const PATH_DEFAULT = "/usr/local/bin:/usr/bin:/bin";
const VARIABLES_MAX = 64;
const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

/** Variables that only the service sets. With them, a manifest could choose programs or hide descendants. */
const RESERVED: ReadonlySet<string> = new Set("PATH HOME LANG LC_ALL TZ PWD OLDPWD USER LOGNAME".split(" "));

/** Prefixes of variables that make loaders, runtimes and shells load code or write files when they start. */
const REFUSED_PREFIXES = [
  ...["STC_", "LD_", "DYLD_", "BUN_", "NODE_", "DENO_", "NPM_", "PYTHON", "PERL", "RUBY", "GEM_", "BUNDLE_", "LUA_"],
  ...["JAVA_", "_JAVA_", "JDK_", "DOTNET_", "CORECLR_", "COMPLUS_", "PHP", "MALLOC_", "GLIBC_", "BASH", "ZSH", "LESS"],
  ...["GIT_SSH", "GIT_PROXY_", "GIT_TRACE", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"],
  ...["GIT_CONFIG_PARAMETERS", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "GIT_ALTERNATE_", "GIT_OBJECT_DIRECTORY"],
  ...["OPENSSL_", "GCONV_", "CURL_HOME", "WGETRC", "KUBECTL_"],
];

const REFUSED_SUFFIXES = [
  ...["_EDITOR", "_PAGER", "_ASKPASS", "_COMMAND", "_DIFF", "_OPTS", "_OPTIONS", "_PRELOAD", "_SHELL", "_RSH", "_PROG"],
];

const REFUSED_NAMES: ReadonlySet<string> = new Set([
  ...["PAGER", "MANPAGER", "EDITOR", "VISUAL", "BROWSER", "SHELL", "ENV", "IFS", "CDPATH", "PS4", "SHELLOPTS"],
  ...["PROMPT_COMMAND", "LOCPATH", "NLSPATH", "HOSTALIASES", "RES_OPTIONS", "LOCALDOMAIN", "SSLKEYLOGFILE", "TMPDIR"],
  ...["RIPGREP_CONFIG_PATH", "VIMINIT", "EXINIT", "CLASSPATH", "GOFLAGS", "RUSTC_WRAPPER", "XDG_CONFIG_HOME"],
  ...["GIT_EDITOR", "GIT_PAGER", "GIT_CONFIG"],
]);

/** Variables with a single allowed value, which disables settings files or names the program for differences. */
const FIXED_VALUES: ReadonlyMap<string, string> = new Map([
  ["GIT_CONFIG_GLOBAL", "/dev/null"],
  ["GIT_CONFIG_SYSTEM", "/dev/null"],
  ["KUBECTL_EXTERNAL_DIFF", "diff -U 1000000"],
]);

/** Returns the working directory that the manifest chooses; undefined when it leaves it to the handler. */
export function cwdOf({ cwd }: CliTarget<never>["cli"], input: unknown): string | undefined {
  return typeof cwd === "function" ? cwd(input as never) : cwd;
}

/** Returns the complete environment of a child. The service's own environment is never used. */
export function childEnvironment(
  { emptyDirectory, pathVariable }: { readonly emptyDirectory: string; readonly pathVariable?: string | undefined },
  declared: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  return {
    PATH: pathVariable ?? PATH_DEFAULT,
    HOME: emptyDirectory,
    LANG: "C.UTF-8",
    LC_ALL: "C.UTF-8",
    TZ: "UTC",
    ...declared,
  };
}

/** Returns the errors in the variables that a manifest declares. They contain names, never values. */
export function environmentFaults(declared: unknown): readonly Fault[] {
  // A promise or class instance has no entries, so the command would run without its protective variables.
  if (!isTable(declared)) {
    return [{ field: "target.cli.environment", message: "must map names to strings" }];
  }
  const entries = Object.entries(declared);
  if (entries.length > VARIABLES_MAX) {
    return [{ field: "target.cli.environment", message: `has more than ${VARIABLES_MAX} variables` }];
  }
  return entries.flatMap(([name, value]) => {
    const message = nameFault(name) ?? valueFault(name, value);
    const printable = name.replace(/[^\x21-\x7e]/g, "?").slice(0, 128);
    return message === undefined ? [] : [{ field: `target.cli.environment.${printable}`, message }];
  });
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function nameFault(name: string): string | undefined {
  if (!VARIABLE_NAME.test(name)) return "is not a name of a variable";
  const upper = name.toUpperCase();
  if (FIXED_VALUES.has(upper)) return undefined;
  if (RESERVED.has(upper)) return "is set by the service";
  const refused =
    REFUSED_NAMES.has(upper) ||
    REFUSED_PREFIXES.some((prefix) => upper.startsWith(prefix)) ||
    REFUSED_SUFFIXES.some((suffix) => upper.endsWith(suffix));
  return refused ? "could make the command run or load something else" : undefined;
}

function valueFault(name: string, value: unknown): string | undefined {
  const fault = tokenFault(value);
  if (fault !== undefined) return fault;
  const fixed = FIXED_VALUES.get(name.toUpperCase());
  return fixed !== undefined && value !== fixed ? `may only be ${fixed}` : undefined;
}

/** Returns the absolute path of a program, by its path or by its name on a search path; undefined when it may not be executed. */
export function findProgram(command: string, searchPath: string): string | undefined {
  const folders = searchPath.split(delimiter).filter((folder) => isAbsolute(folder));
  const candidates = isAbsolute(command) ? [command] : folders.map((folder) => join(folder, command));
  return candidates.find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
