import { type Fleet, forEach } from "./fleet.ts";
import type { Figure } from "./report.ts";

const LOOK_MS = 100;
const CHANGES_AT_ONCE = 16;

/** Has all members make changes at once, and counts the hubs' connections to PostgreSQL meanwhile. */
export async function connectionFigures(fleet: Fleet, changesPerMember: number): Promise<readonly Figure[]> {
  let most = 0;
  let isOver = false;
  const watching = (async () => {
    while (!isOver) {
      const [row] = await fleet.query(
        "SELECT count(*)::integer AS open FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
      );
      most = Math.max(most, Number(row?.["open"]));
      await Bun.sleep(LOOK_MS);
    }
  })();
  const all = Array.from({ length: changesPerMember }, () => fleet.members).flat();
  await forEach(all, CHANGES_AT_ONCE, (member) => fleet.change(member, crypto.randomUUID()));
  isOver = true;
  await watching;
  const count = fleet.members.length;
  const { length: hubs } = fleet.hubs;
  return [
    {
      what: `connections to PostgreSQL of a hub, with ${count} members`,
      value: most / hubs,
      ...{ reach: 10, aim: 5 },
      note: `${hubs} hubs, at most ${most} together, ${all.length} changes with approvals`,
    },
    {
      what: `connections of members at the hubs, with ${count} members`,
      value: fleet.network.connections / count,
      unit: "each",
    },
  ];
}
