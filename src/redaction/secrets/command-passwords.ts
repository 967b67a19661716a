import type { Finding } from "../finding.ts";
import { BLANK, beginsWord, isA, LINE_END, QUOTE, runEnd, UPPER } from "../views/characters.ts";

const LINE_CHARS_MAX = 256;
const PASSWORD_CHARS_MIN = 3;

/** Programs that take a password behind a flag. A flag that ends in a blank needs it. */
const PROGRAMS: readonly (readonly [words: readonly string[], flags: readonly string[]])[] = [
  [
    ["docker login", "podman login", "helm registry login", "sshpass"],
    [" -p ", " -p", " --password "],
  ],
  [["mysql ", "mysqldump ", "mysqladmin ", "mysqlimport ", "mariadb "], [" -p"]],
  [["mongosh ", "mongodump ", "mongorestore ", "mongo ", "az login "], [" -p "]],
  [["redis-cli"], [" -a ", " --pass "]],
  [["ldapsearch", "ldapmodify", "ldapadd", "ldapwhoami", "ldapdelete"], [" -w "]],
];

/** What a password follows at once, wherever it stands. */
const OPENINGS: readonly string[] = [
  ...[" -storepass ", " -keypass ", " -srcstorepass ", " -deststorepass ", "neo4j_auth=neo4j/"],
  ...[" -passin pass:", " -passout pass:", " -pass pass:", " -k pass:"],
];

/** Programs whose first argument is `user/password@database`. */
const ORACLE: readonly string[] = ["sqlplus ", "jdbc:oracle:thin:", "jdbc:oracle:oci:", "sqlldr ", "expdp ", "impdp "];

type Match = (text: string, start: number, end: number) => Finding | number | undefined;

interface CommandPassword {
  readonly words: readonly string[];
  readonly steps: number;
  readonly match: Match;
}

export const COMMAND_PASSWORDS: readonly CommandPassword[] = [
  ...PROGRAMS.map(([words, flags]) => ({ words, steps: 400, match: behindFlag(flags) })),
  { words: OPENINGS, steps: 100, match: (text, _start, end) => passwordAt(text, end, lineEnd(text, end)) },
  {
    words: ["identified by '", 'identified by "'],
    steps: 100,
    match: (text, _start, end) => passwordAt(text, end - 1, lineEnd(text, end)),
  },
  { words: ORACLE, steps: 200, match: matchOracle },
];

/** `docker login -p password`, `mysql -ppassword`. */
function behindFlag(flags: readonly string[]): Match {
  return (text, start, end) => {
    if (!beginsWord(text, start) || !(isA(text, end, BLANK) || isA(text, end - 1, BLANK))) return undefined;
    const from = isA(text, end, BLANK) ? end : end - 1;
    const line = text.slice(from, lineEnd(text, from));
    const flag = flags.find((word) => line.includes(word));
    if (flag === undefined) return from + line.length;
    return passwordAt(text, from + line.indexOf(flag) + flag.length, from + line.length);
  };
}

function lineEnd(text: string, from: number): number {
  const limit = Math.min(text.length, from + LINE_CHARS_MAX);
  let at = from;
  while (at < limit && !isA(text, at, LINE_END)) at += 1;
  return at;
}

/** The word or quoted text at `from`: neither a reference nor a flag. */
function passwordAt(text: string, from: number, limit: number): Finding | number {
  const isQuoted = isA(text, from, QUOTE);
  const value = isQuoted ? from + 1 : from;
  let to = value;
  while (to < limit && (isQuoted ? text[to] !== text[from] : !isA(text, to, BLANK | QUOTE))) to += 1;
  const isKeyword = !isQuoted && runEnd(text, value, UPPER) === to;
  const isNone = isKeyword || to - value < PASSWORD_CHARS_MIN || "$<{-%:".includes(text[value] ?? "-");
  return isNone ? to : { rule: "login-password", start: value, end: to };
}

/** `user/password@database`. */
function matchOracle(text: string, start: number, end: number): Finding | number | undefined {
  if (!beginsWord(text, start)) return undefined;
  const limit = lineEnd(text, end);
  let user = end;
  while (user < limit && !isA(text, user, BLANK) && text[user] !== "/") user += 1;
  if (user === end || text[user] !== "/") return user;
  const value = user + 1;
  const mark = text.slice(value, limit).indexOf("@");
  const to = mark === -1 ? -1 : value + mark;
  const isOne = to !== -1 && runEnd(text, value, BLANK, value + 1) === value && !text.slice(value, to).includes(" ");
  return isOne && to - value >= PASSWORD_CHARS_MIN ? { rule: "login-password", start: value, end: to } : user;
}
