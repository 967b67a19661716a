import { byName, words } from "./names.ts";
import { type Invocation, operandsOf } from "./shell/invocation.ts";

/** A call of a program that only shows something: the words behind its options, and the options that may stand with them. */
interface Look {
  readonly words: RegExp;
  readonly options: RegExp;
  /** Options whose value is the next word. */
  readonly valued?: readonly string[];
  /** What none of the words may be. */
  readonly never?: RegExp;
}

/** Calls that begin with one of these words, or with one of the first and one of the second of a pair. A `$` ends the call. */
function calls(ones: string, ...pairs: readonly (readonly [first: string, second: string])[]): RegExp {
  const both = pairs.map(([first, second]) => `(?:${oneOf(first)}) (?:${oneOf(second)})`);
  return new RegExp(`^(?:${[oneOf(ones), ...both].join("|")})(?: |$)`);
}

/** The options of a program that only shows something. */
interface Known {
  /** Single ones, each behind a dash. */
  readonly letters: string;
  /** So many letters in one word. */
  readonly lettersMax?: number;
  readonly longs?: readonly string[];
  /** Long ones with a value behind `=` or in the next word. */
  readonly valued: readonly string[];
  /** Whole words besides. */
  readonly also?: readonly string[];
}

function options({ letters, lettersMax = 1, longs = [], valued, also = [] }: Known): RegExp {
  const plain = [...also, ...longs.map((name) => `--${name}`)];
  return new RegExp(
    `^(?:${[`-[${letters}]{1,${lettersMax}}`, ...plain].join("|")}|--(?:${valued.join("|")})(?:=.*)?)$`,
  );
}

function oneOf(list: string): string {
  return words(list).join("|");
}

const CONTAINERS: Look = {
  words: calls(
    "ps images version info logs inspect stats top port diff history events",
    ["container image volume network context plugin", "ls list inspect logs stats top port diff history show"],
    ["system", "df info"],
    ["compose", "ps ls logs images top port version"],
  ),
  options: options({
    letters: "aqflnstd",
    lettersMax: 4,
    longs: words(
      "all quiet no-trunc no-stream follow details timestamps size digests no-color services status verbose",
    ),
    valued: words("tail since until format filter last type project-name file human"),
  }),
  valued: words("--tail --since --until --format --filter --last --type --project-name -n"),
};

const CLUSTER: Look = {
  words: calls(
    "get describe logs top explain events api-resources api-versions version cluster-info$",
    ["config", "get-contexts current-context get-clusters view$"],
    ["rollout", "status history"],
    ["auth", "can-i whoami"],
  ),
  options: options({
    letters: "AnolcLfwpR",
    also: words("-owide -oyaml -ojson -oname"),
    longs: words(
      "all-namespaces watch follow previous timestamps all-containers prefix show-labels no-headers",
      "ignore-not-found client short recursive",
    ),
    valued: words(
      "namespace output selector field-selector container tail since sort-by label-columns context revision limit",
      "limit-bytes api-group namespaced timeout for",
    ),
  }),
  valued: words(
    "-n -o -l -c -L --namespace --output --selector --field-selector --container --tail --since --sort-by --context",
  ),
  never: /secret|:\/\/|(?:template|jsonpath)-file|^\/|\0/i,
};

const CHARTS: Look = {
  words: calls("list ls status history version env"),
  options: options({
    letters: "AanqodrfmL",
    valued: words("all all-namespaces short namespace output max filter revision"),
  }),
  valued: words("-n --namespace -o --output --max --revision --filter"),
};

const NPM: Look = {
  words: /^(?:(?:ls|list|ll|la|why|explain|root|prefix|bin)(?: |$)|config (?:list|get|ls)|pkg get|run$)/,
  options:
    /^(?:-[galp]|--(?:global|all|json|long|parseable|prod|production|dev|depth|omit|include|workspaces)(?:=[a-z0-9]*)?)$/,
  valued: ["--depth", "--omit", "--include"],
};

const PIP: Look = {
  words: /^(?:list|show|freeze|check)(?: |$)/,
  options:
    /^(?:-[fulv]|--(?:outdated|user|local|files|not-required|format|verbose|disable-pip-version-check)(?:=[a-z]*)?)$/,
  valued: ["--format"],
};

const SERVICES: Look = {
  words: /^(?:status|is-active|is-enabled|is-failed|list-[a-z-]{1,32}|show|cat|get-default)(?: |$)/,
  options:
    /^(?:-[alqrnpto]|--(?:user|system|no-pager|full|all|quiet|failed|plain|no-legend|reverse)|--(?:type|state|lines|property|output|value)(?:=.*)?)$/,
  valued: ["-n", "-p", "-t", "-o", "--type", "--state", "--lines", "--property", "--output"],
};

const CERTIFICATES: Look = {
  words: /^(?:x509|crl|req)$/,
  options:
    /^-(?:in|noout|text|subject|issuer|dates|enddate|startdate|serial|fingerprint|sha1|sha256|ext|inform|checkend|pubkey|modulus|purpose|email|nameopt|verify)$/,
  valued: ["-in", "-ext", "-inform", "-checkend", "-nameopt"],
  never: /:\/\//,
};

const LOOKS = byName<readonly Look[]>([
  ["docker podman nerdctl", [CONTAINERS]],
  ["docker-compose", [{ ...CONTAINERS, words: /^(?:ps|ls|logs|images|top|port|version)(?: |$)/ }]],
  ["kubectl oc", [CLUSTER]],
  ["helm", [CHARTS]],
  ["npm", [NPM]],
  ["pip", [PIP]],
  ["uv", [{ ...PIP, words: /^pip (?:list|show|freeze|check|tree)(?: |$)/ }]],
  [
    "cargo",
    [
      {
        words: /^(?:tree|metadata|pkgid|locate-project)(?: |$)/,
        options:
          /^(?:-[depi]|--(?:offline|locked|frozen|no-deps|all-features|no-default-features|workspace|duplicates)|--(?:depth|edges|invert|package|prefix|format-version|format|features|charset)(?:=.*)?)$/,
        valued: words("-e -p -i --depth --edges --invert --package --prefix --format-version"),
      },
      { words: /^$/, options: /^--list$/ },
    ],
  ],
  [
    "go",
    [
      { words: /^list(?: |$)/, options: /^-(?:m|u|json|f|deps|e|versions|find)$/, valued: ["-f"] },
      { words: /^(?:env|doc)(?: |$)/, options: /^-(?:json|all|src|short|u|c|changed)$/, never: /^-u?w$|^-u$/ },
      { words: /^mod (?:graph|why|verify)(?: |$)/, options: /^-m$/ },
    ],
  ],
  ["gem", [{ words: /^(?:list|environment|which)(?: |$)/, options: /^(?:-[alid]|--(?:local|all|details|versions))$/ }]],
  [
    "rustup",
    [{ words: /^(?:show|(?:toolchain|component|target) list)(?: |$)/, options: /^(?:-v|--verbose|--installed)$/ }],
  ],
  [
    "rustc",
    [{ words: /^$/, options: /^(?:-[vV]{1,2}|--version|--verbose|--print(?:=[a-z-]*)?)$/, valued: ["--print"] }],
  ],
  ["bun", [{ words: /^pm (?:ls|bin|cache$|hash)(?: |$)/, options: /^(?:-g|--all)$/ }]],
  ["dotnet", [{ words: /^$/, options: /^--(?:info|list-sdks|list-runtimes|version)$/ }]],
  ["systemctl", [SERVICES]],
  ["openssl", [CERTIFICATES, { words: /^version$/, options: /^-[abdefopv]$/ }]],
  ["sysctl", [{ words: /^(?:[a-z0-9_./-]+(?: |$))*$/, options: /^(?:-[abnNqe]{1,4}|--(?:all|names|values|ignore))$/ }]],
  ["stty", [{ words: /^(?:size|speed)?$/, options: /^(?:-a|--all|-g|--save)$/ }]],
  ["7z 7za 7zz", [{ words: /^l /, options: /^-(?:slt|ba|bd)$/ }]],
  [
    "shellcheck",
    [{ words: /^./, options: /^(?:-[axsfSeC].{0,64}|--[a-z-]{1,32}(?:=.*)?)$/, valued: ["-s", "-f", "-S", "-e"] }],
  ],
  ["gofmt", [{ words: /^/, options: /^-[lde]$|^-s$/ }]],
]);

/** Whether the call only shows something, as its words say, and no option is there that could make it do more. */
export function looksOnly({ program, family, args }: Invocation): boolean {
  const looks = LOOKS.get(program) ?? LOOKS.get(family) ?? [];
  return looks.some((look) => isLook(args, look));
}

function isLook(args: readonly string[], { words, options, valued = [], never }: Look): boolean {
  if (never !== undefined && args.some((arg) => never.test(arg))) return false;
  const isKnown = args.every(
    (arg, at) => !arg.startsWith("-") || options.test(arg) || valued.includes(args[at - 1] ?? ""),
  );
  return (
    isKnown &&
    args.length > 0 &&
    !args.some((arg) => arg.startsWith("\0")) &&
    words.test(operandsOf(args, valued).join(" "))
  );
}
