/** Waits until `work` has ended, well or badly, but no longer than this; whether it has. */
export async function endedWithin(work: Promise<unknown>, timeoutMs: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), timeoutMs);
  const ended = (): void => resolve(true);
  work.then(ended, ended);
  const hasEnded = await promise;
  clearTimeout(timer);
  return hasEnded;
}

/** What `work` gives; when that takes longer than this, `tooLate` is thrown in its place, and it goes on unheard. */
export async function givenWithin<T>(work: Promise<T>, timeoutMs: number, tooLate: () => Error): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(tooLate()), timeoutMs);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}
