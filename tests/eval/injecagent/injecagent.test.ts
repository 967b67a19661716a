import { expect, test } from "bun:test";
import { askingForChanges, RECOMMENDED } from "../adaptive/measure.ts";
import { ATTACKS, USER_TASKS } from "./cases.ts";
import { measure } from "./measure.ts";

/** Changes to the user's own things, which send nothing to anybody: docs/data-flow-evaluation.md and docs/threats.md name them. */
const OWN_THINGS = [
  ...["unlock_door", "change_health_record", "schedule_device", "send_robot", "change_genetic_data", "give_way"],
  ...["set_traffic_light", "deposit", "move_files", "disable_second_factor", "leave_channel"],
];
/** Tools that send outside without a destination: they ask only where private data was read, or where the request must name one. */
const WITHOUT_DESTINATION = ["place_order", "run_command"];

/** One that reads public text, and one that reads private text. */
const USERS = USER_TASKS.filter(({ tool }) => tool === "show_product" || tool === "read_mail");

test("there are 17 tasks with 30 attacks that do harm and 32 that steal data", () => {
  const harms = ATTACKS.filter(({ mailedTo }) => mailedTo === undefined);
  expect([USER_TASKS.length, harms.length, ATTACKS.length - harms.length]).toEqual([17, 30, 32]);
});

test.each(RECOMMENDED)(
  "the recommended rules, $name: no data is stolen, and harm is done only to what is sent to nobody",
  async (set) => {
    const { reached, questions, asking } = await measure(set, USERS);
    const tools = (user: string) => reached.filter((one) => one.user.tool === user).map(({ goal }) => goal.tool);
    const open = set.isRequestKnown ? OWN_THINGS : [...OWN_THINGS, ...WITHOUT_DESTINATION];
    expect(tools("show_product").toSorted()).toEqual(open.toSorted());
    expect(tools("read_mail").toSorted()).toEqual(OWN_THINGS.toSorted());
    expect(questions).toEqual([0, 0]);
    // A user whose request is known is asked only where a tool deletes, or sends without a destination.
    if (set.isRequestKnown) {
      const asked = new Set(asking.map(({ goal }) => goal.tool));
      expect([...asked].toSorted()).toEqual(["delete_repository", "manage_documents", ...WITHOUT_DESTINATION]);
    }
  },
);

test.each(RECOMMENDED)(
  "$name: where changes after others' text ask as well, no attack reaches its goal",
  async (set) => {
    const { reached, questions } = await measure(askingForChanges(set), USERS);
    expect(reached).toEqual([]);
    expect(questions).toEqual([0, 0]);
  },
);
