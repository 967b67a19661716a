/** Tokens in one argv. */
const ARGV_TOKENS_MAX = 256;
/** Bytes of one token: the kernel takes 131,072 with the closing NUL. */
const TOKEN_BYTES_MAX = 131_071;
/** Bytes of the whole argv, well below what the kernel shares between argv and environment. */
const ARGV_BYTES_MAX = 1_048_576;

/**
 * The last check before a command runs: what is wrong with this argv, or `undefined`. A token that begins with `-` must be
 * declared in `options` (exactly, or as `--name=` for `--name=value`) unless it stands after the first `--`.
 * The answer is for the operator; it holds no token.
 */
export function argvFault(argv: readonly string[], options: readonly string[]): string | undefined {
  if (argv.length > ARGV_TOKENS_MAX) return `the argv has more than ${ARGV_TOKENS_MAX} tokens`;
  let bytes = 0;
  let optionsMayFollow = true;
  for (const [index, token] of argv.entries()) {
    const fault = tokenFault(token);
    if (fault !== undefined) return `token ${index} of the argv ${fault}`;
    bytes += Buffer.byteLength(token) + 1;
    if (bytes > ARGV_BYTES_MAX) return `the argv has more than ${ARGV_BYTES_MAX} bytes`;
    if (token === "--") optionsMayFollow = false;
    if (optionsMayFollow && token.startsWith("-") && !isDeclaredOption(token, options)) {
      return `token ${index} of the argv begins with "-" and is not named in target.cli.options`;
    }
  }
  return undefined;
}

/**
 * Whether every free text stands only where no program takes it for an option: after the first `--`, or as the value of a
 * declared `--name=`. A token counts as holding a free text when it contains it, so call this with texts that nothing else
 * contains (a probe), or equal ones are found by chance.
 */
export function placesFreeTextSafely(
  argv: readonly string[],
  options: readonly string[],
  freeTexts: readonly string[],
): boolean {
  const end = argv.indexOf("--");
  const exposed = end === -1 ? argv : argv.slice(0, end);
  return exposed.every((token) => !holdsAny(token, freeTexts) || isDeclaredValue(token, options, freeTexts));
}

/** What keeps a text from being handed to a program, or `undefined`. */
export function tokenFault(token: unknown): string | undefined {
  if (typeof token !== "string") return "is not a string";
  if (token.includes("\0")) return "contains NUL";
  if (!token.isWellFormed()) return "contains a lone surrogate";
  if (Buffer.byteLength(token) > TOKEN_BYTES_MAX) return `has more than ${TOKEN_BYTES_MAX} bytes`;
  return undefined;
}

function isDeclaredOption(token: string, options: readonly string[]): boolean {
  return options.some((option) => token === option || (takesValue(option) && token.startsWith(option)));
}

function isDeclaredValue(token: string, options: readonly string[], freeTexts: readonly string[]): boolean {
  return options.some((option) => takesValue(option) && token.startsWith(option) && !holdsAny(option, freeTexts));
}

function takesValue(option: string): boolean {
  return option.startsWith("--") && option.length > 3 && option.endsWith("=");
}

function holdsAny(token: string, freeTexts: readonly string[]): boolean {
  return freeTexts.some((text) => (text === "" ? token === "" : token.includes(text)));
}
