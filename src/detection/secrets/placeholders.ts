import { wordSet } from "./words.ts";
/** What stands where a value would, in programs, schemas, forms and error messages. Lower case. */
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
