/**
 * Returns a value that is never absent here.
 *
 * @throws {Error} naming what is absent: a fault in this program, not in what somebody sent
 */
export function present<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new Error(`${what} is missing`);
  return value;
}
