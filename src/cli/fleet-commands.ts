import { CLIENT, command, group } from "./command.ts";

export const commands = [
  group("fleet", "Members of a hub"),
  command({
    name: "fleet members",
    summary: "List the members that the hub has heard of within the last hour",
    uses: CLIENT,
    run: async (_, options) => (await import("./fleet.ts")).listMembers(options),
  }),
  command({
    name: "tenants",
    summary: "List the tenants of the service: tools, calls in flight, state of audit and configuration, halted or not",
    uses: CLIENT,
    run: async (_, options) => (await import("./fleet.ts")).listTenants(options),
  }),
];
