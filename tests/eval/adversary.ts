import { TooLarge } from "../../src/detection/bounds.ts";
import { findSensitive, hideFindings } from "../../src/detection/sensitive.ts";
import { cleanText } from "../../src/detection/views/clean-text.ts";
import { filler } from "../detection/secret-examples.ts";
import { microsecondsOf, timesAsLong } from "../support/processor-time.ts";
import { machineText } from "./negatives.ts";

/** Near-anchors, long runs, nested encodings: each is repeated until the text is full. */
export const UNITS: readonly string[] = [
  ...[" -u a -p b", '"httponly"{', '"cookies":[', "recovery code a-", "?key=", 'auth=("a",', '"name":"password"'],
  ...[":\n  abcdefghijklm\n", "create table a (b,", "<a:password>", "snmp-server community ", "secret_id "],
  ...[
    "a",
    "A",
    "1",
    "-",
    " ",
    "\n",
    "/",
    "=",
    ":",
    "::",
    "1::",
    "@",
    "a@",
    "a@a.",
    "a@b.co ",
    "1 ",
    "1-",
    "1.",
    "12 34 ",
  ],
  ...[
    '"kty"',
    "mysql -p ",
    "ENV A_PASSWORD ",
    "password is ",
    "1 203.0.113.7 ",
    "1.2 ",
    "eyJ",
    "eyJ.",
    "ghp_",
    "ghp_aaaa\n",
    "sk-",
    "sk-ant-",
    "glpat-",
    "EAAA",
    "SG.",
    "AKIA",
    "pat",
    "-us",
    ":AA",
    "sig=",
  ],
  ...[
    "password",
    "password=",
    "password: ",
    "token:",
    "token=a ",
    'key="',
    "password='x",
    "key ",
    "--token ",
    "<password>",
  ],
  ...["://", "a://b:c", "a://b:c@", "-----BEGIN PRIVATE KEY-----", `-----BEGIN PRIVATE KEY-----${filler(24)} `],
  ...["basic AAAAAA ", "bearer ", "curl -u ", "curl -u a:b ", "cookie: a", "authorization: a", "_auth="],
  ...[
    "4111 1111 1111 1111 ",
    "4111111111111111 ",
    "4111",
    "DE89",
    "DE89 3704 ",
    "+1",
    "+14155552671 ",
    "(415) 555-2671 ",
  ],
  ...[
    "tel ",
    "tel 0",
    "tel 0301234567 ",
    "dob ",
    "dob 1",
    "ssn ",
    "ssn 1",
    "123-45-6789 ",
    "cpf 1",
    "passport a",
    "x [at] b.c ",
  ],
  ...[
    "%",
    "%4",
    "%40",
    "%2540",
    "&#64;",
    "&a",
    "\\u0040",
    "\\",
    "\\n",
    "\u200b",
    "４",
    "é",
    "👩‍👩",
    "\u0660",
    "\u001b[0m",
  ],
  ...[
    "QUJDREVGR0hJ",
    "QUJDREVGR0hJ/////",
    "QUJDREVGR0hJ-----",
    "aaaaaaaaaaaa-",
    "616161616161616161616161-",
    "A-",
    "ab/",
  ],
  ...[
    "ssn 12345678 ",
    "born 1 1 1985 ",
    "10.1.2.3 ",
    "8.8.8.8 ",
    "ip 8.8.4.4\n",
    "1::1 ",
    "national id 12345678 ",
    "nie 1",
  ],
  ...[
    "phone 030 901820 ",
    "call me 2125551234 ",
    "+49 30 901820\n",
    "1111 4111 2222 5500 ",
    "411 1111 ",
    "1(1)",
    "1/1/",
  ],
  ...[
    "am9obkBleGFtcGxlLmNvbQ== ",
    "6a6f686e406578616d706c652e636f6d ",
    "YWFhYWFhYWFhYWFh\n",
    "é@b.co ",
    "%41@%42.co ",
    "&#52;&#49;",
  ],
  ...[
    "token=abcdef1 ",
    "a://b@",
    "://a:b@ ",
    '{"password":"abc"},',
    "password: |\n  x\n",
    "\\u001b[31m",
    "\u001b]0;",
    "x''x",
    "1 2 3 4 5 6 ",
  ],
  ...[
    "key:[",
    "key:['",
    "pw:{value:",
    "pw\u200b",
    "pw: \u200b",
    "pw \u2014 ",
    "secret ",
    'Digest pw="',
    "chpasswd <<< a:b ",
    "sqlplus a ",
    "x [at] b.c x [at\uff14",
  ],
  ...[
    "a,password\n",
    "a,password\nb,hunter2x\n",
    "password,",
    'a,"password',
    "| password |\n|--|\n",
    "a|password\n-",
    "user  password\na  b1\n",
    "password\t",
    "a,password\\n",
    "into a(password)values(",
    "into a(password)values('into a(password)values('),('",
    "into a(b,",
    "into a ",
    "copy a(password) from stdin\n",
    "a,password)values('x'),(",
  ],
  ...[
    "AUTH a ",
    "AUTH PLAIN ",
    "AUTH\n$1\n",
    '"auth" "a',
    "user a on >bcd ",
    "1 LOGIN ",
    "PASS ab1 ",
    "USER a PASS b\n",
    "334 UGFzc3dvcmQ6\n",
    "nickserv identify ",
    "credentials: a/b ",
    "creds a:b1",
    "user a password b1 ",
    "identified by ",
    "create user a identified by b ",
  ],
  ...[
    "kind: Secret\ndata:\n a: b\n",
    "kind: Secret\n",
    'kind":"Secret',
    '"data":{"a":"b"},"kind": "Secret"',
    "data:\n a: bcd\n",
  ],
  ...[
    '{"sensitive": true',
    '"value":"a","sensitive":true,',
    "authorization_code code=",
    "&code=a1&state=",
    "&signature=a1&expires=",
  ],
  ...[
    "a:5432:b:c:d\n",
    ":*:*:",
    "a:b@tcp(",
    "auth: YTpi ",
    "mnemonic abc ",
    "CLIENT_RANDOM 0 ",
    " -b 'a=b",
    "curl -b 'a=b' ",
  ],
  ...[
    '["cookie","a=b1",',
    'cookie:["a',
    "authorization:[a ",
    '("password", "a',
    "password for a: ",
    "password for a (",
    "password | b1\n",
  ],
  ...["пароль", "пароль: a", "密码：", "パスワードは", "senha: a ", "mot de passe ", "mật khẩu:", "şİfre "],
  ...["{SSHA}", "$S$a", "SCRAM-SHA-256$", "MIIEvQIBADAN", "+ASt", "a+ASt=", "!AQ", "00D!AQ", "test_aB1", "SWMTKN-1-"],
];

/** A unit over and over. */
export function filled(unit: string, chars: number): string {
  return unit.repeat(Math.ceil(chars / unit.length)).slice(0, chars);
}

/** What an agent would read; undefined when it is too much to look through, so that nothing is read. */
export function seen(text: string): string | undefined {
  try {
    return cleanText(hideFindings(text, findSensitive(text, "strict")));
  } catch (error) {
    if (!(error instanceof TooLarge)) throw error;
    return undefined;
  }
}

interface CleanText {
  readonly text: string;
  /** Processor time of the fastest of several rounds. */
  readonly leastUs: number;
}

/** Clean texts by length: many texts of one length are compared with the same clean one. */
const cleanTexts = new Map<number, CleanText>();

function cleanOf(chars: number): CleanText {
  let clean = cleanTexts.get(chars);
  if (clean === undefined) {
    const text = machineText(3, chars).slice(0, chars);
    clean = { text, leastUs: microseconds(text, 8) };
    cleanTexts.set(chars, clean);
  }
  return clean;
}

/**
 * Returns how many times as long a text takes as clean text of the same length, precisely enough to compare it with the bound. One round
 * shows that it is below: noise only makes a round longer, and the clean text counts with its fastest round. Otherwise both are measured
 * again, by turns.
 */
export function timesClean(text: string, bound: number): number {
  const clean = cleanOf(text.length);
  const ratio = microseconds(text, 1) / clean.leastUs;
  if (ratio < bound) return ratio;
  return timesAsLong(
    () => seen(text),
    () => seen(clean.text),
    bound,
  );
}

/** Of processor time, the least of so many rounds. */
export function microseconds(text: string, rounds: number): number {
  return microsecondsOf(() => seen(text), rounds);
}
