#!/usr/bin/env -S bun --no-env-file --config=/dev/null --no-install
import { Command, InvalidArgumentError } from "commander";
import { StartupError } from "../core/errors.ts";
import { print } from "./output.ts";

/** The longest lifetime of a token that a service accepts unless it is configured otherwise. */
const TOKEN_SECONDS_MAX = 3_600;

/** The command line. Each command is a file, read when it is asked for; here they get their names and options. */
const program = new Command("stc")
  .description("Safe Tool Call: the governed tool-call proxy")
  .version("0.1.0")
  .showHelpAfterError()
  .enablePositionalOptions();

function configured(name: string, description: string): Command {
  return program
    .command(name)
    .description(description)
    .option("--config <file>", "configuration file (default: STC_CONFIG)")
    .option("--dev", "the development stand: loopback, keys and targets of its own");
}

configured("serve", "Run the service").action(async (options) => (await import("./serve.ts")).serve(options));
configured("check", "Load everything and print all that is wrong")
  .option("--json", "for programs")
  .action(async (options) => (await import("./check.ts")).check(options));
configured("tools", "List the tools")
  .option("--json", "for programs")
  .action(async (options) => (await import("./tools.ts")).tools(options));
configured("plan", "Show exactly what a call would run, and run nothing")
  .argument("<tool>")
  .argument("[args]", "arguments as JSON", "{}")
  .option("--json", "for programs")
  .action(async (tool, args, options) => (await import("./plan.ts")).plan(tool, args, options));

program
  .command("token")
  .description("Print a token signed with the development keys")
  .requiredOption("--sub <subject>", "who calls")
  .option("--permission <permission...>", "what the caller may do", [])
  .option("--operator", "a token for the operators' doors; it calls no tools")
  .option("--ttl <duration>", "30s, 15m, 1h", duration, TOKEN_SECONDS_MAX)
  .action(async (options) => (await import("./token.ts")).token(options));

program
  .command("call")
  .description("Call a tool of a running service (STC_URL, STC_TOKEN_FILE)")
  .argument("<tool>")
  .argument("[args]", "arguments as JSON", "{}")
  .option("--url <url>", "the service (default: STC_URL, else http://127.0.0.1:8787)")
  .option("--token-file <file>", 'file that holds the token, "-" for standard input (default: STC_TOKEN_FILE)')
  .option("--json", "for programs")
  .action(async (tool, args, options) => (await import("./call.ts")).call(tool, args, options));

program
  .command("audit")
  .description("Read the audit")
  .command("tail")
  .description("Print the latest calls")
  .option("--dir <directory>", "audit directory (default: STC_AUDIT_DIR, else ./audit-logs)")
  .option("-n, --lines <count>", "how many", wholeNumber, 20)
  .option("-f, --follow", "and go on as they come")
  .option("--json", "the lines as they are")
  .action(async (options) => (await import("./audit-tail.ts")).auditTail(options));

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600 };

function duration(text: string): number {
  const [, amount, unit = ""] = /^(\d{1,6})([smh])$/.exec(text) ?? [];
  const seconds = Number(amount) * (SECONDS[unit] ?? Number.NaN);
  if (!(seconds >= 1 && seconds <= TOKEN_SECONDS_MAX)) {
    throw new InvalidArgumentError("write it as 30s, 15m or 1h; more than 1h no service would accept");
  }
  return seconds;
}

function wholeNumber(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError("must be a whole number");
  return Number(text);
}

/** sysexits.h: the configuration is the reason. */
const EX_CONFIG = 78;

try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof StartupError)) throw error;
  print.error(error.message);
  process.exitCode = EX_CONFIG;
}
