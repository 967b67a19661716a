/** Subtracts from a count. A count of 0 has no entry. */
export function decrease(counts: Map<string, number>, key: string, amount = 1): void {
  const left = (counts.get(key) ?? amount) - amount;
  if (left === 0) counts.delete(key);
  else counts.set(key, left);
}
