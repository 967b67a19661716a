const HIGH_BITS = 0x80808080;
const LOW_BITS = 0x7f7f7f7f;
/** Added to a byte below 128: the high bit says that it is at least "A", or above "Z". */
const FROM_A = 0x3f3f3f3f;
const ABOVE_Z = 0x25252525;
/** From the high bit to the one that tells small letters from capital ones. */
const TO_CASE_BIT = 2;
const WORD_BYTES = 4;

/** Filled anew by each call: it is good until the next one. */
let words = new Int32Array(0);

/** The bytes with ASCII letters in lower case, four at a time. The answer shares its memory with that of the next call. */
export function foldBytes(bytes: Buffer): Buffer {
  const length = Math.ceil(bytes.length / WORD_BYTES);
  if (words.length < length) words = new Int32Array(length);
  const folded = Buffer.from(words.buffer, 0, bytes.length);
  bytes.copy(folded);
  foldWords(words, length);
  return folded;
}

function foldWords(all: Int32Array, length: number): void {
  for (let at = 0; at < length; at += 1) {
    const word = all[at] ?? 0;
    const low = word & LOW_BITS;
    const isCapital = (low + FROM_A) & ~(low + ABOVE_Z) & ~word & HIGH_BITS;
    all[at] = word | (isCapital >>> TO_CASE_BIT);
  }
}
