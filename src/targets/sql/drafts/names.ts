/** SQLite gives a column `true` of a query within another one a name of its own. */
const PLAIN_NAME = /^(?!(?:true|false)$)[A-Za-z][A-Za-z0-9_]{0,62}$/i;
const WORDS_CHARACTERS_MAX = 40;

/** Returns whether policies and arguments can have the name. */
export function isPlainName(name: string): boolean {
  return PLAIN_NAME.test(name) && !(name in Object.prototype);
}

/** Returns an unused plain name with the letters and digits of `name`. Without any, the result is `otherwise` with a number. */
export function plainName(name: string, taken: ReadonlySet<string>, otherwise: string): string {
  const words = name.normalize("NFKD").replace(/[^A-Za-z0-9]+/g, "_");
  const trimmed = words
    .replace(/^[_0-9]+/, "")
    .slice(0, WORDS_CHARACTERS_MAX)
    .replace(/_+$/, "");
  for (const wanted of [name, trimmed]) if (isPlainName(wanted) && !taken.has(wanted)) return wanted;
  for (let number = taken.size + 1; ; number += 1) {
    const numbered = `${otherwise}_${number}`;
    if (!taken.has(numbered)) return numbered;
  }
}
