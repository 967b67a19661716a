import { type Fault, Refusal } from "../../core/errors.ts";
import { ARGUMENT_BYTES_MAX, freeTextFields } from "../../core/schema/bounds.ts";
import type { CliTarget, Tool } from "../../core/types.ts";

const ARGV_TOKENS_MAX = 256;
/** Maximum bytes of argv and environment together, well below the kernel's limit for both. */
const ARGV_BYTES_MAX = 1_048_576;

/**
 * Refuses a call whose arguments are valid one by one, but too long for the kernel together.
 *
 * @throws {Refusal} TARGET_REFUSED with status OUT_OF_RANGE
 */
export function refuseTooLong(argv: readonly unknown[], environment: Readonly<Record<string, string>>): void {
  const texts = [...argv, ...Object.entries(environment).map(([name, value]) => `${name}=${value}`)];
  const sizes = texts.map((text) => (typeof text === "string" ? Buffer.byteLength(text) : 0));
  const bytes = sizes.reduce((sum, size) => sum + size + 1, 0);
  const areSizesValid = sizes.every((size) => size <= ARGUMENT_BYTES_MAX) && bytes <= ARGV_BYTES_MAX;
  if (areSizesValid && argv.length <= ARGV_TOKENS_MAX) return;
  const message = `The arguments are too long for a command: at most ${ARGV_TOKENS_MAX}, of ${ARGUMENT_BYTES_MAX} bytes each and ${ARGV_BYTES_MAX} in all. Send less.`;
  throw new Refusal("TARGET_REFUSED", message, { details: { status: "OUT_OF_RANGE" } });
}

/**
 * Makes the last check before a command runs and returns the problem, or `undefined`. A token that starts with `-` must
 * be declared in `options` (exactly, or as `--name=` for `--name=value`) unless it comes after the first `--`. The values
 * after `--name <value>` must be there and must not begin with `-`: some programs would take them for options. The text is
 * for the operator and contains no token.
 */
export function argvFault(argv: readonly string[], options: readonly string[]): string | undefined {
  if (argv.length > ARGV_TOKENS_MAX) return `the argv has more than ${ARGV_TOKENS_MAX} tokens`;
  let bytes = 0;
  const roles = rolesOf(argv, options);
  for (const [index, token] of argv.entries()) {
    const fault = tokenFault(token);
    if (fault !== undefined) return `token ${index} of the argv ${fault}`;
    bytes += Buffer.byteLength(token) + 1;
    if (bytes > ARGV_BYTES_MAX) return `the argv has more than ${ARGV_BYTES_MAX} bytes`;
    if (roles[index] === "value" && token.startsWith("-")) {
      return `token ${index} of the argv is the value of an option and begins with "-"`;
    }
    if (roles[index] === "exposed" && token.startsWith("-") && !isDeclaredOption(token, options)) {
      return `token ${index} of the argv begins with "-" and is not named in target.cli.options`;
    }
  }
  return roles.length > argv.length ? "the last option of the argv has too few values" : undefined;
}

/**
 * Refuses a call that puts a text with `-` at its beginning where a program expects the value of an option.
 *
 * @throws {Refusal} TARGET_REFUSED with status INVALID_ARGUMENT
 */
export function refuseDashedValues(argv: readonly string[], options: readonly string[]): void {
  const roles = rolesOf(argv, options);
  if (!argv.some((token, index) => roles[index] === "value" && String(token).startsWith("-"))) return;
  const message = 'This command takes no value that begins with "-". Send a text that begins with another character.';
  throw new Refusal("TARGET_REFUSED", message, { details: { status: "INVALID_ARGUMENT" } });
}

/** `exposed`: a program may take the token for an option. `value`: belongs to the `--name <value>` before it. */
type Role = "exposed" | "value" | "free";

/** Returns the role of each token; more roles than tokens when the last option lacks values. */
function rolesOf(argv: readonly string[], options: readonly string[]): readonly Role[] {
  const counts = new Map(options.map((option) => [nameOf(option), valueCount(option)]));
  const roles: Role[] = [];
  let end = argv.length;
  while (roles.length < end) {
    const token = argv[roles.length] ?? "";
    if (token === "--") end = roles.length;
    else {
      roles.push("exposed");
      for (let left = counts.get(token) ?? 0; left > 0; left -= 1) roles.push("value");
    }
  }
  while (roles.length < argv.length) roles.push("free");
  return roles;
}

/** Returns the tokens that a program may take for options: those before `--`, except values of declared options. */
export function exposedTokens(argv: readonly string[], options: readonly string[]): readonly string[] {
  const roles = rolesOf(argv, options);
  const exposed = argv.filter((_, index) => roles[index] === "exposed");
  return exposed.filter((token) => !options.some((option) => takesValue(option) && token.startsWith(option)));
}

export function tokenFault(token: unknown): string | undefined {
  if (typeof token !== "string") return "is not a string";
  if (token.includes("\0")) return "contains NUL";
  if (!token.isWellFormed()) return "contains a lone surrogate";
  if (Buffer.byteLength(token) > ARGUMENT_BYTES_MAX) return `has more than ${ARGUMENT_BYTES_MAX} bytes`;
  return undefined;
}

function isDeclaredOption(token: string, options: readonly string[]): boolean {
  return options.some((option) => token === nameOf(option) || (takesValue(option) && token.startsWith(option)));
}

/** `--name <value>`, with a `<…>` for each value. Any other option with a space is one token: `--format=%H %s`. */
const TAKES_NEXT = /^(-[^\s=]+)((?: <[^<>\s]+>)+)$/;

/** Returns how many of the next tokens are values of the option. */
function valueCount(option: string): number {
  const [, , values = ""] = TAKES_NEXT.exec(option) ?? [];
  return values.split(" ").length - 1;
}

/** Returns the token that begins with `-`, without the values that follow it. */
export function nameOf(option: string): string {
  return TAKES_NEXT.exec(option)?.[1] ?? option;
}

function takesValue(option: string): boolean {
  return option.startsWith("--") && option.length > 3 && option.endsWith("=");
}

type Probes = readonly [string, string];

/** Two texts that differ at every position, even when they are cut off or their case is changed. */
const WORDS: Probes = ["stcfreetextprobekqmzx", "gnwuhobdybgdivzlwchfj"];
/** Two such texts with words, lines, digits and separators, for builders that split a text or skip its start. */
const PHRASES: Probes = [
  "Kq 71=wj,hd\nXb:mz/Ru 90-cf;Vt@pn.Lg 35+ys|Ae ".repeat(12),
  "Tz 28=ca,vo\nJw:ke/Mh 64-xq;Dr@by.Wf 17+ni|Us ".repeat(12),
];
/** Two such texts of digits. */
const NUMBERS: Probes = ["1735902468135790246", "8264175913802417953"];

/** The free text of a tool, and the builder that puts it into the argv. */
export interface FreeText {
  /** Paths of the input's free-text fields: `query`, `list[].note`, `map.*`. */
  readonly fields: readonly string[];
  readonly cli: CliTarget["cli"];
  readonly options: readonly string[];
}

export function freeTextOf(tool: Tool, cli: CliTarget["cli"], options: readonly string[]): FreeText {
  return { fields: freeTextFields(tool.input), cli, options };
}

/**
 * Returns whether this call's free text appears only where no program takes it for an option. Builds the argv with
 * pairs of other texts: the tokens that may be options must be the same for both. The free text itself is not used,
 * because it might equal a harmless token by chance.
 */
export function isFreeTextSafe({ fields, options }: FreeText, input: unknown, build: Build): boolean {
  if (fields.length === 0) return true;
  // The tokens that a program may take for options must be the same for both texts.
  const isUnaffected = (probes: Probes): boolean => {
    const [one, other] = probes.map((probe) => {
      const probed = fields.reduce((probing, field) => replaceAt(probing, stepsOf(field), probe), input);
      return build(probed as never).map((argv) => exposedTokens(argv, options));
    });
    return Bun.deepEquals(one, other);
  };
  // A builder may reject such texts, which does not matter.
  const isUnaffectedOrRejected = (probes: Probes): boolean => {
    try {
      return isUnaffected(probes);
    } catch {
      return true;
    }
  };
  return isUnaffected(WORDS) && isUnaffectedOrRejected(PHRASES) && isUnaffectedOrRejected(NUMBERS);
}

/** Builds the argv for an input, or the argvs of a lookup's attempts. */
export type Build = (input: never) => readonly (readonly string[])[];

/** Builds the argv of every accepted example, so that mistakes in the manifest are found when it loads. */
export function exampleFaults(tool: Tool, text: FreeText): readonly Fault[] {
  // The results of lookups are not known here; their argv is checked when a call is planned.
  if (text.cli.lookups !== undefined) return [];
  return tool.examples.accepts.flatMap((example, index) => {
    const parsed = tool.input.safeParse(example);
    const message = parsed.success ? exampleProblem(text, parsed.data) : undefined;
    return message === undefined ? [] : [{ field: `examples.accepts[${index}]`, message }];
  });
}

function exampleProblem(text: FreeText, input: unknown): string | undefined {
  try {
    const fault = argvFault([...text.cli.argsBuilder(input as never, {})], text.options);
    if (fault !== undefined) return `target.cli.argsBuilder: ${fault}`;
    if (isFreeTextSafe(text, input, (probed) => [text.cli.argsBuilder(probed, {})])) return undefined;
    return 'target.cli.argsBuilder: free text may only appear after "--" or as the value of a declared "--name=" or "--name <value>"';
  } catch {
    return "target.cli.argsBuilder: throws on this example";
  }
}

type Step = "[]" | "*" | string;

function stepsOf(field: string): readonly Step[] {
  return field
    .split(".")
    .flatMap((part) => part.replaceAll("[]", "\0[]").split("\0"))
    .filter((part) => part !== "");
}

/** Returns a copy of the value in which the probe replaces every string at the end of the steps. */
function replaceAt(value: unknown, steps: readonly Step[], probe: string): unknown {
  const [step, ...rest] = steps;
  if (step === undefined) return typeof value === "string" ? probe : value;
  if (step === "[]") return Array.isArray(value) ? value.map((item) => replaceAt(item, rest, probe)) : value;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      step === "*" || step === key ? replaceAt(inner, rest, probe) : inner,
    ]),
  );
}
