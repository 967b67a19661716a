type Cleanup = () => void;

const cleanups: Cleanup[] = [];

/**
 * Registers work for the end of the test file that runs. Support code that several files share cannot use `afterAll`: when files
 * share their modules, it is registered only for the first of them.
 */
export function afterFile(cleanup: Cleanup): void {
  cleanups.push(cleanup);
}

export function endFile(): void {
  for (const cleanup of cleanups.splice(0)) cleanup();
}
