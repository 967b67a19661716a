import { join } from "node:path";
import { keepApprovalsIn, reachApprovals } from "./approvals.ts";
import { preparedDatabase } from "./approvals-postgres.ts";
import { byHub } from "./hub-approvals.ts";
import { accessPostgres, type PostgresAccess } from "./postgres.ts";
import { runPreloaded } from "./preloaded-tests.ts";

const VARIABLE = "STC_TEST_HUB";

const fileOf = (name: string): string => join(import.meta.dir, `../approvals/store/${name}.test.ts`);

/** The test files of the store that also hold by way of a hub. */
export const STORE_TESTS = ["votes", "decisions", "escalations", "grants", "keys", "requests", "sessions", "tasks"].map(
  fileOf,
);

/** Those of rows that the model of the property tests does not have. */
export const UNMODELLED_STORE_TESTS = ["keys", "tasks"].map(fileOf);

/**
 * Titles of the tests of `UNMODELLED_STORE_TESTS` that must fail by way of a hub: no request has more than 8 MiB, and no use of a key
 * lacks its process, so that `doubtKey` does nothing.
 */
export const UNMODELLED_OTHERWISE = [
  "a caller has at most 1,000 tasks, and 64 MiB of them",
  "an unknown use whose outcome is found later > is answered without its result where the change was made, for good",
  "an unknown use whose outcome is found later > runs again where nothing was changed",
  "an unknown use whose outcome is found later > stays unknown where the key may have been used again since",
  "the outcome of a use is unknown at once when its process is known to have ended",
];

/** The same, of `STORE_TESTS`. */
export const OTHERWISE_BY_HUB = UNMODELLED_OTHERWISE.toSorted();

/** Returns the titles of the tests that failed. */
export function failedIn({ stderr }: ReturnType<typeof runByHub>): readonly string[] {
  const titles = [...stderr.toString().matchAll(/^\(fail\) (.*?)(?: \[[\d.]+m?s\])?$/gm)].map(
    ([, title = ""]) => title,
  );
  return [...new Set(titles)].toSorted();
}

/** Runs test files that know a store alone, with every world of theirs reached by a hub; in a database of the server's, if given. */
export function runByHub(files: readonly string[], server?: PostgresAccess) {
  const access = server && { dir: server.dir, port: server.port };
  return runPreloaded(import.meta.path, files, { variable: VARIABLE, value: { access } });
}

const given = process.env[VARIABLE];
if (given !== undefined) {
  reachApprovals(byHub);
  const { access } = JSON.parse(given) as { readonly access?: PostgresAccess };
  if (access !== undefined) {
    const server = accessPostgres(access);
    keepApprovalsIn(() => preparedDatabase(server));
  }
}
