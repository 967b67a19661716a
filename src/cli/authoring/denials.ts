import { accessSync, constants, realpathSync } from "node:fs";
import { isAbsolute, resolve } from "node:path";
import { isTable } from "../../core/json.ts";
import { isBelow } from "../../core/target-kind.ts";
import type { PathGrant } from "../../targets/command/confinement/launchers.ts";
import { type Confined, grantsOf } from "../../targets/command/confinement/profile.ts";

/** Finds what the kernel has refused to a confined command, in what the command itself reported. */

/** One line in which a command reports a refusal. */
export interface Denial {
  /** What the command wrote. */
  readonly observed: string;
  readonly path?: string;
  /** The call that failed, as the command names it, such as `open`. */
  readonly call?: string;
  /** What the profile says about it. */
  readonly inferred: string;
}

interface ConfinedRun {
  readonly stderr: string;
  readonly confinement: unknown;
  readonly command: string;
  readonly cwd: string;
}

const LINES_MAX = 2_000;
const LINE_CHARACTERS_MAX = 1_000;
const DENIALS_MAX = 20;
const DENIED =
  /permission denied|operation not permitted|\bEACCES\b|\bEPERM\b|function not implemented|\bENOSYS\b|address family not supported|\bEAFNOSUPPORT\b/i;
const NETWORK = /\bsocket\b|\bconnect|\bresolve|network|\bhost\b|address family|EAFNOSUPPORT/i;
const QUOTED_PATH = /['"`‘“]((?:\/|\.\.?\/)?[^'"`’”]{1,512})['"`’”]/;
const PLAIN_PATH = /(?:^|[\s=:(])(\/[^\s:'"),;]{1,512})/g;
const CALLS =
  /\b(openat|open|creat|create|mkdir|rmdir|remove|unlink|rename|write|read|exec|execve|stat|chmod|chown|connect|socket|bind|link|symlink|truncate|kill)\b/;
const CHANGES = /\b(?:creat\w*|mkdir|rmdir|remov\w*|unlink|rename|writ\w*|link|symlink|truncate|delete|touch)\b/i;

/** Returns the refusals that a command reported; none for an unconfined command, which only its user's permissions restrict. */
export function denialsIn({ stderr, confinement, command, cwd }: ConfinedRun): readonly Denial[] {
  if (!isTable(confinement) || confinement["level"] !== "confined") return [];
  const confined = confinement as unknown as Confined;
  const grants = grantsOf(confined, { command, temporary: undefined });
  const lines = stderr.split("\n", LINES_MAX).map((line) => line.slice(0, LINE_CHARACTERS_MAX));
  const found = lines.filter((line) => DENIED.test(line)).slice(0, DENIALS_MAX);
  return [...new Set(found)].map((line) => denialOf(line, { confined, grants, cwd }));
}

interface Profile {
  readonly confined: Confined;
  readonly grants: readonly PathGrant[];
  readonly cwd: string;
}

function denialOf(line: string, { confined, grants, cwd }: Profile): Denial {
  const observed = line.trim();
  const call = CALLS.exec(line)?.[1];
  // A line often begins with the command's own path.
  const named = QUOTED_PATH.exec(line)?.[1] ?? [...line.matchAll(PLAIN_PATH)].at(-1)?.[1];
  const by = { observed, ...(call !== undefined && { call }) };
  if (NETWORK.test(line) && confined.network === null) {
    const inferred = "the profile has no network: network: [443] would allow sockets, and TCP to this port";
    return { ...by, inferred };
  }
  if (named === undefined) {
    const inferred =
      "no path is named: a system call that the seccomp filter refuses, or a path that the command does not report";
    return { ...by, inferred };
  }
  const path = realPath(isAbsolute(named) ? named : resolve(cwd, named));
  return { ...by, path, inferred: verdictOn(path, CHANGES.test(line), { confined, grants }) };
}

function verdictOn(path: string, isChange: boolean, { confined, grants }: Omit<Profile, "cwd">): string {
  const rule = grants.find((grant) => isBelow(path, realPath(grant.path)) && (!isChange || grant.access === "write"));
  if (rule !== undefined) {
    const mode = mayAccess(path) ? "" : ", and the file's own permissions refuse it to you too";
    return `a rule of the profile covers it (${rule.access} ${rule.path})${mode}`;
  }
  const key = isChange ? "writes" : "reads";
  const others = confined.writes.length + confined.reads.length === 0 ? "" : ` beside ${count(confined)}`;
  const own = mayAccess(path) ? "" : "; the file's own permissions refuse it to you as well, or it does not exist";
  return `no rule of the profile covers it: confinement.${key}: ["${path}"]${others} would allow it${own}`;
}

function count({ reads, writes }: Confined): string {
  return `the ${reads.length} of reads and ${writes.length} of writes`;
}

function mayAccess(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

/** Returns the path without links; of a file that does not exist, the path itself. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
