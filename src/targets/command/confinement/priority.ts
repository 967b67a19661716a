import { writeFileSync } from "node:fs";
import { constants, getPriority, setPriority } from "node:os";

const OOM_SCORE_ADJUSTMENT_MAX = 1_000;
/** Nice value of commands, so that the service runs first. */
export const PRIORITY = constants.priority.PRIORITY_BELOW_NORMAL;

/**
 * Makes the kernel end this process and its later children before the service when memory runs out. Needs no privilege.
 *
 * @param pid 0 for the caller
 * @returns whether it worked; just after a process becomes its program, it may fail for a moment unless the service
 * runs as root
 */
export function raiseOomScore(pid: number): boolean {
  try {
    writeFileSync(`/proc/${pid === 0 ? "self" : pid}/oom_score_adj`, `${OOM_SCORE_ADJUSTMENT_MAX}`);
    return true;
  } catch {
    // The process has ended, or there is no /proc: the limits on its memory still apply.
    return false;
  }
}

/** Gives the service priority on the processor over this process and its later children. */
export function lowerPriority(pid: number): void {
  try {
    setPriority(pid, Math.max(PRIORITY, getPriority(pid)));
  } catch {
    // The process has ended.
  }
}
