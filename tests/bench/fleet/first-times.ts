import type { FleetService } from "./service.ts";

interface Looking {
  readonly everyMs: number;
  /** Limit for each member. */
  readonly limitMs: number;
}

/**
 * Looks at each member at an interval until there is something to see. Members are looked at at different moments.
 * @returns the time of the first success of each member, by `performance.now()`
 */
export function firstTimes(
  members: readonly FleetService[],
  { everyMs, limitMs }: Looking,
  isSeen: (member: FleetService) => Promise<boolean>,
): readonly Promise<number>[] {
  return members.map(async (member, at) => {
    const endMs = performance.now() + limitMs;
    await Bun.sleep((everyMs * at) / members.length);
    while (performance.now() < endMs) {
      const startedAt = performance.now();
      if (await isSeen(member)) return performance.now();
      await Bun.sleep(Math.max(0, everyMs - (performance.now() - startedAt)));
    }
    throw new Error(`${member.name}: nothing was seen within ${limitMs} ms`);
  });
}
