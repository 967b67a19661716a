import { readdirSync, readFileSync } from "node:fs";

/** Rounds over the process table: who is being ended may start others. */
const ROUNDS_MAX = 8;

/**
 * Ends everybody in the session of a child, and answers how many had left its group. A confined child cannot leave its session,
 * whatever it does to its environment.
 */
export function killSession(session: number): number {
  const left = new Set<number>();
  if (!Number.isSafeInteger(session) || session <= 1) return 0;
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const members = processes().filter((found) => found.session === session && found.isAlive);
    if (members.length === 0) break;
    for (const { pid, group } of members) {
      if (group !== session) left.add(pid);
      kill(pid);
    }
  }
  return left.size;
}

interface Process {
  readonly pid: number;
  readonly group: number;
  readonly session: number;
  readonly isAlive: boolean;
}

function processes(): readonly Process[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^[1-9][0-9]{0,9}$/.test(name)) return [];
    const pid = Number(name);
    try {
      // `pid (name) state ppid group session …`; a name may hold anything.
      const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
      const [state = "", , group, session] = stat.slice(stat.lastIndexOf(")") + 2).split(" ", 4);
      return [{ pid, group: Number(group), session: Number(session), isAlive: !/^[ZX]$/.test(state) }];
    } catch {
      return [];
    }
  });
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // Gone already.
  }
}
