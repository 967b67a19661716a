import { argument, CLIENT, command, flag, option, TLS, text } from "./command.ts";

/** Commands that ask a running service. */
export const commands = [
  command({
    name: "health",
    summary: "Check that a running service is alive",
    options: {
      ...TLS,
      url: option(
        text("url"),
        "the service (default: STC_URL, else the address in its configuration, else port 8787 on this machine)",
      ),
      config: option(text("file"), "the service's configuration file (default: STC_CONFIG)"),
      ready: flag("check that the service takes calls"),
    },
    exits: { 0: "healthy", 1: "not healthy", 2: "the service does not answer" },
    run: async (_, options) => (await import("./health.ts")).health(options),
  }),
  command({
    name: "reload",
    summary: "Make a running service load changed configuration, manifests and keys",
    uses: CLIENT,
    run: async (_, options) => (await import("./call.ts")).reload(options),
  }),
  command({
    name: "call",
    summary: "Call a tool of a running service",
    arguments: { tool: argument(text("tool")), args: argument(text("args"), "arguments as JSON", "{}") },
    uses: CLIENT,
    options: { approval: option(text("id"), "id of the approval of exactly this call") },
    run: async ({ tool, args }, options) => (await import("./call.ts")).call(tool, args, options),
  }),
];
