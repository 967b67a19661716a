import { writeFileSync } from "node:fs";
import { constants, getPriority, setPriority } from "node:os";

const OOM_SCORE_ADJUSTMENT_MAX = 1_000;
/** Of commands; the service computes first. */
export const PRIORITY = constants.priority.PRIORITY_BELOW_NORMAL;

/**
 * Lets the kernel end this process, and all that it will start, before the service when memory runs out. Needs no privilege.
 *
 * @param pid 0 for the caller
 */
export function yieldMemory(pid: number): void {
  try {
    writeFileSync(`/proc/${pid === 0 ? "self" : pid}/oom_score_adj`, `${OOM_SCORE_ADJUSTMENT_MAX}`);
  } catch {
    // The process has ended, or there is no /proc: the limits on its memory hold all the same.
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
