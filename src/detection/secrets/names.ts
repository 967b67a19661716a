import {
  DASH,
  DIGIT,
  DOT,
  isA,
  isOneOf,
  LOWER,
  runStart,
  UNDERSCORE,
  UPPER,
  wordSet,
  words,
} from "../views/characters.ts";

/** Words for a password in other languages, in lower case. */
export const FOREIGN_PASSWORDS = words(
  "passwort kennwort motdepasse depasse palavrapasse contraseña contrasena contrasenya senha",
  "wachtwoord paswoord hasło haslo heslo şifre şi̇fre sifre lösenord losenord adgangskode kodeord",
  "passord salasana jelszó jelszo lozinka geslo parool slaptažodis parolă katasandi mậtkhẩu",
  "пароль парола лозинка κωδικόςπρόσβασης סיסמה סיסמא كلمةالمرور كلمةالسر पासवर्ड รหัสผ่าน",
  "密码 密碼 パスワード 비밀번호 패스워드",
);

/** Words for tokens and keys, and words for a password that also have other meanings. */
export const FOREIGN_TOKENS = words(
  "parola clave mdp токен トークン 토큰 令牌 密钥 密鑰 秘钥 секрет シークレット 口令 暗証番号 암호",
);

/** Second words of two-word names; on their own they announce nothing. */
export const SECOND_WORDS: readonly string[] = ["passe", "sandi"];

const ASCII_ONLY = /^[ -~]+$/;

function isForeignScript(word: string): boolean {
  return !ASCII_ONLY.test(word);
}

/** Words that may end a longer word: in compounds, and in scripts without spaces between words. */
export const FOREIGN_ENDINGS: readonly string[] = ["passwort", "kennwort", "wachtwoord"].concat(
  FOREIGN_PASSWORDS.filter(isForeignScript),
);

/** Two-word names without their space, a form that does not occur in text. */
const JOINED = wordSet(
  "motdepasse depasse palavrapasse katasandi mậtkhẩu κωδικόςπρόσβασης كلمةالمرور كلمةالسر şi̇fre kennwort",
);

/** Anchors for these words; two-word names with their space. */
export const FOREIGN_ANCHORS: readonly string[] = [
  ...FOREIGN_PASSWORDS.concat(FOREIGN_TOKENS).filter((word) => !word.startsWith("pass") && !JOINED.has(word)),
  ...["şİfre", "mật khẩu", "κωδικός πρόσβασης", "كلمة المرور", "كلمة السر", "sandi"],
];

/** Kind of secret that a name announces: a password may have any value, a token must look like one, a key must look random. */
export type SecretKind = "password" | "token" | "key" | "cookie" | "authorization" | "basic";

const PASSWORDS = words(
  "password passwd pwd passphrase passcode pass passw pswd psw",
  "requirepass masterauth sshpass psk pw bindpw rootpw",
);

const TOKENS = words(
  "secret token apikey secretkey accesskey privatekey signingkey encryptionkey authkey credential credentials",
  "authtoken accesstoken refreshtoken clientsecret appsecret apitoken apisecret sharedsecret webhooksecret",
  "accountkey sharedaccesskey jwtsecret masterkey idtoken sessiontoken bearertoken secretaccesskey accesskeysecret",
  "presharedkey deploykey servicekey jsessionid phpsessid sessionidtoken authtok identitytoken registrytoken",
  "passwordsalt passwordpepper authsalt noncesalt insalt passwordhash",
  "connectsid clientassertion codeverifier devicecode samlresponse authident",
);

/** Plural names. In text they announce only a list, because counts and sentences follow them too. */
const PLURALS = words("passwords passwds passphrases tokens secrets apikeys accesstokens refreshtokens");

/** Words before `key` that make it a secret. */
const SECRET_KEYS = wordSet(
  "api access private secret encryption signing auth account shared master service storage deploy preshared hmac",
  "jwt aes cipher crypto session webhook app admin",
);

/** Words before `token` or `secret` that make it something else. */
const HARMLESS = wordSet(
  "page next prev previous continuation continue sync cancellation cancel syntax end start eof max min num total",
  "input output prompt completion design bos eos pad unk cls sep mask stop lock special unexpected first last",
  "current resume",
);

/** Words before `key` that make it something else, in capitals too. */
const HARMLESS_KEYS = wordSet(
  "public primary foreign partition sort cache idempotency object row hash map index group message registry",
  "config feature flag lookup dedup unique candidate translation i18n label annotation header json state query",
  "socket pub",
);

/** Words at the end of a name that state the form or the owner of the secret. */
const TRAILERS = wordSet(
  "value base base64 b64 hex prod production staging stage dev development test live old new current previous plain",
  "raw string text data sha encoded primary secondary confirmation confirm again repeat",
);

const KINDS: ReadonlyMap<string, SecretKind> = new Map<string, SecretKind>([
  ...PASSWORDS.concat(FOREIGN_PASSWORDS).map((word) => [word, "password"] as const),
  ...TOKENS.concat(FOREIGN_TOKENS, PLURALS).map((word) => [word, "token"] as const),
  ["pat", "key"],
  ["cookie", "cookie"],
  ["authorization", "authorization"],
  ["auth", "basic"],
]);

/** Anchors: every name of a secret contains one. Lower case. */
export const NAME_ANCHORS: readonly string[] = [
  ...words("pass pwd psw secret token key credential masterauth psk authtok cookie authorization jsessionid phpsessid"),
  ...words(
    "_salt _pat kennwort pw sessionid session_id session-id connect.sid client_assertion code_verifier device_code samlresponse authident",
  ),
  ...FOREIGN_ANCHORS,
];

/** Returns the kind of secret that a name announces. `name` may be in snake, kebab, camel or dotted case. */
export function secretKind(name: string): SecretKind | undefined {
  // Country code of Palau.
  if (name === "PW") return undefined;
  // A session cookie of web frameworks.
  if (SESSION.test(name)) return "key";
  const { word: last, start } = meaningfulWord(name);
  const before = wordBefore(name, start)?.word ?? "";
  if (last === "key" || last === "keys") return keyKind(before);
  if (HARMLESS.has(before)) return undefined;
  return KINDS.get(last) ?? passwordAtEnd(last) ?? KINDS.get(before + last) ?? kindInAnyCase(name);
}

const SESSION = /^(?:x-session-?id|_?session_?id)$/i;

export function isPlural(name: string): boolean {
  return isOneOf(name, name.length - 1, "sS") && PLURAL_NAME.test(name);
}

const PLURAL_NAME = new RegExp(`(?:${PLURALS.join("|")})$`, "i");

function meaningfulWord(name: string): NameWord {
  let found = wordBefore(name, name.length);
  while (found !== undefined && TRAILERS.has(found.word)) {
    const earlier = wordBefore(name, found.start);
    if (earlier === undefined) break;
    found = earlier;
  }
  return found ?? { word: "", start: 0 };
}

/** Minimum length of a word in mixed case. */
const MIXED_CHARS_MIN = 4;

/** Reads a name whose capitals do not start words: `pAsSwOrD`. */
function kindInAnyCase(name: string): SecretKind | undefined {
  const last = lastPart(name);
  return last.length < MIXED_CHARS_MIN ? undefined : (KINDS.get(last) ?? passwordAtEnd(last));
}

function keyKind(before: string): SecretKind | undefined {
  if (before === "" || HARMLESS_KEYS.has(before)) return undefined;
  return SECRET_KEYS.has(before) ? "token" : "key";
}

const ENDINGS = Map.groupBy(["password", "passwd", "passphrase", ...FOREIGN_ENDINGS], (ending) => ending.slice(-1));

/** Reads `userpassword`, `dbpasswd`. */
function passwordAtEnd(word: string): SecretKind | undefined {
  const endings = ENDINGS.get(word.slice(-1));
  return endings?.some((ending) => word.endsWith(ending)) === true ? "password" : undefined;
}

/** A word of a name in snake, kebab, camel or dotted case. */
export interface NameWord {
  /** In lower case, without trailing digits. */
  readonly word: string;
  readonly start: number;
}

/** Returns the last word that ends at or before `to`. */
export function wordBefore(name: string, to: number): NameWord | undefined {
  let end = to;
  while (end > 0) {
    while (end > 0 && separates(name, end - 1)) end -= 1;
    let start = end;
    while (start > 0 && (start === end || !beginsWord(name, start)) && !separates(name, start - 1)) start -= 1;
    const word = withoutDigits(name.slice(start, end).toLowerCase());
    if (word !== "") return { word, start };
    end = start;
  }
  return undefined;
}

function separates(name: string, at: number): boolean {
  return isA(name, at, UNDERSCORE | DOT | DASH) || isOneOf(name, at, "[]/ ");
}

const ASCII_MAX = 0x7f;

/** Returns whether a word begins here without a separator: `camelCase`, `HTTPServer`, `API1`. */
function beginsWord(name: string, at: number): boolean {
  if (name.charCodeAt(at) > ASCII_MAX || name.charCodeAt(at - 1) > ASCII_MAX) return false;
  const isAfterCapital = isA(name, at - 1, UPPER);
  if (isA(name, at, UPPER)) return !isAfterCapital || isA(name, at + 1, LOWER);
  return isAfterCapital && !isA(name, at, LOWER);
}

function withoutDigits(word: string): string {
  const end = runStart(word, word.length, DIGIT);
  return end === word.length || word.endsWith("64") || word === "i18n" ? word : word.slice(0, end);
}

/** Returns the text after the last separator, in lower case, without trailing digits. */
export function lastPart(name: string): string {
  let start = name.length;
  while (start > 0 && !separates(name, start - 1)) start -= 1;
  return withoutDigits(name.slice(start).toLowerCase());
}
