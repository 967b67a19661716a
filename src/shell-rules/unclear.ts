import { type Command, forEachChild, type SyntaxNode, type Word } from "unbash";
import { type Call, names, operandsOf, valuesOf } from "./call.ts";
import { isLiteral, UNKNOWN } from "./words.ts";

/** Reason why the text of a script does not show what it runs. */
export type Unclear =
  | "syntax"
  | "too large"
  | "control characters"
  | "program not literal"
  | "indirection"
  | "deferred code"
  | "hidden script"
  | "redefined program";

/** Controls except tab and line feed, bidirectional marks and invisible characters: a reader would see another command. */
const UNSEEN =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e0fff}]/u;

/** Joiners are part of some scripts and emoji; next to ASCII they only hide text. */
const LONE_JOINER = /(?:^|[\0-\x7f])[\u200c\u200d]/;

/** Returns whether a reader would see another text than the shell does. */
export function hidesText(text: string): boolean {
  return UNSEEN.test(text) || LONE_JOINER.test(text) || !text.isWellFormed();
}

/** Returns why this node, without its children, makes the script unclear. */
export function unclearNode(node: SyntaxNode): Unclear | undefined {
  switch (node.type) {
    case "Script":
      return node.errors !== undefined && node.errors.length > 0 ? "syntax" : undefined;
    case "CommandExpansion":
    case "ProcessSubstitution":
    case "ArithmeticCommandExpansion":
      return node.script === undefined ? "syntax" : undefined;
    case "ParameterExpansion": {
      const { operation, prefix, index } = node;
      if (operation?.type === "Unknown") return "syntax";
      if (operation?.type === "Transform" && operation.operand.value === "P") return "indirection";
      if (quotesCode(node)) return "deferred code";
      // `${!name[@]}` lists keys; every other `${!name}` reads the variable that a variable names.
      const isKeys = index?.value === "@" || index?.value === "*";
      return prefix === "!" && operation?.type !== "Names" && !isKeys ? "indirection" : undefined;
    }
    default:
      return undefined;
  }
}

const CODE = /\$\(|`/;

/** Quotes inside an expansion do not quote in double quotes, here-documents and arithmetic: their text may be code. */
function quotesCode(node: SyntaxNode): boolean {
  if ((node.type === "SingleQuoted" || node.type === "AnsiCQuoted") && CODE.test(node.text)) return true;
  let found = false;
  forEachChild(node, (child) => {
    found ||= quotesCode(child);
  });
  return found;
}

/** Builtins that read a word as the name of a variable (perhaps with a subscript) or as arithmetic. */
const EVALUATORS = names("let declare typeset local unset read wait getopts");

/**
 * Arithmetic, subscripts and variable names run `$( )` inside a subscript of a value, even if it was quoted. So a script is
 * unclear when it evaluates something and contains quoted text that could be such a subscript.
 */
export function defersCode(tree: SyntaxNode): boolean {
  let all = "";
  let evaluates = false;
  let expandsWords = false;
  let starts = false;
  let ends = false;
  const visit = (node: SyntaxNode, isValue: boolean): void => {
    evaluates ||= isEvaluating(node);
    expandsWords ||= node.type === "Command" && /^comp(?:gen|lete)$/.test(node.name?.value ?? "");
    const text = textIn(node);
    if (text !== undefined) {
      all += text;
      ends ||= isValue && text.endsWith("$");
      starts ||= isValue && text.startsWith("(");
    }
    const isKept = isValue || node.type === "Assignment" || node.type === "HereString";
    forEachChild(node, (child) => visit(child, isKept || (node.type === "For" && child.type === "Word")));
    if (node.type === "Word" || node.type === "HereDocBody") all += "\n";
  };
  visit(tree, false);
  const holdsCode = CODE.test(all) || (starts && ends);
  return holdsCode && (expandsWords || (evaluates && all.includes("[")));
}

function textIn(node: SyntaxNode): string | undefined {
  switch (node.type) {
    case "Literal":
    case "SingleQuoted":
    case "AnsiCQuoted":
    case "ArithmeticWord":
      return node.value;
    case "Glob":
    case "ExtendedGlob":
    case "BraceExpansion":
      return node.text;
    case "Word":
      return node.parts === undefined ? node.value : undefined;
    case "HereDocBody":
      return node.parts === undefined ? node.text : undefined;
    default:
      return undefined;
  }
}

const ARITHMETIC_TEST = /^-(?:eq|ne|lt|le|gt|ge)$/;

function isEvaluating(node: SyntaxNode): boolean {
  switch (node.type) {
    case "ArithmeticWord":
      return true;
    case "TestBinary":
      return ARITHMETIC_TEST.test(node.operator);
    case "TestUnary":
      return node.operator === "-v";
    case "ParameterExpansion":
      return node.index !== undefined || node.operation?.type === "Slice";
    case "Assignment":
      return node.index !== undefined;
    case "Command":
      return isEvaluator(node);
    default:
      return false;
  }
}

function isEvaluator({ name, suffix }: Command): boolean {
  const program = name?.value ?? "";
  if (EVALUATORS.has(program)) return true;
  if (program !== "test" && program !== "[" && program !== "printf") return false;
  const [first, ...rest] = suffix.filter((part) => part.type === "Word");
  if (first === undefined) return false;
  return [first, ...rest].some(({ value }) => value.startsWith("-v")) || (program !== "printf" && !isLiteral(first));
}

/** Returns the variables that a node other than an assignment sets: loops, arithmetic, `{name}>file`, `${name:=x}`. */
export function namesSetBy(node: SyntaxNode): readonly string[] {
  const inIndex = (index: Word | undefined) => (index === undefined ? [] : namesSetIn(index.value));
  switch (node.type) {
    case "For":
    case "Select":
      return [node.name.value];
    case "ArithmeticBinary":
      return /^(?:[-+*/%&|^]|<<|>>)?=$/.test(node.operator) && node.left.type === "ArithmeticWord"
        ? [node.left.value]
        : [];
    case "ArithmeticUnary":
      return /^(?:\+\+|--)$/.test(node.operator) && node.operand.type === "ArithmeticWord" ? [node.operand.value] : [];
    case "TestBinary":
      return ARITHMETIC_TEST.test(node.operator)
        ? [node.left, node.right].flatMap(({ value }) => namesSetIn(value))
        : [];
    case "FileDescriptorVariable":
      return [node.name];
    case "Coproc":
      return node.name === undefined ? [] : [node.name.value];
    case "Assignment":
      return inIndex(node.index);
    case "ParameterExpansion": {
      const { operation, parameter, index } = node;
      const isSet = operation?.type === "Default" && operation.operator.endsWith("=");
      return [...(isSet ? [parameter] : []), ...inIndex(index)];
    }
    default:
      return [];
  }
}

/** Returns the words that a node gives to a variable: by an assignment, a loop or `${name:-word}`. */
export function wordsSetBy(node: SyntaxNode): readonly Word[] {
  switch (node.type) {
    case "For":
      return node.wordlist ?? [];
    case "Assignment":
      return node.value.type === "Word" ? [node.value] : node.value.elements;
    case "ParameterExpansion":
      return node.operation?.type === "Default" ? [node.operation.operand] : [];
    default:
      return [];
  }
}

const SETS =
  /(\b[A-Za-z_]\w{0,63})\s{0,8}(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s{0,8}([A-Za-z_]\w{0,63})/g;

/** Returns variables that a text sets as arithmetic: `PATH=1`, `a[PATH+=1]`, `PATH++`, `--PATH`. */
function namesSetIn(text: string): readonly string[] {
  return [...text.matchAll(SETS)].map(([, before = "", after = ""]) => before + after);
}

/** Builtins whose arguments may be settings: `export NAME=value`. */
export const DECLARERS = names("export declare typeset readonly local");

/** Returns variables that a builtin sets or removes, also in a subscript: `read 'a[PATH=1]'`. */
export function namesSetByCall({ program, args }: Call): readonly string[] {
  return targetsOf(program, args).flatMap((name) => [name, ...namesSetIn(name.slice(name.indexOf("[") + 1))]);
}

function targetsOf(program: string, args: readonly string[]): readonly string[] {
  switch (program) {
    case "let":
      return args.flatMap(namesSetIn);
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
      // Without PATH or HOME the shell uses other folders.
      return operandsOf(args).filter((name) => /^(?:PATH|HOME)$|\[/.test(name));
    case "test":
    case "[":
      return valuesOf(args, "-v").filter((name) => name.includes("["));
    default:
      return DECLARERS.has(program) ? declared(args) : [];
  }
}

/** Reads `declare -i NAME` and `declare -n x=NAME`: an attribute changes the value of the variable, or of the one that it refers to. */
function declared(args: readonly string[]): readonly string[] {
  if (!args.some((arg) => /^-[a-zA-Z]{0,16}[aAinluc]/.test(arg))) return [];
  const isReference = args.some((arg) => /^-[a-zA-Z]{0,16}n/.test(arg));
  return operandsOf(args).flatMap((word) => word.split("=", isReference ? 2 : 1));
}

/** Variables that choose which programs, libraries or settings are loaded. */
const LOADERS = names(`PATH CDPATH HOME TMPDIR SHELL VISUAL BROWSER CC CXX MAKEFLAGS LESS LESSOPEN LESSCLOSE MORE MANOPT
  MANPATH INPUTRC ZDOTDIR IFS ENV BASH_ENV BASHOPTS SHELLOPTS PROMPT_COMMAND BASH_CMDS BASH_ALIASES JAVA_TOOL_OPTIONS
  _JAVA_OPTIONS CLASSPATH RUSTC RUSTFLAGS RUSTC_WRAPPER GOFLAGS GOPROXY GCONV_PATH LOCPATH TAR_OPTIONS ZIPOPT PARALLEL
  RIPGREP_CONFIG_PATH DOCKER_HOST KUBECONFIG GNUPGHOME http_proxy https_proxy all_proxy ftp_proxy no_proxy HTTP_PROXY
  HTTPS_PROXY ALL_PROXY FTP_PROXY`);

/** Matches families of such variables: `LD_PRELOAD`, `GIT_SSH_COMMAND`, `npm_config_script_shell`, `MANPAGER`, `SUDO_ASKPASS`. */
const LOADER_FAMILIES = [
  /^(?:LD|DYLD|GIT|NODE|BUN|NPM_CONFIG|XDG|FZF|RSYNC|CARGO|PIP|UV)_[A-Z_]+$/,
  /^npm_config_[a-z_]+$/,
  /^(?:PS[0-9]|(?:PYTHON|RUBY|OPENSSL_)[A-Z]+|PERL[A-Z0-9_]+|SSL[A-Z_]+)$/,
  /^(?:LESSEDIT|LESSKEY.*)$/,
  /^(?:[A-Z_]*(?:PAGER|EDITOR|SQL_HISTORY)|[A-Z]+_ASKPASS)$/,
];

/** Matches settings that only prevent prompts and paging, or change the display of output. */
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

/** Returns whether a call sets a variable that decides what is loaded. A dynamic word may set any variable. */
export function choosesLoading(call: Call): boolean {
  const isDeclaring = DECLARERS.has(call.program) || call.program === "env";
  const settings = [
    ...call.variables,
    ...(isDeclaring ? call.args.map((word) => (word.startsWith(UNKNOWN) ? `${UNKNOWN}=` : word)) : []),
    ...namesSetByCall(call).map((name) => `${name}=${UNKNOWN}`),
  ];
  return settings.some((setting) => isLoader(setting) && !HARMLESS_SETTINGS.some((harmless) => harmless.test(setting)));
}

/** Returns whether `NAME=value`, `NAME+=value` or `NAME[]=value` sets one of these variables. */
function isLoader(setting: string): boolean {
  const end = setting.indexOf("=");
  if (end === -1) return false;
  if (setting.startsWith(UNKNOWN)) return true;
  const name = setting
    .slice(0, end)
    .replace(/\+$/, "")
    .replace(/\[.{0,64}\]$/, "");
  return LOADERS.has(name) || LOADER_FAMILIES.some((family) => family.test(name));
}
