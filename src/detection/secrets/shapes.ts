import { matchJwk } from "./jwk.ts";
import { matchPuttyKey } from "./private-key.ts";
import { ACCOUNT_OPTIONS } from "./shapes/account-options.ts";
import { BEARER_TOKENS } from "./shapes/bearer-tokens.ts";
import { COMMAND_PASSWORDS } from "./shapes/command-passwords.ts";
import { COOKIE_RECORDS } from "./shapes/cookie-records.ts";
import { CREDENTIAL_FILES } from "./shapes/credential-files.ts";
import { CURL_OPTIONS } from "./shapes/curl.ts";
import { DECLARED_SECRETS } from "./shapes/declared-secrets.ts";
import { DEVICE_SETTINGS } from "./shapes/device-settings.ts";
import { LOGIN_CALLS } from "./shapes/login-calls.ts";
import { LOGIN_COMMANDS } from "./shapes/login-commands.ts";
import type { SecretShape } from "./shapes/shape.ts";
import { SPARE_CODES } from "./shapes/spare-codes.ts";
import { URL_PARAMETERS } from "./shapes/url-parameters.ts";
import { matchUrlPassword } from "./shapes/url-password.ts";
import { VENDOR_KEYS } from "./shapes/vendor-keys.ts";

/** Credentials of several parts, by the words that stand in them. */
export const SECRET_SHAPES: readonly SecretShape[] = [
  { words: ["private-lines:"], steps: 100, match: matchPuttyKey },
  ...BEARER_TOKENS,
  { words: ["://"], steps: 200, match: matchUrlPassword },
  ...VENDOR_KEYS,
  ...CURL_OPTIONS,
  ...COMMAND_PASSWORDS,
  ...ACCOUNT_OPTIONS,
  ...LOGIN_COMMANDS,
  ...LOGIN_CALLS,
  ...CREDENTIAL_FILES,
  ...DECLARED_SECRETS,
  ...URL_PARAMETERS,
  ...COOKIE_RECORDS,
  ...SPARE_CODES,
  ...DEVICE_SETTINGS,
  { words: ['"kty"', "'kty'"], steps: 9_000, match: matchJwk },
];
