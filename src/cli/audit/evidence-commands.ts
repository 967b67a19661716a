import type { Command } from "commander";

const DIR = ["--dir <directory>", "audit directory (default: STC_AUDIT_DIR, else ./audit-logs)"] as const;
const KEY = "public key of the checkpoints: a PEM file or a verifier key; may be given again";
const VERIFY_EXITS = `
Exit: 0 sound, 1 tampered, 2 only a torn end (a crash, or a line being written), 3 lines missing, 4 not signed or by no
given key, 5 unreadable, 64 wrong usage, 66 no directory`;
const PROVE_EXITS = "\nExit: 0 printed, 1 there is no proof of it, 64 wrong usage, 66 no directory";
const PROOF_EXITS =
  "\nExit: 0 proved, 1 not in the log, 4 a signature that no given key made, 5 unreadable, 64 wrong usage";
const KEYS_EXITS = "\nExit: 0 done, 64 wrong usage, 66 no such key, 73 the file cannot be made";

/** The commands that show whether the log can be believed. */
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
