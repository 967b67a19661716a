import type { Finding } from "../../finding.ts";
import { lineEnd } from "../stretches.ts";
import { isSecretValue } from "../values.ts";
import type { SecretShape } from "./shape.ts";

/** Of what stands behind an option. UTF-16 units. */
const LINE_CHARS_MAX = 256;

/** `ann -p password`, with another option between them. */
const PASSWORD_OPTION =
  /^["']?[^\s"'-][^\s"']{0,63}["']? (?:-[a-zA-Z] [^\s-]\S{0,63} )?-p ?["']?([^\s"']{3,128})["']?(?:\s|$)/d;
/** `ann,password`. */
const LISTED_ACCOUNT = /^["']?[^\s"',:-][^\s"',:]{0,63},([^\s"',]{3,128})["']?(?:\s|$)/d;
/** `ann:password`, `"ann:password"`. */
const ACCOUNT = /^["']?[^\s"':/=,-][^\s"':/=,]{0,63}:([^\s"',;]{3,128})["']?(?:[\s,;)]|$)/d;
/** `corp/ann:password@host`. */
const DOMAIN_ACCOUNT = /^[\w.-]{1,64}\/[\w.$-]{1,64}:([^\s"'@]{3,128})@[\w.-]{1,64}(?:\s|$)/d;

/** Such options also name users, ports and files: only its look tells a password, and behind `-p` only a good one. */
function isLikely(value: string, shape: RegExp): boolean {
  return !value.includes("/") && isSecretValue(value, "password", shape === PASSWORD_OPTION ? "listed" : "told");
}

const OPTIONS: readonly (readonly [words: readonly string[], shapes: readonly RegExp[]])[] = [
  [[" -u "], [PASSWORD_OPTION, LISTED_ACCOUNT, ACCOUNT]],
  [[" --creds ", " --creds=", "-creds ", " --auth ", " --auth=", " --user ", " -a ", "stats auth "], [ACCOUNT]],
  [[" login=", 'user = "', "]:587 ", "]:465 ", "]:25 "], [ACCOUNT]],
  [[".py "], [DOMAIN_ACCOUNT]],
];

/** A user's name and the password behind it, whatever the program. */
export const ACCOUNT_OPTIONS: readonly SecretShape[] = OPTIONS.map(([words, shapes]) => ({
  words,
  steps: 1_200,
  match: (text, _start, end): Finding | undefined => {
    const rest = text.slice(end, lineEnd(text, end, end + LINE_CHARS_MAX));
    for (const shape of shapes) {
      const [from, to] = shape.exec(rest)?.indices?.[1] ?? [];
      if (from === undefined || to === undefined) continue;
      const isPassword = isLikely(rest.slice(from, to), shape);
      return isPassword ? { rule: "login-password", start: end + from, end: end + to } : undefined;
    }
    return undefined;
  },
}));
