import { type Command, type CommandOption, flagOf } from "./command.ts";
import { print } from "./output.ts";

/** `stc completion`: prints a script that completes commands, options and choices. Nothing of it runs `stc`. */
export function completion(shell: "bash" | "zsh" | "fish", commands: readonly Command[]): void {
  const nodes = nodesOf(commands);
  print.line({ bash: bashScript, zsh: zshScript, fish: fishScript }[shell](nodes).join("\n"));
}

/** A command or a group of commands, with what may follow it. */
interface Node {
  /** The words after `stc`; empty for `stc` itself. */
  readonly path: string;
  readonly words: readonly Word[];
  readonly options: readonly Choice[];
}

interface Word {
  readonly text: string;
  readonly help: string;
}

interface Choice extends Word {
  readonly short: string | undefined;
  /** Undefined for a flag. */
  readonly value: "file" | "text" | readonly string[] | undefined;
}

const FILES: ReadonlySet<string> = new Set(["file", "directory"]);
const HELP: Choice = { text: "--help", short: "-h", help: "display help for command", value: undefined };

function nodesOf(commands: readonly Command[]): readonly Node[] {
  const paths = new Set(
    commands.flatMap(({ name }) => name.split(" ").map((_, at, words) => words.slice(0, at).join(" "))),
  );
  const names = new Set([...paths, ...commands.map(({ name }) => name)]);
  return [...names].map((path) => {
    const command = commands.find(({ name }) => name === path);
    const below = commands.filter(({ name }) => parentOf(name) === path && name !== path);
    const kinds = Object.values(command?.arguments ?? {}).flatMap(({ kind }) => kind.choices ?? []);
    return {
      path,
      words: [
        ...below.map(({ name, summary }) => ({ text: name.slice(path.length).trim(), help: summary })),
        ...kinds.map((text) => ({ text, help: "" })),
      ],
      options: [...Object.entries(command?.options ?? {}).map(([key, option]) => choiceOf(key, option)), HELP],
    };
  });
}

function parentOf(name: string): string {
  return name.split(" ").slice(0, -1).join(" ");
}

function choiceOf(key: string, { help, kind, short }: CommandOption): Choice {
  const value = kind && (kind.choices ?? (FILES.has(kind.placeholder) ? "file" : "text"));
  return { text: flagOf(key), short: short && `-${short}`, help, value };
}

/** Returns a text in single quotes, in which shells replace nothing. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Returns the patterns of a `case` for the path of a command and one of its options. */
function patterns(nodes: readonly Node[], takes: (value: Choice["value"]) => boolean): string {
  const found = nodes.flatMap(({ path, options }) =>
    options
      .filter(({ value }) => takes(value))
      .flatMap(({ text, short }) =>
        [text, ...(short === undefined ? [] : [short])].map((flag) => quoted(`${path} ${flag}`)),
      ),
  );
  return found.join("|");
}

/** Returns the patterns of a `case` for a path and its next word. */
function steps(nodes: readonly Node[]): string {
  return nodes
    .filter(({ path }) => path !== "")
    .map(({ path }) => quoted(`${parentOf(path)} ${path.split(" ").at(-1)}`))
    .join("|");
}

/** Returns each list of choices with the patterns of its options. */
function choices(nodes: readonly Node[]): readonly (readonly [patterns: string, values: readonly string[]])[] {
  const lists = nodes.flatMap(({ options }) => options.flatMap(({ value }) => (Array.isArray(value) ? [value] : [])));
  const unique = new Map(lists.map((list) => [list.join(" "), list as readonly string[]]));
  return [...unique].map(([key, list]) => [
    patterns(nodes, (value) => Array.isArray(value) && value.join(" ") === key),
    list,
  ]);
}

function bashScript(nodes: readonly Node[]): readonly string[] {
  const words = nodes.map(
    ({ path, words: list, options }) =>
      `    ${quoted(path)}) words=${quoted(list.map(({ text }) => text).join(" "))} options=${quoted(options.map(({ text }) => text).join(" "))} ;;`,
  );
  return [
    `# Completion of stc for bash. Write into ~/.bashrc: eval "$(stc completion bash)"`,
    "_stc() {",
    '  local current="${COMP_WORDS[COMP_CWORD]}" path="" words="" options="" i',
    "  for ((i = 1; i < COMP_CWORD; i++)); do",
    '    case "$path ${COMP_WORDS[i]}" in',
    `      ${steps(nodes)}) path="\${path:+$path }\${COMP_WORDS[i]}" ;;`,
    "    esac",
    "  done",
    "  COMPREPLY=()",
    '  case "$path ${COMP_WORDS[COMP_CWORD - 1]}" in',
    ...choices(nodes).map(([at, list]) => `    ${at}) words=${quoted(list.join(" "))} ;;`),
    `    ${patterns(nodes, (value) => value === "file")}) COMPREPLY=($(compgen -f -- "$current")); return ;;`,
    `    ${patterns(nodes, (value) => value === "text")}) return ;;`,
    "  esac",
    '  if [[ -z "$words" ]]; then case "$path" in',
    ...words,
    "  esac; fi",
    '  if [[ "$current" == -* ]]; then words="$options"; fi',
    '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
    "}",
    "complete -o default -F _stc stc",
  ];
}

/** Returns a word with its help for zsh's `_describe`. */
function described({ text, help }: Word): string {
  const line = help === "" ? "" : `:${help.replaceAll("\\", "\\\\").replaceAll(":", "\\:")}`;
  return quoted(`${text.replaceAll(":", "\\:")}${line}`);
}

function zshScript(nodes: readonly Node[]): readonly string[] {
  return [
    "#compdef stc",
    `# Completion of stc for zsh. Write into ~/.zshrc, after compinit: eval "$(stc completion zsh)"`,
    "_stc() {",
    '  local at="" i',
    "  local -a list options",
    "  for ((i = 2; i < CURRENT; i++)); do",
    '    case "$at ${words[i]}" in',
    `      (${steps(nodes)}) at="\${at:+$at }\${words[i]}" ;;`,
    "    esac",
    "  done",
    '  case "$at ${words[CURRENT-1]}" in',
    ...choices(nodes).map(([at, values]) => `    (${at}) compadd -- ${values.map(quoted).join(" ")}; return ;;`),
    `    (${patterns(nodes, (value) => value === "file")}) _files; return ;;`,
    `    (${patterns(nodes, (value) => value === "text")}) return 1 ;;`,
    "  esac",
    '  case "$at" in',
    ...nodes.map(
      ({ path, words, options }) =>
        `    (${quoted(path)}) list=(${words.map(described).join(" ")}) options=(${options.map(described).join(" ")}) ;;`,
    ),
    "  esac",
    '  if [[ "${words[CURRENT]}" == -* ]]; then _describe -o option options; return; fi',
    "  if ((${#list})); then _describe command list; else _files; fi",
    "}",
    'if [[ "${funcstack[1]-}" == _stc ]]; then _stc "$@"; else compdef _stc stc; fi',
  ];
}

/** Returns a text in fish's single quotes, where a backslash escapes a quote and itself. */
function fishQuoted(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

function fishScript(nodes: readonly Node[]): readonly string[] {
  const paths = nodes.filter(({ path }) => path !== "").map(({ path }) => fishQuoted(path));
  return [
    "# Completion of stc for fish: stc completion fish > ~/.config/fish/completions/stc.fish",
    "function __stc_at",
    "    set -l at ''",
    "    for word in (commandline -opc)[2..-1]",
    '        set -l next (string trim -- "$at $word")',
    `        if contains -- "$next" ${paths.join(" ")}`,
    '            set at "$next"',
    "        end",
    "    end",
    '    test "$at" = "$argv[1]"',
    "end",
    ...nodes.flatMap(({ path, words, options }) => {
      const start = `complete -c stc -n ${fishQuoted(`__stc_at ${fishQuoted(path)}`)}`;
      const about = ({ help }: Word): string => (help === "" ? "" : ` -d ${fishQuoted(help)}`);
      return [
        ...words.map((word) => `${start} -f -a ${fishQuoted(word.text)}${about(word)}`),
        ...options.map((option) => {
          const short = option.short === undefined ? "" : ` -s ${option.short.slice(1)}`;
          return `${start} -l ${option.text.slice(2)}${short}${fishValue(option.value)}${about(option)}`;
        }),
      ];
    }),
  ];
}

function fishValue(value: Choice["value"]): string {
  if (value === undefined) return "";
  if (value === "file") return " -r -F";
  return value === "text" ? " -x" : ` -x -a ${fishQuoted((value as readonly string[]).join(" "))}`;
}
