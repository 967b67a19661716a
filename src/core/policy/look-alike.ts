/** Controls, formats, lone surrogates, and what else shows nothing: all that is taken out of the keys that an agent reads. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}]/gu;

/** Where a terminal's sequence may begin, whose letters go with it. */
const MARK = /[\x1b\x9b]/;

/** Names that are tried for a key with a terminal's sequence; where there are more, it may be any of them. */
const NAMES_TRIED_MAX = 64;

/** Whether a key would be read as one of the names, once the characters that nobody sees are gone. */
export function posesAs(key: string, reserved: string, names: ReadonlyMap<string, unknown>): boolean {
  if (isPlain(key)) return false;
  if (MARK.test(key))
    return names.size > NAMES_TRIED_MAX || [reserved, ...names.keys()].some((name) => isLeftOf(key, name));
  const seen = key.replace(UNSEEN, "");
  return seen !== key && (seen === reserved || names.has(seen));
}

/** Whether all of it is ASCII that can be seen, as in most keys. */
function isPlain(key: string): boolean {
  for (let at = 0; at < key.length; at += 1) {
    const code = key.charCodeAt(at);
    if (code < 0x20 || code > 0x7e) return false;
  }
  return true;
}

/** Whether a name may be what is left of a key when some of its characters go. */
function isLeftOf(key: string, name: string): boolean {
  let from = 0;
  for (let at = 0; at < name.length; at += 1) {
    from = key.indexOf(name.charAt(at), from) + 1;
    if (from === 0) return false;
  }
  return true;
}
