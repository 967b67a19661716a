/** Times that a text is decoded. Servers behind each other decode it again; text that is encoded more often is refused. */
const DECODINGS_MAX = 8;

const ESCAPES = /%u[0-9a-f]{4}|(?:%[0-9a-f]{2})+/gi;
/** One byte or more too many for an ASCII character, which lenient decoders accept: `C0 AE` is a dot, for some `C0 2E` too. */
const OVERLONG =
  /(?:[\xc0\xc1]|\xe0[\x80\x81]|\xf0\x80[\x80\x81]|\xf8\x80\x80[\x80\x81]|\xfc\x80\x80\x80[\x80\x81])[\x00-\xbf]/g;

/** Characters that some servers turn into `/` or `\`. Prose has them, too: a segment between them may be empty. */
const ALIKE = /[\u2044\u2215\u29f8\uff0f\uff3c]/;

/**
 * Returns whether a text in a path leads nowhere else, however a server reads it: decoded once or several times, with `\` as
 * `/`, with or without what follows `;`, `?` or `#`.
 */
export function staysInPlace(text: string): boolean {
  let read = text;
  for (let decodings = 0; decodings <= DECODINGS_MAX; decodings += 1) {
    if (/\p{Cc}/u.test(read) || !read.split(/[/\\]/).every(isOrdinary)) return false;
    const next = decoded(read);
    if (next === read) return true;
    read = next;
  }
  return false;
}

/** `#general` and `?` alone are names; `;x` is an empty segment with a parameter. */
function isOrdinary(segment: string): boolean {
  const [name = ""] = segment.split(/[;?#]/, 1);
  return !name.split(ALIKE).some(isDots) && !/^(?:;|$)/.test(segment);
}

/** Some servers drop spaces around a segment, or turn wide dots into ordinary ones. */
function isDots(name: string): boolean {
  return /^\.\.?$/.test(name.normalize("NFKC").trim());
}

function decoded(text: string): string {
  return text.replace(ESCAPES, (escapes) => {
    if (/^%u/i.test(escapes)) return String.fromCharCode(Number.parseInt(escapes.slice(2), 16));
    const bytes = Buffer.from(escapes.replaceAll("%", ""), "hex");
    return Buffer.from(bytes.toString("latin1").replace(OVERLONG, asciiOf), "latin1").toString();
  });
}

/** Returns the character whose highest bit is in the byte before the last, and whose other bits are in the last. */
function asciiOf(overlong: string): string {
  const high = overlong.charCodeAt(overlong.length - 2) & 1;
  return String.fromCharCode((high << 6) | (overlong.charCodeAt(overlong.length - 1) & 0x3f));
}
