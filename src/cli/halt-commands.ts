import {
  argument,
  CLIENT,
  command,
  flag,
  instant,
  list,
  longDuration,
  option,
  remaining,
  required,
  tenantName,
  text,
} from "./command.ts";

const halts = () => import("./halts.ts");

export const commands = [
  command({
    name: "halt",
    summary: "Stop calls at once: of a tool, a system, a caller or a session, or all of them",
    uses: CLIENT,
    options: {
      all: flag("all calls"),
      tool: option(text("tool"), "calls of this tool"),
      system: option(text("system"), "calls of the tools of this system"),
      caller: list(
        text("issuer-and-subject"),
        "calls of this caller, also as an actor for others: its issuer and its subject",
      ),
      session: option(text("id"), "calls in this session; for the session of a token, sid: followed by its `sid`"),
      tenant: option(tenantName, "only those of this tenant of the service; alone, all of its calls"),
      reason: required(
        text("text"),
        "why, for operators (with --tenant, also those of the tenant) and the audit; agents do not see it",
      ),
      until: option(instant, "when the halt ends by itself, such as 2026-02-16T12:30:00Z", { excludes: "for" }),
      for: option(longDuration, "how long the halt lasts: 30m, 8h, 7d (default: until it is lifted)"),
      cancelRunning: flag("also end running calls: of a change it is then unknown whether it happened"),
    },
    run: async (_, options) => (await halts()).halt(options),
  }),
  command({
    name: "resume",
    summary: "Lift halts",
    arguments: { id: argument(text("id"), "id that `stc halts` prints"), ids: remaining(text("id"), "more ids") },
    uses: CLIENT,
    run: async ({ id, ids }, options) => (await halts()).resume([id, ...ids], options),
  }),
  command({
    name: "halts",
    summary: "List the halts in force",
    uses: CLIENT,
    run: async (_, options) => (await halts()).listHalts(options),
  }),
];
