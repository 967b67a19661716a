import { names } from "../names.ts";
import { type Invocation, operandsOf, valuesOf } from "./invocation.ts";
import { setIn } from "./set-beside.ts";
import { UNKNOWN } from "./word.ts";

/** Builtins whose words may be settings: `export NAME=value`. */
export const DECLARERS = names("export declare typeset readonly local");

/** Variables that choose which programs, libraries or settings are loaded. */
const LOADERS = names(
  "PATH CDPATH HOME TMPDIR SHELL VISUAL BROWSER CC CXX MAKEFLAGS LESS LESSOPEN LESSCLOSE MORE MANOPT MANPATH INPUTRC ZDOTDIR",
  "IFS ENV BASH_ENV BASHOPTS SHELLOPTS PROMPT_COMMAND BASH_CMDS BASH_ALIASES JAVA_TOOL_OPTIONS _JAVA_OPTIONS CLASSPATH",
  "RUSTC RUSTFLAGS RUSTC_WRAPPER GOFLAGS GOPROXY GCONV_PATH LOCPATH TAR_OPTIONS ZIPOPT PARALLEL RIPGREP_CONFIG_PATH",
  "DOCKER_HOST KUBECONFIG GNUPGHOME",
  "http_proxy https_proxy all_proxy ftp_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY",
);

/** What such names begin with: `LD_PRELOAD`, `GIT_SSH_COMMAND`, `PYTHONPATH`, `npm_config_script_shell`. */
const LOADERS_BY_START = [
  /^(?:LD|DYLD|GIT|NODE|BUN|NPM_CONFIG|XDG|FZF|RSYNC|CARGO|PIP|UV)_[A-Z_]+$/,
  /^npm_config_[a-z_]+$/,
  /^(?:PS[0-9]|(?:PYTHON|RUBY|OPENSSL_)[A-Z]+|PERL[A-Z0-9_]+|SSL[A-Z_]+)$/,
  /^(?:LESSEDIT|LESSKEY.*)$/,
];

/** What such names end with: `MANPAGER`, `GIT_EDITOR`, `SUDO_ASKPASS`, `MYSQL_HISTORY`. */
const LOADERS_BY_END = /^(?:[A-Z_]*(?:PAGER|EDITOR|SQL_HISTORY)|[A-Z]+_ASKPASS)$/;

/** Values that keep programs from asking or paging. */
const HARMLESS_SETTINGS = [
  /^(?:GIT_|MAN)?PAGER=(?:cat)?$/,
  /^GIT_(?:TERMINAL_PROMPT|OPTIONAL_LOCKS)=0$/,
  /^GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE)=.*$/,
  /^NODE_ENV=[a-z]+$|^NODE_NO_WARNINGS=1$/,
  /^PYTHON(?:UNBUFFERED|DONTWRITEBYTECODE)=1$/,
  /^IFS=[\s,:;|]*$/,
  /^LESS=-?[FRSXiMqK]{0,8}$/,
  /^CARGO_(?:TERM_COLOR|INCREMENTAL|NET_OFFLINE)=[a-z0-9]+$/,
  /^PIP_(?:NO_INPUT|DISABLE_PIP_VERSION_CHECK|NO_COLOR)=1$/,
];

/** Whether it sets a variable that decides what is loaded. */
export function choosesLoading({ program, variables, args }: Invocation): boolean {
  const sets = [
    ...variables,
    ...(DECLARERS.has(program) || program === "env" ? args.map(asSetting) : []),
    ...filled(program, args).map((name) => `${name}=${UNKNOWN}`),
  ];
  return sets.some((set) => isLoader(set) && !HARMLESS_SETTINGS.some((harmless) => harmless.test(set)));
}

/** Of `NAME=value`, `NAME+=value` or `NAME[]=value`, which sets what `NAME` alone is worth, too. */
function isLoader(setting: string): boolean {
  const sign = setting.indexOf("=");
  if (sign === -1) return false;
  if (setting.startsWith(UNKNOWN)) return true;
  const name = setting
    .slice(0, sign)
    .replace(/\+$/, "")
    .replace(/\[.{0,64}\]$/, "");
  return LOADERS.has(name) || LOADERS_BY_END.test(name) || LOADERS_BY_START.some((start) => start.test(name));
}

/** A word of which nothing is known may set any variable. */
function asSetting(word: string): string {
  return word.startsWith(UNKNOWN) ? `${UNKNOWN}=` : word;
}

/** Variables that a builtin sets, or takes away so that another value counts; also in a subscript: `read 'a[PATH=1]'`. */
function filled(program: string, args: readonly string[]): readonly string[] {
  return namesIn(program, args).flatMap((name) => [name, ...setIn(name.slice(name.indexOf("[") + 1))]);
}

function namesIn(program: string, args: readonly string[]): readonly string[] {
  switch (program) {
    case "let":
      return args.flatMap(setIn);
    case "printf":
      return valuesOf(args, "-v");
    case "wait":
      return valuesOf(args, "-p");
    case "read":
      return [...operandsOf(args), ...valuesOf(args, "-a")];
    case "mapfile":
    case "readarray":
    case "getopts":
      return operandsOf(args);
    case "unset":
      return operandsOf(args).filter((name) => COUNTS_UNSET.test(name));
    case "test":
    case "[":
      return valuesOf(args, "-v").filter((name) => name.includes("["));
    default:
      return DECLARERS.has(program) ? declared(args) : [];
  }
}

/** Without a path the shell looks where it stands; without a home, in another one. Subscripts are evaluated. */
const COUNTS_UNSET = /^(?:PATH|HOME)$|\[/;

/** `declare -i NAME`, `declare -n x=NAME`: what is read from it, or what it is another name of, changes. */
function declared(args: readonly string[]): readonly string[] {
  if (!args.some((arg) => /^-[a-zA-Z]{0,16}[aAinluc]/.test(arg))) return [];
  const isReference = args.some((arg) => /^-[a-zA-Z]{0,16}n/.test(arg));
  return operandsOf(args).flatMap((word) => word.split("=", isReference ? 2 : 1));
}
