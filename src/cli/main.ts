#!/usr/bin/env -S bun --no-env-file --config=/dev/null --no-install
import { inspect } from "node:util";
import { Argument, Command, InvalidArgumentError, Option } from "commander";
import { readTime, TIME_HINT } from "../audit/query/time-range.ts";
import { APPROVAL_STATES } from "../core/approval-states.ts";
import { StartupError } from "../core/errors.ts";
import { auditCommands, auditEvidenceCommands } from "./audit/commands.ts";
import { print, StdoutError } from "./output.ts";

/** The longest token lifetime that a service accepts by default. */
const TOKEN_SECONDS_MAX = 3_600;
/** The longest time for which a session's mode may be changed. */
const MODE_SECONDS_MAX = 86_400;

/** sysexits.h EX_USAGE: the command line is wrong. Differs from 1 and 2, which report the state of the log or of a service. */
const EX_USAGE = 64;

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600 };

const PROGRAM_EXITS = `
Exit: 0 done; 64 what was typed is wrong; 73 the output cannot be written; 78 the configuration is wrong; 141 nobody
reads the output any more. What else a command ends with stands in its own help.`;
const CLIENT_EXITS = "\nExit: 0 done, 1 refused or failed, 2 no answer, 64 wrong usage";
const SERVE_EXITS =
  "\nExit: 0 stopped by a signal, 1 stopped by a fault, 64 wrong usage, 78 the configuration is wrong";
const CONFIGURED_EXITS = "\nExit: 0 done, 64 wrong usage, 78 the configuration is wrong";
const PLAN_EXITS =
  "\nExit: 0 planned, 1 the call would be refused, 64 no such tool or no JSON object, 78 the configuration is wrong";
const TOKEN_EXITS = "\nExit: 0 done, 64 wrong usage";
const FILTER_EXITS = "\nExit: 0 it would leave, 1 it would be withheld, 64 no such tool, 66 no such sample";
const WATCH_EXITS = `
Exit: 0 left by Ctrl-D, 1 refused, 64 wrong usage, 128 and its number for a signal: 130 Ctrl-C, 129 the terminal is gone`;
const HEALTH_EXITS = "\nExit: 0 well, 1 not, 2 no answer, 64 wrong usage";

/** The command line. Each command has its own file, loaded on demand; this file defines the names and options. */
const program = new Command("stc")
  .description("Safe Tool Call: the governed tool-call proxy")
  .version("0.1.0")
  .showHelpAfterError()
  .addHelpText("after", PROGRAM_EXITS)
  .configureOutput({ writeOut: print.part, writeErr: print.errorPart })
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : EX_USAGE))
  .helpCommand(false)
  .enablePositionalOptions();

function configured(name: string, description: string): Command {
  return program
    .command(name)
    .description(description)
    .option("--config <file>", "configuration file (default: STC_CONFIG)")
    .option("--dev", "the development stand: loopback, keys and targets of its own")
    .hook("preAction", (command) => {
      const { config, dev } = command.opts();
      if (config !== undefined && dev === true) command.error("error: --dev and --config exclude each other");
    });
}

/** Adds the options for a service behind TLS. */
function overTls(command: Command): Command {
  return command
    .option("--ca-file <file>", "who vouches for it, PEM (default: STC_CA_FILE, else the system's authorities)")
    .option("--client-cert-file <file>", "the certificate to show it, PEM (default: STC_CLIENT_CERT_FILE)")
    .option("--client-key-file <file>", "its key, PEM (default: STC_CLIENT_KEY_FILE)");
}

configured("serve", "Run the service")
  .addHelpText("after", SERVE_EXITS)
  .action(async (options) => (await import("./serve.ts")).serve(options));
configured("check", "Load everything and print all that is wrong")
  .option("--matrix", "who can call what: tools, their permissions, classifications and categories")
  .option("--json", "for programs")
  .addHelpText("after", CONFIGURED_EXITS)
  .action(async (options) => (await import("./check.ts")).check(options));
overTls(program.command("health"))
  .description("Ask a running service whether it lives")
  .option("--url <url>", "the service (default: STC_URL, else where its configuration says, else port 8787 here)")
  .option("--config <file>", "the configuration that it runs with (default: STC_CONFIG)")
  .option("--ready", "whether it takes calls")
  .addHelpText("after", HEALTH_EXITS)
  .action(async (options) => (await import("./health.ts")).health(options));
configured("tools", "List the tools")
  .option("--json", "for programs")
  .addHelpText("after", CONFIGURED_EXITS)
  .action(async (options) => (await import("./tools.ts")).tools(options));
configured("filter", "Show what an agent would see of an answer, and why; run nothing")
  .argument("<tool>")
  .requiredOption("--sample <file>", "an answer as JSON, as the tool's output schema reads it")
  .option("--json", "for programs")
  .addHelpText("after", FILTER_EXITS)
  .action(async (tool, options) => (await import("./filter.ts")).filter(tool, options));
configured("plan", "Show exactly what a call would run, and run nothing")
  .argument("<tool>")
  .argument("[args]", "arguments as JSON", "{}")
  .option("--json", "for programs")
  .addHelpText("after", PLAN_EXITS)
  .action(async (tool, args, options) => (await import("./plan.ts")).plan(tool, args, options));

program
  .command("token")
  .description("Print a token signed with the development keys")
  .requiredOption("--sub <subject>", "who calls")
  .option(
    "--permission <permission...>",
    "what the caller may do (default: nothing; an operator: decide, manage grants and modes, read the audit)",
  )
  .option("--operator", "a token for the operators' doors; it calls no tools")
  .option("--session <id>", "the agent's session, for which approvals can be remembered (default: a random one)")
  .option("--ttl <duration>", "30s, 15m, 1h", duration(TOKEN_SECONDS_MAX), TOKEN_SECONDS_MAX)
  .addHelpText("after", TOKEN_EXITS)
  .action(async (options) => (await import("./token.ts")).token(options));

/** Defines a command that queries a running service. */
function client(parent: Command, name: string, description: string): Command {
  const command = parent
    .command(name)
    .description(description)
    .option("--url <url>", "the service (default: STC_URL, else http://127.0.0.1:8787)")
    .option("--token-file <file>", 'file that holds the token, "-" for standard input (default: STC_TOKEN_FILE)');
  return overTls(command).option("--json", "for programs").addHelpText("after", CLIENT_EXITS);
}

client(program, "reload", "Have a running service take over changed configuration, manifests and keys").action(
  async (options) => (await import("./reload.ts")).reload(options),
);
client(program, "call", "Call a tool of a running service (STC_URL, STC_TOKEN_FILE)")
  .argument("<tool>")
  .argument("[args]", "arguments as JSON", "{}")
  .option("--approval <id>", "the yes to exactly this call")
  .action(async (tool, args, options) => (await import("./call.ts")).call(tool, args, options));

const approvals = program.command("approvals").description("Look at what waits for a yes, and decide");
client(approvals, "list", "List them, newest first")
  .addOption(new Option("--state <state>", "those in one state").choices(APPROVAL_STATES))
  .action(async (options) => (await import("./approvals/approvals.ts")).listApprovals(options));
client(approvals, "show", "Show exactly what would run, and who asks")
  .argument("<id>")
  .action(async (id, options) => (await import("./approvals/approvals.ts")).showApproval(id, options));
client(approvals, "approve", "Say yes to one call")
  .argument("<id>")
  .option("--session", "and to the same call again, in the same session")
  .option("--answer <text>", "to a question that wants one")
  .option("--reason <text>", "for the agent")
  .option(
    "--view-digest <digest>",
    "of the view that was shown before (default: that of this moment, which is printed)",
    viewDigest,
  )
  .action(async (id, options) => (await import("./approvals/approvals.ts")).approve(id, options));
client(approvals, "deny", "Say no")
  .argument("<id>")
  .option("--reason <text>", "for the agent")
  .action(async (id, options) => (await import("./approvals/approvals.ts")).deny(id, options));
client(approvals, "revoke", "Take back a yes that was not used yet")
  .argument("<id>")
  .action(async (id, options) => (await import("./approvals/approvals.ts")).revoke(id, options));
client(approvals, "report", "How people answered, and which rules would spare them questions")
  .option("--since <time>", "30m, 7d, yesterday, 2026-02-16 … (default: 7d)", time)
  .option("--until <time>", "the same (default: now)", time)
  .action(async (options) => (await import("./approvals/report.ts")).reportApprovals(options));
overTls(
  approvals
    .command("watch")
    .description("Ask about each as it comes; needs a terminal")
    .option("--url <url>", "the service (default: STC_URL, else http://127.0.0.1:8787)")
    .option("--token-file <file>", "file that holds the token, read anew when it changes (default: STC_TOKEN_FILE)"),
)
  .addHelpText("after", WATCH_EXITS)
  .action(async (options) => (await import("./approvals/watch.ts")).watchApprovals(options));

const grants = program.command("grants").description("What was approved for whole sessions");
client(grants, "list", "List them").action(async (options) => (await import("./grants.ts")).listGrants(options));
client(grants, "revoke", "End one")
  .argument("<id>")
  .action(async (id, options) => (await import("./grants.ts")).revokeGrant(id, options));

const mode = program.command("mode").description("How much sessions ask");
client(mode, "list", "List the sessions").action(async (options) => (await import("./mode.ts")).listModes(options));
client(mode, "set", "Set it, for a time")
  .argument("<session>", "as `stc mode list` names it; that of a token is sid: and its `sid`")
  .addArgument(new Argument("<mode>").choices(["default", "autoEdit", "yolo"]))
  .requiredOption("--for <duration>", "30s, 15m, 8h", duration(MODE_SECONDS_MAX))
  .option("--subject <subject>", "whose session it is, when the service has not seen it")
  .option("--issuer <issuer>", "who vouches for the subject")
  .action(async (session, mode, options) => (await import("./mode.ts")).setMode(session, mode, options));
client(mode, "end", "End a session, with its mode and what was approved for it")
  .argument("<session>")
  .action(async (session, options) => (await import("./mode.ts")).endSession(session, options));

const audit = program.command("audit").description("Read the audit");
auditCommands(audit, wholeNumber);
auditEvidenceCommands(audit);

program
  .command("help")
  .description("Show the help of a command, such as: help audit query")
  .argument("[command...]")
  .action((words: readonly string[]) => {
    let found = program;
    for (const word of words) {
      const next = found.commands.find((command) => command.name() === word);
      if (next === undefined) return found.error(`error: unknown command '${word}'`);
      found = next;
    }
    found.help();
  });

function duration(secondsMax: number): (text: string) => number {
  return (text) => {
    const [, amount, unit = ""] = /^(\d{1,6})([smh])$/.exec(text) ?? [];
    const seconds = Number(amount) * (SECONDS[unit] ?? Number.NaN);
    if (!(seconds >= 1 && seconds <= secondsMax)) {
      throw new InvalidArgumentError(
        `write it as 30s, 15m or 1h; more than ${secondsMax / 3_600}h no service would accept`,
      );
    }
    return seconds;
  };
}

function time(text: string): string {
  // Checks only the syntax: the service evaluates the time with its own clock.
  if (readTime(text, 0) === undefined) throw new InvalidArgumentError(`must be ${TIME_HINT}`);
  return text;
}

function viewDigest(text: string): string {
  if (!/^[0-9a-f]{64}$/.test(text)) throw new InvalidArgumentError("must be 64 digits and letters from a to f");
  return text;
}

function wholeNumber(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError("must be a whole number from 0 to 999999");
  return Number(text);
}

/** sysexits.h EX_CONFIG: the configuration is wrong. */
const EX_CONFIG = 78;

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof StdoutError) {
    if (!error.isReaderGone) print.error(error.message);
    process.exit(error.exitCode);
  }
  // Filters every message, whoever wrote it: addresses with passwords, headers and errors from manifests all end up here.
  const { filterSecrets } = await import("../detection/secrets/secrets-filter.ts");
  const isMistake = error instanceof StartupError;
  print.error(filterSecrets(isMistake ? error.message : inspect(error)).text);
  if (!isMistake) process.exit(1);
  process.exitCode = EX_CONFIG;
}
