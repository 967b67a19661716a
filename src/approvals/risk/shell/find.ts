/** A call of `find`: where it begins to look. */
export function findStarts(args: readonly string[]): readonly string[] {
  const from = args.findIndex((arg) => /^[-!(]/.test(arg) && !FOLLOWS.test(arg));
  const starts = (from === -1 ? args : args.slice(0, from)).filter((arg) => !arg.startsWith("-"));
  return starts.length === 0 ? ["."] : starts;
}

/** Options before the places: how links are followed, and how it works. */
const FOLLOWS = /^-(?:[HLP]|D|O.*)$/;

/** Whether something starts a program for what it meets. */
export function isAction(arg: string): boolean {
  return /^-(?:exec|execdir|ok|okdir)$/.test(arg);
}

const REMOVER = /(?:^|\/)(?:rm|unlink|shred|srm|wipe)$/;

/** Whether it removes what it meets, as these two words say. */
export function removesMet(arg: string, next: string): boolean {
  return arg === "-delete" || (isAction(arg) && REMOVER.test(next));
}
