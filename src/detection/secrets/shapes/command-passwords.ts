import type { Finding, Matched } from "../../finding.ts";
import {
  ALPHANUMERIC,
  BLANK,
  beginsWord,
  classesIn,
  DASH,
  DIGIT,
  DOLLAR,
  endBefore,
  isA,
  isOneOf,
  NAME,
  QUOTE,
  runEnd,
  STOP,
  UPPER,
} from "../../views/characters.ts";
import { endsString } from "../beside-name/string-ends.ts";
import { isReference } from "../references.ts";
import { lineEnd, type Stretch } from "../stretches.ts";
import type { SecretShape } from "./shape.ts";

const LINE_CHARS_MAX = 256;
const PASSWORD_CHARS_MIN = 3;
/** Where only its look tells a password from a word. */
const LIKELY_CHARS_MIN = 6;

/** Programs that take a password behind a flag. A flag that ends in a blank needs it. */
const PROGRAMS: readonly (readonly [words: readonly string[], flags: readonly string[]])[] = [
  [
    ["docker login", "podman login", "nerdctl login", "buildah login", "oras login", "crane auth login", "sshpass"],
    [" -p ", " -p", " --password "],
  ],
  [["helm registry login", "twine upload", "conan user ", "conan remote login", "oc login", "cf login"], [" -p "]],
  [["mysql ", "mysqldump ", "mysqladmin ", "mysqlimport ", "mariadb "], [" -p"]],
  [["mongosh ", "mongodump ", "mongorestore ", "mongo ", "az login "], [" -p "]],
  [["redis-cli"], [" -a ", " --pass "]],
  [["unzip ", "zip "], [" -P "]],
  [["7z ", "7za "], [" -p"]],
  [["openssl enc", "openssl aes"], [" -k "]],
  [
    ["mosquitto_pub", "mosquitto_sub"],
    [" -P ", " --pw "],
  ],
  [["keyvault secret set", "ssm put-parameter"], [" --value "]],
  [["gh secret set"], [" --body ", " -b ", " -b"]],
  [
    ["ldapsearch", "ldapmodify", "ldapadd", "ldapwhoami", "ldapdelete", "ldappasswd"],
    [" -w ", " -s "],
  ],
  [
    ["sqlcmd", "osql", "bcp "],
    [" -P ", " -P"],
  ],
  [
    ["snmpget", "snmpwalk", "snmpbulkwalk", "snmpset", "snmptrap"],
    [" -A ", " -X ", " -c "],
  ],
  [["ipmitool"], [" -P "]],
  [["rdesktop", "cqlsh", "psexec", "rabbitmqadmin", "useradd ", "usermod "], [" -p "]],
  [["unrar ", "rar "], [" -p"]],
  [["openssl enc"], [" -K "]],
  [["xfreerdp"], [" /p:"]],
  [["x11vnc"], [" -passwd "]],
  [["ssh-keygen"], [" -N ", " -P "]],
  [["plink", "pscp ", "psftp"], [" -pw "]],
  [["schtasks"], [" /rp ", " /p "]],
  [["nmcli "], [" password ", " wifi-sec.psk "]],
  [["rootpw"], [" --plaintext ", " --iscrypted "]],
];

/** What a password follows at once, wherever it stands. */
const OPENINGS: readonly string[] = [
  ...[" -storepass ", " -keypass ", " -srcstorepass ", " -deststorepass ", "neo4j_auth=neo4j/"],
  ...["-password password ", "-password-again password ", "/root_password password "],
  ...["convertto-securestring ", "convertto-securestring -string ", "-setcookie "],
  ...["reset-admin-password ", " input_pw ", " owner_pw ", " user_pw ", "sudo -s <<< ", "--passphrase-fd 0 <<< "],
  ...[" -passin pass:", " -passout pass:", " -pass pass:", " -k pass:"],
  ...[1, 2, 3, 4, 5].map((share) => `unseal key ${share}: `),
];

/** Programs whose first argument is `user/password@database`. */
const ORACLE: readonly string[] = ["sqlplus ", "jdbc:oracle:thin:", "jdbc:oracle:oci:", "sqlldr ", "expdp ", "impdp "];

/** Programs of which one argument is a password, by its place among those that are no flags. */
const ARGUMENTS: readonly (readonly [words: readonly string[], argument: Place])[] = [
  [["vault login ", "cargo login "], { place: 0, flags: "-" }],
  [["rabbitmqctl add_user ", "rabbitmqctl change_password "], { place: 1, flags: "-/" }],
  [["mc alias set "], { place: 3, flags: "-" }],
  [["config http-basic."], { place: 2, flags: "-" }],
  [["config set --secret ", "config pypi-token.", "net user "], { place: 1, flags: "-/" }],
  [["isql "], { place: 2, flags: "-" }],
  [["net use "], { place: 2, flags: "-/" }],
];

interface Place {
  readonly place: number;
  /** What flags begin with. */
  readonly flags: string;
}

/** What `echo` gives its text to. */
const READERS: readonly string[] = [
  "--password-stdin",
  "chpasswd",
  "passwd --stdin",
  "sudo -S",
  "--with-token",
  "kinit",
  "cryptsetup",
];

type Match = (text: string, start: number, end: number) => Matched;

export const COMMAND_PASSWORDS: readonly SecretShape[] = [
  ...PROGRAMS.map(([words, flags]) => ({ words, steps: 800, match: behindFlag(flags) })),
  ...ARGUMENTS.map(([words, argument]) => ({ words, steps: 400, match: argumentAt(argument) })),
  { words: ["htpasswd "], steps: 400, match: matchHtpasswd },
  { words: ["echo ", "printf "], steps: 400, match: matchEcho },
  { words: ["chpasswd <<< "], steps: 700, match: (text, _start, end) => accountPassword(text, end) },
  { words: ["smbclient "], steps: 400, match: matchSmbUser },
  { words: OPENINGS, steps: 400, match: (text, _start, end) => passwordAt(text, end, commandEnd(text, end)) },
  { words: ["identified by ", "identified with ", "identified via "], steps: 600, match: matchIdentified },
  { words: ORACLE, steps: 500, match: matchOracle },
];

/** `docker login -p password`, `mysql -ppassword`. */
function behindFlag(flags: readonly string[]): Match {
  return (text, start, end) => {
    if (!beginsWord(text, start) || !(isA(text, end, BLANK) || isA(text, end - 1, BLANK))) return undefined;
    const from = isA(text, end, BLANK) ? end : end - 1;
    const line = text.slice(from, commandEnd(text, from));
    const found = flags.flatMap((flag) => {
      const at = line.indexOf(flag);
      return at === -1 ? [] : [passwordAt(text, from + at + flag.length, from + line.length)];
    });
    const passwords = found.filter((one) => typeof one !== "number");
    return passwords.length === 0
      ? Math.max(from + line.length, ...found.filter((one) => typeof one === "number"))
      : passwords;
  };
}

interface Argument extends Stretch {
  readonly isFlag: boolean;
}

/** The words of a command up to where another begins. */
function argumentsOf(text: string, from: number, flags = "-"): readonly Argument[] {
  const limit = commandEnd(text, from);
  const found: Argument[] = [];
  for (
    let at = runEnd(text, from, BLANK, limit);
    at < limit && !isA(text, at, STOP);
    at = runEnd(text, at, BLANK, limit)
  ) {
    const start = at;
    at = endBefore(text, at, BLANK, limit);
    found.push({ start, end: at, isFlag: isOneOf(text, start, flags) });
  }
  return found;
}

function argumentAt({ place, flags }: Place): Match {
  return (text, start, end) => {
    if (!beginsWord(text, start)) return undefined;
    const words = argumentsOf(text, end, flags);
    const found = words.filter(({ isFlag }) => !isFlag)[place];
    return (found === undefined ? undefined : likelyAt(text, found.start)) ?? words.at(-1)?.end;
  };
}

/** A sentence has words where a command has a password: it must not be all small letters. */
function likelyAt(text: string, at: number): Finding | undefined {
  const found = passwordAt(text, at, commandEnd(text, at));
  if (typeof found === "number" || found.end - found.start < LIKELY_CHARS_MIN) return undefined;
  return (classesIn(text, found.start, found.end) & (DIGIT | UPPER)) === 0 ? undefined : found;
}

/** `htpasswd -b file user password`, `htpasswd -nb user password`. */
function matchHtpasswd(text: string, start: number, end: number): Finding | number | undefined {
  if (!beginsWord(text, start) || !isA(text, runEnd(text, end, BLANK, end + 4), DASH)) return undefined;
  const words = argumentsOf(text, end);
  const flags = words.filter(({ isFlag }) => isFlag).map((word) => text.slice(word.start, word.end));
  const isGiven = flags.some((flag) => !flag.startsWith("--") && flag.includes("b"));
  const place = flags.some((flag) => flag.includes("n")) ? 1 : 2;
  const found = words.filter(({ isFlag }) => !isFlag)[place];
  return (isGiven && found !== undefined ? likelyAt(text, found.start) : undefined) ?? words.at(-1)?.end;
}

/** `echo password | docker login --password-stdin`, `echo root:password | chpasswd`. */
function matchEcho(text: string, start: number, end: number): Finding | number | undefined {
  if (!beginsWord(text, start)) return undefined;
  const line = text.slice(end, commandEnd(text, end));
  const pipe = line.indexOf("|");
  const reader = pipe === -1 ? undefined : READERS.find((one) => line.includes(one, pipe));
  if (reader === undefined) return end + line.length;
  const word = argumentsOf(text, end).find(
    (one) => !one.isFlag && !isOneOf(text, one.start + Number(isA(text, one.start, QUOTE)), "%"),
  );
  if (word === undefined) return end + pipe;
  return reader === "chpasswd" ? accountPassword(text, word.start) : passwordAt(text, word.start, end + pipe);
}

/** `user:password`, also in quotation marks. */
function accountPassword(text: string, at: number): Finding | undefined {
  const from = isA(text, at, QUOTE) ? at + 1 : at;
  const colon = runEnd(text, from, NAME, commandEnd(text, at));
  const found = isOneOf(text, colon, ":") ? passwordAt(text, colon + 1, commandEnd(text, at)) : colon;
  return typeof found === "number" ? undefined : found;
}

/** `smbclient //host/share -U user%password`. */
function matchSmbUser(text: string, start: number, end: number): Finding | number | undefined {
  if (!beginsWord(text, start)) return undefined;
  const line = text.slice(end, commandEnd(text, end));
  const flag = line.indexOf("-U ");
  if (flag === -1) return end + line.length;
  const user = runEnd(text, end + flag + 3, NAME | QUOTE, end + line.length);
  return isOneOf(text, user, "%") ? passwordAt(text, user + 1, end + line.length) : user;
}

function commandEnd(text: string, from: number): number {
  return lineEnd(text, from, from + LINE_CHARS_MAX);
}

/** The word or quoted text at `from`: neither a reference nor a flag. */
function passwordAt(text: string, from: number, limit: number): Finding | number {
  const isQuoted = isA(text, from, QUOTE);
  const value = isQuoted ? from + 1 : from;
  let to = value;
  if (isQuoted) while (to < limit && text[to] !== text[from]) to += 1;
  else to = endBefore(text, value, BLANK | QUOTE, limit);
  const isKeyword = !isQuoted && runEnd(text, value, UPPER) === to;
  const isNone = isKeyword || to - value < PASSWORD_CHARS_MIN || (!isQuoted && "$<{-%:".includes(text[value] ?? "-"));
  return isNone || isStandIn(text, { value, to, isQuoted }) ? to : { rule: "login-password", start: value, end: to };
}

/** A manual's word, an ellipsis, or what follows a string that ends with the flag. */
function isStandIn(text: string, { value, to, isQuoted }: { value: number; to: number; isQuoted: boolean }): boolean {
  const password = text.slice(value, Math.min(to, value + LINE_CHARS_MAX));
  if (password.length < LIKELY_CHARS_MIN && (classesIn(password, 0, password.length) & ALPHANUMERIC) === 0) return true;
  if (password.toLowerCase() === "password" || password === "..." || isOnlyEllipses(password)) return true;
  return isQuoted && (isReference(password, "quoted") || endsString(text, value - 1, value));
}

function isOnlyEllipses(password: string): boolean {
  return password.replaceAll("…", "") === "";
}

/** Behind `IDENTIFIED BY` and its like: `plugin AS `, `PASSWORD `, `VALUES `, or nothing. */
const IDENTIFIED = /^(?:\w{1,48} (?:by|as|using) |["'`]\w{1,48}["'`] (?:by|as) )?(?:password |values )?/i;
/** `CREATE USER bob `, `GRANT ALL ON x TO bob `. */
const ACCOUNT_STATEMENT = /\b(?:(?:create|alter) (?:or replace )?user|grant|link)\b[^;\r\n]{1,128}$/i;

/** `IDENTIFIED BY '…'`, `IDENTIFIED WITH plugin AS '…'`; without quotation marks only of a statement about an account. */
function matchIdentified(text: string, start: number, end: number): Matched {
  const [words = ""] = IDENTIFIED.exec(text.slice(end, end + LINE_CHARS_MAX)) ?? [];
  const from = end + words.length;
  const isQuoted = isOneOf(text, from, "\"'");
  const isStated = isQuoted || ACCOUNT_STATEMENT.test(text.slice(Math.max(0, start - LINE_CHARS_MAX), start));
  if (!isStated || (!isQuoted && !text.startsWith("BY", end - 3))) return undefined;
  const found = passwordAt(text, from, commandEnd(text, from));
  if (typeof found === "number" || isQuoted) return found;
  return { ...found, end: runEnd(text, found.start, NAME | DOLLAR, found.end) };
}

/** `user/password@database`. */
function matchOracle(text: string, start: number, end: number): Finding | number | undefined {
  if (!beginsWord(text, start)) return undefined;
  const limit = commandEnd(text, end);
  let user = end;
  while (user < limit && !isA(text, user, BLANK) && !isOneOf(text, user, "/")) user += 1;
  if (user === end || !isOneOf(text, user, "/")) return user;
  const value = user + 1;
  const mark = text.slice(value, limit).indexOf("@");
  const to = mark === -1 ? -1 : value + mark;
  const isOne = to !== -1 && runEnd(text, value, BLANK, value + 1) === value && !text.slice(value, to).includes(" ");
  return isOne && to - value >= PASSWORD_CHARS_MIN ? { rule: "login-password", start: value, end: to } : user;
}
