/** Maximum length of a secret in a file (UTF-16 units). */
export const SECRET_CHARACTERS_MAX = 16_384;

/** Reads one line, `user:password`. @throws {Error} that does not quote it */
export function readUserAndPassword(text: Buffer): { readonly username: string; readonly password: string } {
  const pair = text.toString("utf8").replace(/\r?\n$/, "");
  const isSound = /^[^:\p{Cc}]+:\P{Cc}+$/u.test(pair) && pair.length <= SECRET_CHARACTERS_MAX;
  if (!isSound) throw new Error("must hold one line, user:password");
  const colon = pair.indexOf(":");
  return { username: pair.slice(0, colon), password: pair.slice(colon + 1) };
}
