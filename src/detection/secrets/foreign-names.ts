import { wordSet, words } from "./words.ts";
/** What a password is called in other languages, in lower case. */
export const FOREIGN_PASSWORDS = words(
  "passwort kennwort motdepasse depasse palavrapasse contraseña contrasena contrasenya senha",
  "wachtwoord paswoord hasło haslo heslo şifre şi̇fre sifre lösenord losenord adgangskode kodeord",
  "passord salasana jelszó jelszo lozinka geslo parool slaptažodis parolă katasandi mậtkhẩu",
  "пароль парола лозинка κωδικόςπρόσβασης סיסמה סיסמא كلمةالمرور كلمةالسر पासवर्ड รหัสผ่าน",
  "密码 密碼 パスワード 비밀번호 패스워드",
);

/** Words that also mean something else, and words for tokens and keys. */
export const FOREIGN_TOKENS = words(
  "parola clave mdp токен トークン 토큰 令牌 密钥 密鑰 秘钥 секрет シークレット 口令 暗証番号 암호",
);

/** Of two words, of which the last announces nothing alone. */
export const SECOND_WORDS: readonly string[] = ["passe", "sandi"];

const ASCII_ONLY = /^[ -~]+$/;

function isForeignScript(word: string): boolean {
  return !ASCII_ONLY.test(word);
}

/** Words that are found at the end of longer ones: compounds, and scripts that write no blanks between words. */
export const FOREIGN_ENDINGS: readonly string[] = ["passwort", "kennwort", "wachtwoord"].concat(
  FOREIGN_PASSWORDS.filter(isForeignScript),
);

/** As they are read, without the blank: nowhere in a text. */
const JOINED = wordSet(
  "motdepasse depasse palavrapasse katasandi mậtkhẩu κωδικόςπρόσβασης كلمةالمرور كلمةالسر şi̇fre kennwort",
);

/** Where to look for one: the words themselves, those of two words as they are written. */
export const FOREIGN_ANCHORS: readonly string[] = [
  ...FOREIGN_PASSWORDS.concat(FOREIGN_TOKENS).filter((word) => !word.startsWith("pass") && !JOINED.has(word)),
  ...["şİfre", "mật khẩu", "κωδικός πρόσβασης", "كلمة المرور", "كلمة السر", "sandi"],
];
