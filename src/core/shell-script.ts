/**
 * Arguments before every script: no start-up files, and no further options. A plan of any kind starts a shell in this form only;
 * the risk rules for shells judge such a plan, and the script is shown whole.
 */
export const SHELL_ARGV: readonly string[] = ["--noprofile", "--norc", "-c", "--"];

/** Returns the script that a plan with these arguments runs; undefined when it runs none. */
export function shellScriptOf(argv: unknown): string | undefined {
  if (!Array.isArray(argv) || argv.length !== SHELL_ARGV.length + 1) return undefined;
  const script: unknown = argv.at(-1);
  return SHELL_ARGV.every((token, at) => argv[at] === token) && typeof script === "string" ? script : undefined;
}
