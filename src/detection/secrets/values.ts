import { isAssignedNumber } from "../pii/identifiers.ts";
import {
  ALPHANUMERIC,
  BASE64,
  BASE64URL,
  BLANK,
  classesIn,
  DIGIT,
  DOT,
  EQUALS,
  HEX,
  LETTER,
  LINE_END,
  LOWER,
  NAME,
  runEnd,
  UPPER,
  WORD,
  wordSet,
} from "../views/characters.ts";
import { FOREIGN_ENDINGS, FOREIGN_PASSWORDS, type SecretKind, secretKind } from "./names.ts";
import {
  hasDigit,
  isBasicCredentials,
  isCode,
  isColour,
  isConstant,
  isDottedNumber,
  isGroupedNumber,
  isIdentifier,
  isNumberedName,
  isNumberedType,
  isOnly,
  isPlainPath,
  isPropertyPath,
  isReference,
  isResourceName,
  isResourcePath,
  isSmallNumber,
  isTemplate,
  isUrlOrPath,
  isUuid,
  looksRandom,
} from "./value-shapes.ts";

/**
 * The notation of a value next to its name. `assigned`: `NAME=value`; `quoted`: in quotes, or a string of a tree;
 * `line`: the rest of a line after `name: `; `loose`: a word within text; `prose`: a word that follows the name
 * without punctuation; `listed`: after the name in a list; `paired`: in a list of two.
 */
export type ValueStyle = "assigned" | "quoted" | "line" | "loose" | "prose" | "listed" | "paired";

/** Maximum length of a value that is assessed; a longer value is a secret. UTF-16 units. */
export const ASSESSED_CHARS_MAX = 128;

const PASSWORD_CHARS_MIN = 3;
/** Minimum length of a number; a shorter one is a count or a constant. */
const BARE_DIGITS_MIN = 4;
const TOKEN_CHARS_MIN = 6;
const UNBROKEN_CHARS_MIN = 16;
const BASIC_CHARS_MIN = 8;

/** A phrase with two of these words is about a password, not a password. */
const PROSE = wordSet(
  "password passwords must your is the enter please invalid required characters user cannot not should token secret",
  "key incorrect field for this when that with or",
);

/** Returns whether a value next to a name of this kind is a secret, by its first characters. */
export function isSecretValue(written: string, kind: SecretKind, style: ValueStyle): boolean {
  const value = IN_PROGRAMS.has(style) ? withoutClosers(written) : written;
  if (
    isOnly(value, BLANK | LINE_END) ||
    isReference(value, style === "assigned" || style === "quoted" ? style : "bare") ||
    isTemplate(value)
  )
    return false;
  if (KEY_FILE.test(value) || RULES.test(value)) return false;
  if (kind === "cookie" || kind === "authorization") return value.length >= TOKEN_CHARS_MIN && !isPlaceholder(value);
  if (value.length >= ASSESSED_CHARS_MAX && !value.includes(" ")) return !isUrlOrPath(value);
  if (kind === "basic")
    return value.length >= BASIC_CHARS_MIN && isOnly(value, BASE64 | EQUALS) && isBasicCredentials(value);
  if (kind === "key") return looksRandom(value) && !isNumberedType(value);
  if (style === "prose" || style === "paired") return isDistinctive(value);
  if (style === "listed") return isListed(value);
  if (style === "assigned") return isAssigned(value, kind);
  if (isGroupedNumber(value) || isDottedNumber(value)) return false;
  if (kind === "password") return isPassword(value, style);
  return isToken(value, style);
}

/** Matches `certs/server2.key`. */
const KEY_FILE = /^(?:[\w.-]{1,64}\/){1,8}[\w.-]{1,64}\.(?:pem|key|crt|cer|der|p12|pfx|jks|ppk)$/;
/** Matches rules of form validation: `required|string|min:8`. */
const RULES = /^(?:required|nullable|sometimes)(?:\|[a-z_]{2,32}(?::[\w,.-]{1,32})?){1,8}$/;

const IN_PROGRAMS: ReadonlySet<ValueStyle> = new Set(["line", "loose"]);

/** Drops brackets that were opened before the name, and the text after them: `string):` becomes `string`. */
function withoutClosers(value: string): string {
  const start = value[0] === "&" || value[0] === "*" ? 1 : 0;
  const end = runEnd(value, start, WORD | DOT);
  if (end === start || (start === 0 && end === value.length)) return value;
  const head = value.slice(start, end);
  if (end === value.length) return PLACEHOLDERS.has(head.toLowerCase()) ? head : value;
  const rest = value.slice(end);
  if (start === 0 && /^[)\]}][)\]}:.?!*]*$/.test(rest)) return head;
  const isType = PLACEHOLDERS.has(head.toLowerCase()) || PLACEHOLDERS.has(head.split(".").at(-1)?.toLowerCase() ?? "");
  return isType && /^(?:[)\]}?!*&:]+$|[)\]}]+:|\[\]|\?=|\?\))/.test(rest) ? head : value;
}

/** Returns whether the value of an environment variable is a secret: anything but a placeholder. */
function isAssigned(value: string, kind: SecretKind): boolean {
  if (isPlaceholder(value) || isProse(value)) return false;
  return kind === "password" ? !isPlainPath(value) : !isSmallNumber(value);
}

/** Returns whether the value mixes letters and digits as no word, name or version does. */
function isDistinctive(value: string): boolean {
  if (value.length < TOKEN_CHARS_MIN || value.includes(" ") || isPlaceholder(value) || isUrlOrPath(value)) return false;
  const seen = classesIn(value, 0, value.length);
  if ((seen & DIGIT) === 0 || (seen & LOWER) === 0 || VERSION.test(value) || isGroupedNumber(value)) return false;
  return !isResourceName(value) && !isNumberedType(value) && !isCode(value);
}

const VERSION = /^v\d/;
const RANDOM_CHARS_MIN = 32;

/** Returns whether an element of a list is a secret. Lists also contain names, so it needs more kinds of characters. */
function isListed(value: string): boolean {
  if (isGroupedNumber(value) || HOST_AND_PORT.test(value)) return false;
  return isDistinctive(value) ? kindsIn(value) > 2 : kindsIn(value) > 3 && value.length >= RANDOM_CHARS_MIN;
}

const HOST_AND_PORT = /^[a-z][a-z\d.-]*:\d{2,5}$/;

/** Counts the kinds of characters: lower case, upper case, digits, symbols. */
function kindsIn(value: string): number {
  const seen = classesIn(value, 0, value.length);
  const hasOperator = runEnd(value, 0, NAME | BLANK) < value.length;
  return [seen & LOWER, seen & UPPER, seen & DIGIT, Number(hasOperator)].filter((one) => one !== 0).length;
}

function isProse(value: string): boolean {
  return value.includes(" ") && value.split(" ").filter((word) => PROSE.has(word.toLowerCase())).length >= 2;
}

function isPassword(value: string, style: ValueStyle): boolean {
  if (value.length < PASSWORD_CHARS_MIN || isPlaceholder(value) || isPlainPath(value)) return false;
  if (value.includes(" ")) return !isProse(value) && !isPrompt(value) && !isLabel(value);
  if (style === "quoted")
    return (secretKind(value) === undefined || hasDigit(value)) && !isForeignWord(value) && !isLabel(value);
  if (isCode(value) || isForeignWord(value) || isConstant(value) || isNumberedType(value)) return false;
  if (value.length < BARE_DIGITS_MIN && isOnly(value, DIGIT)) return false;
  return style === "line" || !isOnlyLetters(value) ? !isPropertyPath(value) : false;
}

/** Longer phrases are sentences. UTF-16 units. */
export const PASSPHRASE_CHARS_MAX = 64;

/**
 * Returns whether the rest of a line is a password of several words: `Blue Fish 77!`. It has a lower-case letter, a digit and a
 * mark, as few sentences have, and no word begins with a lower-case letter.
 */
export function isPassphrase(value: string): boolean {
  if (value.length > PASSPHRASE_CHARS_MAX || isReference(value, "bare") || isTemplate(value)) return false;
  const parts = value.split(" ");
  if (parts.length < 2 || parts.some((word) => PROSE.has(word.toLowerCase()) || !PASSPHRASE_WORD.test(word)))
    return false;
  return hasDigit(value) && PASSPHRASE_MARK.test(value) && (classesIn(value, 0, value.length) & LOWER) !== 0;
}

const PASSPHRASE_WORD = /^[\p{Lu}\d!@#$%^&*+=~]/u;
const PASSPHRASE_MARK = /[!@#$%^&*+=~]/;

/** Scripts in which passwords are not typed. */
const IDEOGRAPHS = /[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0eff\u0590-\u06ff]/;

function isForeignWord(value: string): boolean {
  return IDEOGRAPHS.test(value) && (classesIn(value, 0, value.length) & ALPHANUMERIC) === 0;
}

const LETTERS = /^\p{L}+$/u;

function isOnlyLetters(value: string): boolean {
  return isOnly(value, LETTER) || LETTERS.test(value);
}

const NOT_TOKENS = [isColour, isResourcePath, isResourceName, isPropertyPath, isSmallNumber];

function isToken(value: string, style: ValueStyle): boolean {
  if (value.length < TOKEN_CHARS_MIN || value.includes(" ") || isPlaceholder(value) || isUrlOrPath(value)) return false;
  if (isUuid(value)) return true;
  if (NOT_TOKENS.some((is) => is(value))) return false;
  if (style !== "quoted" && (isCode(value) || isNumberedType(value))) return false;
  if (style === "loose" && isNumberedName(value)) return false;
  const seen = classesIn(value, 0, value.length);
  if ((seen & DIGIT) !== 0 && (seen & LETTER) !== 0) return true;
  if (isOnly(value, HEX) || (seen & EQUALS) !== 0) return value.length >= UNBROKEN_CHARS_MIN / 2;
  return isOnly(value, BASE64URL | BASE64) && value.length >= UNBROKEN_CHARS_MIN && !isIdentifier(value);
}

function isPlaceholder(value: string): boolean {
  const word = value.trimEnd().toLowerCase();
  if (PLACEHOLDERS.has(word) || (INSTRUCTION.test(value) && !hasDigit(value))) return true;
  const equals = value.indexOf("=");
  if (equals < 1 || equals !== runEnd(value, 0, NAME)) return false;
  const after = value.slice(equals + 1);
  if (ELLIPSIS.test(after)) return true;
  return after.length > 2 && (PLACEHOLDERS.has(after.toLowerCase()) || isReference(after, "quoted"));
}

const ELLIPSIS = /^(?:…|\.\.\.)$/;

/** Matches `your-api-key-here`, `REPLACE_ME`, `TOKEN_HERE`. */
const INSTRUCTION = /^(?:your|insert|enter|replace|example|sample|dummy|fake|placeholder)[-_ ]|[-_]here$/i;

/** Returns whether the value is the label of a field: `New password`, `Mot de passe`, `请输入密码`. */
function isLabel(value: string): boolean {
  if (hasDigit(value)) return false;
  const own = value.toLowerCase().split(WORD_ENDS);
  if (own.some((word) => LABEL_WORDS.has(word))) return true;
  if (IDEOGRAPHS.test(value) && SCRIPT_WORDS.some((word) => value.includes(word))) return true;
  return secretKind(value) === "password" || secretKind(value.replaceAll(" ", "")) === "password";
}

const SCRIPT_WORDS: readonly string[] = FOREIGN_ENDINGS.filter(isForeignWord);
const LABEL_WORDS: ReadonlySet<string> = new Set(FOREIGN_PASSWORDS);
const WORD_ENDS = /[ .,:;!?'-]/;

/** Returns whether the value is a prompt: `Password: `, `New password?`. */
function isPrompt(value: string): boolean {
  return ":?".includes(value.trimEnd().at(-1) ?? " ");
}

/** Words in place of a value in programs, schemas, forms and error messages. Lower case. */
export const PLACEHOLDERS = wordSet(
  "string number boolean bool str bytes any unknown object text varchar int integer null nil none undefined true false",
  "void empty never yes no on off optional required missing invalid incorrect wrong expired revoked unauthorized",
  "forbidden denied redacted masked hidden removed filtered omitted [redacted] changed reset rotated bearer basic digest",
  "negotiate token password secret key value set unset default process config self this await async new const let var",
  "return function import sha256 sha512 sha1 md5 hs256 rs256 es256 opaque kubernetes kubernetes.io file vault must is",
  "was not has cannot should the a an for to of in and or if oauth2 oauth argon2 argon2id base64 aes256 utf8 correct",
  "stored valid verified ok failed success accepted rejected enabled disabled example todo varchar2 nvarchar char json",
  "jsonb uuid uint32 uint64 int32 int64 float double datetime timestamp bytea blob sequence list option",
  "charsequence securestring secretstr strictstr base64string passwordstring input args params result plaintext payload",
  "username hash hashed salt body form request response type length prompt anonymous nullable readonly",
  "struct class case break continue switch else then fi do done end begin throw",
  "raise yield typeof instanceof sizeof keyof interface schema column encrypted encryption authentication",
  "may when there with without force change will can history added compat files fail failure",
  "prohibited options option flag flags argument arguments parameter parameters",
  "пароль パスワード 비밀번호 şifre lösenord passord wachtwoord senha hasło parola heslo jelszó salasana passwort kennwort",
  "erforderlich ungültig falsch leer pflichtfeld requis obligatoire invalide incorrect requerido requerida obligatorio",
  "obligatoria obrigatório obrigatória inválido inválida incorrecta incorreta richiesto richiesta obbligatorio obbligatoria",
  "errata vereist verplicht ongeldig onjuist wymagane nieprawidłowe gerekli zorunlu geçersiz yanlış обязательно неверный",
  "обязательное требуется неправильный неверно contraseña contrasena adgangskode lozinka parool vaaditaan krävs",
);

/** Tests of a value that rules use; `password/prose` assesses it as a password in prose. */
export type ValueTest = keyof typeof TESTS | `${SecretKind}/${ValueStyle}`;

const seenIn = (value: string): number => classesIn(value, 0, value.length);

const TESTS = {
  digit: hasDigit,
  letter: (value: string) => (seenIn(value) & LETTER) !== 0,
  upper: (value: string) => (seenIn(value) & UPPER) !== 0,
  lower: (value: string) => (seenIn(value) & LOWER) !== 0,
  mixed: isMixed,
  random: looksRandom,
  "random-or-uuid": (value: string) => looksRandom(value) || isUuid(value),
  "not-capitals": (value: string) => /[a-z\d=]/.test(value),
  argument: (value: string) => !/^[A-Z]+$/.test(value),
  "likely-argument": (value: string) => value.length >= TOKEN_CHARS_MIN && isMixed(value),
  "basic-credentials": isBasicCredentials,
  "account-in-base64": (value: string) => ACCOUNT.test(Buffer.from(value, "base64").toString("latin1")),
  community: (value: string) => !/^(?:public|private)$|^[<$%{]/.test(value),
  "seed-phrase": isSeedPhrase,
  assigned: isAssignedNumber,
  login: (value: string) => isLogin(value) && !isNumberedName(value) && isSecretValue(value, "password", "prose"),
  "certain-login": (value: string) => isLogin(value) && isSecretValue(value, "password", "line"),
} satisfies Readonly<Record<string, (value: string) => boolean>>;

export function passes(value: string, tests: ValueTest | readonly ValueTest[] = []): boolean {
  return (typeof tests === "string" ? [tests] : tests).every((test) => {
    if (Object.hasOwn(TESTS, test)) return TESTS[test as keyof typeof TESTS](value);
    const [kind, style] = test.split("/") as [SecretKind, ValueStyle];
    return isSecretValue(value.slice(0, ASSESSED_CHARS_MAX), kind, style);
  });
}

function isMixed(value: string): boolean {
  return (seenIn(value) & (DIGIT | UPPER)) !== 0;
}

/** Matches decoded credentials: `bob:secret`. */
const ACCOUNT = /^[\x21-\x7e]{1,64}:[\x20-\x7e]{3,256}$/;

/** Numbers of words in a wallet's seed phrase, which contains none of the words below. */
const PHRASE_WORDS: readonly number[] = [12, 15, 18, 21, 24];
const NO_PHRASE = /\b(?:the|and|for|with|are|not|from|your|our|has|was|which|its|these|were|been)\b/;

function isSeedPhrase(value: string): boolean {
  return PHRASE_WORDS.includes(value.split(" ").length) && !NO_PHRASE.test(value);
}

/** Returns whether the word after a login command can be a password: no path, no keyword, no file. */
function isLogin(word: string): boolean {
  return word.length >= PASSWORD_CHARS_MIN && !/\/|^[A-Z-]+$|^\*+$|\.[a-z]{2,4}$|pass$|^test/i.test(word);
}
