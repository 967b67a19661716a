import type { Command } from "commander";
import { FIELDS } from "../../audit/query/filter.ts";
import { FILTER_PARAMS, type Params, QUERY_PARAMS } from "../../audit/query/params.ts";
import { DURATION_HINT, TIME_HINT } from "../../audit/query/time-range.ts";

/** Help texts of the filters. The names are those of the HTTP parameters. */
const HELP: Readonly<Record<(typeof FILTER_PARAMS)[number], string>> = {
  from: TIME_HINT,
  to: "the same; calls at that time and later are left out",
  text: "stands anywhere in the line, letters in either case",
  traceId: "trace id, ours or W3C",
  approval: "id of an approval",
  sub: "who called",
  iss: "the issuer of the caller's token",
  code: "refusal code, such as PERMISSION_DENIED",
  tool: "name of the tool",
  system: "what the tool reaches",
  stage: "where it ended, such as VALIDATION",
  classification: "read, write, destructive, unknown",
  decision: "ALLOWED, DENIED, ERROR, PENDING",
};

const FOR_PROGRAMS = "the lines as they are, or the answer as JSON";

const EXITS = `
Exit: 0 found, 1 nothing found, 64 wrong usage, 66 no such directory or a file that cannot be read, 73 the output cannot
be made or written`;
const TAIL_EXITS = "\nExit: 0 done, 64 wrong usage, 66 no such directory or a file that cannot be read";
const PRUNE_EXITS = `
Exit: 0 files went, or would go; 1 none; 64 wrong usage, 66 no such directory or a file that cannot be read, 73 a file
cannot be deleted`;

const OTHER_EXITS: ReadonlyMap<string, string> = new Map([
  ["tail", TAIL_EXITS],
  ["prune", PRUNE_EXITS],
]);

type Options = Readonly<Record<string, unknown>>;

/** Defines `stc audit …`. Each command has its own file, loaded on demand. */
export function auditCommands(audit: Command, readCount: (text: string) => number): void {
  reader(audit, "query", "List the calls that the filters let through, newest first")
    .option("--order <order>", "newest or oldest first", "newest")
    .option("--limit <count>", "how many at most (default: 50)")
    .option("--cursor <cursor>", "go on where an earlier query with the same filters ended")
    .action(({ dir, json, ...options }) =>
      run(async () => (await import("./query.ts")).auditQuery({ dir, json, params: paramsOf(options, QUERY_PARAMS) })),
    );
  reader(audit, "tail", "Print the latest calls")
    .option("-n, --lines <count>", "how many", readCount, 20)
    .option("-f, --follow", "and go on as they come")
    .action(({ lines, follow, dir, json, ...options }) => {
      const filters = paramsOf(options, FILTER_PARAMS);
      return run(async () => (await import("./tail.ts")).auditTail({ dir, json, lines, follow, filters }));
    });
  based(audit, "show", "Show a call with its intent and its approvals")
    .argument("<id>", "trace id, W3C trace id or approval id")
    .option("--json", FOR_PROGRAMS)
    .action((id, options) => run(async () => (await import("./show.ts")).auditShow(id, options)));
  reader(audit, "stats", "Count calls and refusals, and how long they took")
    .option("--compare <duration>", `against the same range earlier by ${DURATION_HINT}`)
    .action(({ dir, json, ...options }) =>
      run(async () => (await import("./stats.ts")).auditStats({ dir, json, params: paramsOf(options, STATS_PARAMS) })),
    );
  const exported = based(audit, "export", "Write all calls that the filters let through, oldest first")
    .requiredOption("--to <format>", "jsonl, csv or ocsf")
    .option("--until <time>", `${HELP.to}; what the other commands call --to`);
  filtered(
    exported,
    FILTER_PARAMS.filter((param) => param !== "to"),
  )
    .option("-o, --output <file>", "a new file (default: standard output)")
    .action(({ dir, to, until, output, ...options }) => {
      const params = paramsOf({ ...options, to: until }, FILTER_PARAMS);
      return run(async () => (await import("./export.ts")).auditExport({ dir, to, output, params }));
    });
  based(audit, "prune", "Delete the files of old days, if exporters and checkpoints have passed them")
    .requiredOption("--keep <duration>", `how long files are kept: ${DURATION_HINT}`)
    .option("--dry-run", "say what would be deleted, and delete nothing")
    .option("--json", FOR_PROGRAMS)
    .action((options) => run(async () => (await import("./prune.ts")).auditPrune(options)));
}

async function run(command: () => Promise<void>): Promise<void> {
  const { guarded } = await import("./directory.ts");
  await guarded(command);
}

const STATS_PARAMS = [...FILTER_PARAMS, "compare"] as const;

function based(audit: Command, name: string, description: string): Command {
  return audit
    .command(name)
    .description(description)
    .option("--dir <directory>", "audit directory (default: STC_AUDIT_DIR, else ./audit-logs)")
    .addHelpText("after", OTHER_EXITS.get(name) ?? EXITS);
}

function reader(audit: Command, name: string, description: string): Command {
  return filtered(based(audit, name, description), FILTER_PARAMS).option("--json", FOR_PROGRAMS);
}

function filtered(command: Command, params: readonly (typeof FILTER_PARAMS)[number][]): Command {
  for (const param of params) command.option(`${flagOf(param)} <${placeholderOf(param)}>`, HELP[param]);
  return command;
}

function placeholderOf(param: string): string {
  if (param === "from" || param === "to") return "time";
  return param in FIELDS ? "value" : param;
}

function flagOf(param: string): string {
  return `--${param.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

function paramsOf(options: Options, names: readonly string[]): Params {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = options[name];
      return typeof value === "string" ? [[name, value]] : [];
    }),
  );
}

const DIR = ["--dir <directory>", "audit directory (default: STC_AUDIT_DIR, else ./audit-logs)"] as const;
const KEY = "public key of the checkpoints: a PEM file or a verifier key; may be given again";
const VERIFY_EXITS = `
Exit: 0 sound, 1 tampered, 2 only a torn end (a crash, or a line being written), 3 lines missing, 4 not signed or by no
given key, 5 unreadable, 64 wrong usage, 66 no directory`;
const PROVE_EXITS = "\nExit: 0 printed, 1 there is no proof of it, 64 wrong usage, 66 no directory";
const PROOF_EXITS =
  "\nExit: 0 proved, 1 not in the log, 4 a signature that no given key made, 5 unreadable, 64 wrong usage";
const KEYS_EXITS = "\nExit: 0 done, 64 wrong usage, 66 no such key, 73 the file cannot be made";

/** Defines the commands that prove the integrity of the log. */
export function auditEvidenceCommands(audit: Command): void {
  audit
    .command("verify")
    .description("Check the log: the first changed, missing, added or moved line of each stream")
    .option(...DIR)
    .option("--key <file>", KEY, collect, [])
    .option("--from <day>", "begin with this day (checks the chain alone)")
    .option("--to <day>", "end with this day")
    .option("--json", "for programs")
    .addHelpText("after", VERIFY_EXITS)
    .action(async (options) => (await import("./verify.ts")).auditVerify(options));
  audit
    .command("prove")
    .description("Print a proof, to be checked without the log, that a call stands in it")
    .argument("<id>", "trace id, or id of the line")
    .option(...DIR)
    .addHelpText("after", PROVE_EXITS)
    .action(async (id, options) => (await import("./prove.ts")).auditProve(id, options));
  audit
    .command("verify-proof")
    .description("Check a proof; needs no log")
    .argument("<file>")
    .option("--key <file>", KEY, collect, [])
    .option("--json", "for programs")
    .addHelpText("after", PROOF_EXITS)
    .action(async (file, options) => (await import("./prove.ts")).auditVerifyProof(file, options));
  audit
    .command("keys")
    .description("Make the key that signs checkpoints, or print its public half")
    .option("--new <file>", "write a fresh private key there (audit.checkpointKeyFile)")
    .option("--key <file>", "show the public half of this key")
    .option("--dir <directory>", "and the verifier keys of this log's streams")
    .addHelpText("after", KEYS_EXITS)
    .action(async (options) => (await import("./keys.ts")).auditKeys(options));
}

function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}
