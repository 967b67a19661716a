/** Cache entries of a code point: unknown, nothing visible, or several characters. */
const UNKNOWN = 0;
const NOTHING = 1;
const SEVERAL = 2;

const BMP_POINTS = 0x10000;

/** Cache by code point of the basic plane, filled on demand; entries never change. */
const PLAIN = new Uint16Array(BMP_POINTS);

const INVISIBLE = /^[\p{Cf}\p{Cc}\p{Default_Ignorable_Code_Point}]$/u;
const DIGIT = /^\p{Nd}$/u;
const BLANK = /^\p{Zs}$/u;

/**
 * Returns the plain form of a UTF-16 unit when it is one unit; 0 when it is empty; -1 when it is longer or the unit is a
 * surrogate.
 */
export function plainUnit(code: number): number {
  const known = PLAIN[code] ?? UNKNOWN;
  if (known > SEVERAL) return known;
  if (known === UNKNOWN && (code < 0xd800 || code > 0xdfff)) {
    PLAIN[code] = entryOf(compute(code));
    return plainUnit(code);
  }
  return known === NOTHING ? 0 : -1;
}

/** Cache of plain forms, filled on demand; entries never change. */
const ASTRAL = new Map<number, string>();
const ASTRAL_MAX = 8_192;

/** Cache for code points beyond the basic plane: 0 unknown, 1 the plain form is the character itself, 2 it differs. */
const STAYS = new Uint8Array(0x110000 - BMP_POINTS);

/** Returns whether a character beyond the basic plane is its own plain form. */
export function isPlain(point: number): boolean {
  const at = point - BMP_POINTS;
  if (STAYS[at] === 0) STAYS[at] = compute(point) === String.fromCodePoint(point) ? 1 : 2;
  return STAYS[at] === 1;
}

/**
 * Returns a character as a reader sees it: its compatibility form (NFKC), an ASCII digit for a digit of another script, a plain
 * space for any space, and the empty string for an invisible character.
 */
export function plainForm(point: number): string {
  const known = ASTRAL.get(point);
  if (known !== undefined) return known;
  const form = compute(point);
  if (ASTRAL.size < ASTRAL_MAX) ASTRAL.set(point, form);
  return form;
}

function entryOf(form: string): number {
  if (form.length === 0) return NOTHING;
  return form.length === 1 ? form.charCodeAt(0) : SEVERAL;
}

function compute(point: number): string {
  if (point >= 0xd800 && point <= 0xdfff) return "\ufffd";
  const character = String.fromCodePoint(point);
  if (INVISIBLE.test(character)) return "";
  if (BLANK.test(character)) return " ";
  if (point === 0x2028 || point === 0x2029 || point === 0x85) return "\n";
  if (DIGIT.test(character)) return digitOf(point);
  if (DASHES.has(point)) return "-";
  return character.normalize("NFKC");
}

const DASHES: ReadonlySet<number> = new Set([
  0x2010, 0x2011, 0x2012, 0x2013, 0x2014, 0x2015, 0x2212, 0xfe58, 0xfe63, 0xff0d, 0x2043,
]);

/** Returns the ASCII digit. The digits of a script are in groups of ten, so the value is the number of digits before this one. */
function digitOf(point: number): string {
  const compatible = String.fromCodePoint(point).normalize("NFKC");
  if (compatible >= "0" && compatible <= "9") return compatible;
  let before = 0;
  while (DIGIT.test(String.fromCodePoint(point - before - 1))) before += 1;
  return String(before % 10);
}
