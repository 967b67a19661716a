/** Waits until `work` settles, but at most `timeoutMs`; returns whether it settled. */
export async function endedWithin(work: Promise<unknown>, timeoutMs: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), timeoutMs);
  const ended = (): void => resolve(true);
  work.then(ended, ended);
  const hasEnded = await promise;
  clearTimeout(timer);
  return hasEnded;
}

/** Returns the result of `work`. After `timeoutMs`, throws the error from `tooLate` and ignores the result. */
export function resultWithin<T>(work: Promise<T>, timeoutMs: number, tooLate: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(tooLate()), timeoutMs);
    const end = (): void => clearTimeout(timer);
    work.then(
      (result) => {
        end();
        resolve(result);
      },
      (error: unknown) => {
        end();
        reject(error);
      },
    );
  });
}

/** Settles like `work`, but rejects with the error from `aborted` when the signal fires first. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal, aborted: () => Error): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(aborted());
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** Settles like `work`, but rejects with the error from `tooLate` when it has not settled `graceMs` after the signal. */
export function resultSoonAfter<T>(
  work: Promise<T>,
  signal: AbortSignal,
  graceMs: number,
  tooLate: () => Error,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const aborted = (): void => {
      timer = setTimeout(() => reject(tooLate()), graceMs);
    };
    if (signal.aborted) aborted();
    else signal.addEventListener("abort", aborted, { once: true });
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", aborted);
    };
    work.then(
      (result) => {
        end();
        resolve(result);
      },
      (error: unknown) => {
        end();
        reject(error);
      },
    );
  });
}

/** Resolves after `ms`, or when the signal fires. The timer does not keep the process running. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const end = (): void => resolve();
  const timer = setTimeout(end, ms);
  timer.unref();
  signal.addEventListener("abort", end, { once: true });
  await promise;
  clearTimeout(timer);
  signal.removeEventListener("abort", end);
}

/** Returns whether the signal fired because of a deadline, and not because a client disconnected. */
export function isTimeout({ reason }: AbortSignal): boolean {
  return reason instanceof Error && reason.name === "TimeoutError";
}
