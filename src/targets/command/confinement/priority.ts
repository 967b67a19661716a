import { writeFileSync } from "node:fs";
import { constants, getPriority, setPriority } from "node:os";

const OOM_SCORE_ADJUSTMENT_MAX = 1_000;
/** Of commands; the service computes first. */
export const PRIORITY = constants.priority.PRIORITY_BELOW_NORMAL;

/**
 * Lets the kernel end this process, and all that it will start, before the service when memory runs out. Needs no privilege.
 *
 * @param pid 0 for the caller
 * @returns whether that is so; a process that has only just become its program may refuse other users than root for a moment
 */
export function yieldMemory(pid: number): boolean {
  try {
    writeFileSync(`/proc/${pid === 0 ? "self" : pid}/oom_score_adj`, `${OOM_SCORE_ADJUSTMENT_MAX}`);
    return true;
  } catch {
    // The process has ended, or there is no /proc: the limits on its memory hold all the same.
    return false;
  }
}

/** Lets the service compute before this process and all that it will start. */
export function yieldProcessor(pid: number): void {
  try {
    setPriority(pid, Math.max(PRIORITY, getPriority(pid)));
  } catch {
    // The process has ended.
  }
}
