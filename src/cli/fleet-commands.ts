import { CLIENT, command, group } from "./command.ts";

export const commands = [
  group("fleet", "Members of a hub"),
  command({
    name: "fleet members",
    summary: "List the members that the hub has heard of within the last hour",
    uses: CLIENT,
    run: async (_, options) => (await import("./fleet.ts")).listMembers(options),
  }),
];
