import { Refusal } from "../../core/errors.ts";
import { ARGUMENT_BYTES_MAX } from "../../core/schema/bounds.ts";

/** Maximum tokens in one argv. */
const ARGV_TOKENS_MAX = 256;
/** Maximum bytes of argv and environment together, well below the kernel's limit for both. */
const ARGV_BYTES_MAX = 1_048_576;

/**
 * Refuses a call whose arguments the manifest allows one by one, but which are too long for the kernel together.
 *
 * @throws {Refusal} TARGET_REFUSED with status OUT_OF_RANGE
 */
export function refuseTooLong(argv: readonly unknown[], environment: Readonly<Record<string, string>>): void {
  const texts = [...argv, ...Object.entries(environment).map(([name, value]) => `${name}=${value}`)];
  const sizes = texts.map((text) => (typeof text === "string" ? Buffer.byteLength(text) : 0));
  const bytes = sizes.reduce((sum, size) => sum + size + 1, 0);
  const isSound = sizes.every((size) => size <= ARGUMENT_BYTES_MAX) && bytes <= ARGV_BYTES_MAX;
  if (isSound && argv.length <= ARGV_TOKENS_MAX) return;
  const message = `The arguments are too long for a command, which takes ${ARGV_TOKENS_MAX} of them, ${ARGUMENT_BYTES_MAX} bytes in one and ${ARGV_BYTES_MAX} in all. Send less.`;
  throw new Refusal("TARGET_REFUSED", message, { details: { status: "OUT_OF_RANGE" } });
}

/**
 * Makes the last check before a command runs: returns what is wrong with this argv, or `undefined`. A token that starts with `-`
 * must be declared in `options` (exactly, or as `--name=` for `--name=value`) unless it comes after the first `--`. The result is
 * for the operator and contains no token.
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
 * Returns the tokens that a program may take for an option: those before the first `--` that are not the value of a declared
 * `--name=`.
 */
export function exposedTokens(argv: readonly string[], options: readonly string[]): readonly string[] {
  const end = argv.indexOf("--");
  const exposed = end === -1 ? argv : argv.slice(0, end);
  return exposed.filter((token) => !options.some((option) => takesValue(option) && token.startsWith(option)));
}

/** Returns why a text cannot be passed to a program, or `undefined`. */
export function tokenFault(token: unknown): string | undefined {
  if (typeof token !== "string") return "is not a string";
  if (token.includes("\0")) return "contains NUL";
  if (!token.isWellFormed()) return "contains a lone surrogate";
  if (Buffer.byteLength(token) > ARGUMENT_BYTES_MAX) return `has more than ${ARGUMENT_BYTES_MAX} bytes`;
  return undefined;
}

function isDeclaredOption(token: string, options: readonly string[]): boolean {
  return options.some((option) => token === option || (takesValue(option) && token.startsWith(option)));
}

function takesValue(option: string): boolean {
  return option.startsWith("--") && option.length > 3 && option.endsWith("=");
}
