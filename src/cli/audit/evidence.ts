import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { readFileSync } from "node:fs";
import { AuditLogError } from "../../audit/audit-log-error.ts";
import { eachNote } from "../../audit/chain/checkpoint.ts";
import { checkProof, type Proof, type ProofVerdict, prove, readProof } from "../../audit/chain/proof.ts";
import { readPublicKey, verifierKeyOf } from "../../audit/chain/signed-note.ts";
import { createSigningKey } from "../../audit/chain/signing-key.ts";
import { escapeName } from "../../audit/escape.ts";
import { tenantsIn } from "../../audit/logs.ts";
import { readDate } from "../../audit/query/time-range.ts";
import { damageText } from "../../audit/verify/damage.ts";
import {
  bytesToVerify,
  exitCodeOf,
  type StreamReport,
  unreadNames,
  type VerifyOptions,
  type VerifyReport,
  verifyInSteps,
  verifyLog,
} from "../../audit/verify/verify.ts";
import { logProblems, ownerProblems, problemText, readRecordedLogs } from "../../audit/verify/worker-logs.ts";
import { errorText, systemCode } from "../../core/error-text.ts";
import { present } from "../../core/present.ts";
import { EXIT, print, reportChange, StdoutError, wrongUsage } from "../output.ts";
import { auditDirectory, guarded } from "./directory.ts";

export interface AuditVerifyOptions {
  readonly dir?: string | undefined;
  readonly tenant?: string | undefined;
  readonly key: readonly string[];
  readonly from?: string;
  readonly to?: string;
  readonly json?: boolean;
}

/**
 * Exit codes: sound, with its signatures; nothing can be checked with the given key; a part of the log, a proof or a key cannot be
 * read; sound, but no signature was checked.
 */
const SOUND = 0;
const LINES_MISSING = 3;
export const NOT_SIGNED = 4;
const UNREADABLE = 5;
export const SIGNATURES_NOT_CHECKED = 6;
const PER_CENT = 100;

/** `stc audit verify`: reads the log and reports the first problem. */
export async function auditVerify({ dir, tenant, key, from, to, json }: AuditVerifyOptions): Promise<void> {
  const directory = auditDirectory(dir);
  if (directory === undefined) return;
  const wrong = [from, to].find((day) => day !== undefined && readDate(day) === undefined);
  if (wrong !== undefined) return wrongUsage(`${wrong} is not a date: write it as 2026-02-16`);
  if (from !== undefined && to !== undefined && from > to) return wrongUsage("--from must not be later than --to");
  reportErrors(UNREADABLE, () => {
    const keys = key.map(readKey);
    const hasKeys = keys.length > 0;
    const logs = directory.logs.map(({ name, dir: log }) => {
      const report = verifyWithProgress({ dir: log, keys, from, to });
      const signatures = signaturesOf(report, { hasKeys, isPart: (from ?? to) !== undefined });
      const code = exitCodeOf(report) || EXIT_OF[signatures](hasKeys);
      return { name, report, signatures, code, ok: isOk(code), notRead: unreadNames(log) };
    });
    const problems = [
      ...logProblems(directory.dir, readRecordedLogs(directory.dir)),
      ...(tenant === undefined ? [] : ownerProblems(directory.dir, tenant)),
    ];
    const code = worstOf([...logs.map((log) => log.code), ...problems.map(() => LINES_MISSING)]);
    process.exitCode = code;
    const shown = logs.map(({ name, report, signatures, ok, notRead }) => ({
      ...(name !== "" && { log: name }),
      ok,
      signatures,
      ...report,
      notRead,
    }));
    const [own, ...workers] = shown;
    const isOne = workers.length + problems.length === 0;
    if (json === true) return print.json({ ...own, ...(!isOne && { ok: isOk(code), workers, logProblems: problems }) });
    for (const log of logs) for (const line of readable(log.name, { ...log, hasKeys })) print.line(line);
    for (const tenant of tenantsIn(directory.dir).map((name) => escapeName(name))) {
      print.error(`not verified: the tenant ${tenant}: add --tenant ${tenant}`);
    }
    if (isOne) return;
    const signatures = BY_WEAKNESS.find((weak) => logs.some((log) => log.signatures === weak)) ?? "checked";
    const verdict = isOk(code) ? VERDICTS[signatures] : NOT_SOUND;
    for (const line of ["", "all logs:", ...problems.map(problemText), verdict]) print.line(line);
  });
}

function isOk(code: number): boolean {
  return code === SOUND || code === SIGNATURES_NOT_CHECKED;
}

/** Exit codes, the most serious first. */
const BY_SEVERITY: readonly number[] = [1, NOT_SIGNED, LINES_MISSING, 2, SIGNATURES_NOT_CHECKED];

/** Returns the exit code of several logs: that of the worst. */
function worstOf(codes: readonly number[]): number {
  return BY_SEVERITY.find((code) => codes.includes(code)) ?? SOUND;
}

/** What is known about the signatures: `none`: the log has no checkpoint. */
type Signatures = "checked" | "not checked" | "none";

interface Asked {
  readonly hasKeys: boolean;
  /** Not all lines are read: those of the rest decide whether a checkpoint by another key is covered. */
  readonly isPart: boolean;
}

function signaturesOf({ streams, checkpoints }: VerifyReport, { hasKeys, isPart }: Asked): Signatures {
  const written = streams.filter(({ lastSeq, linesBefore }) => lastSeq !== undefined || linesBefore > 0);
  if (checkpoints.checkpoints === 0 && written.length > 0) return "none";
  // Nothing is signed in an empty log, and one stream can lack what the other has.
  const isCovered = written.length > 0 && written.every(({ covered }) => covered !== undefined);
  return hasKeys && !isPart && isCovered ? "checked" : "not checked";
}

/** Exit codes of a log without damage, by whether a key was given. */
const EXIT_OF: Readonly<Record<Signatures, (hasKeys: boolean) => number>> = {
  checked: () => SOUND,
  "not checked": () => SIGNATURES_NOT_CHECKED,
  none: (hasKeys) => (hasKeys ? NOT_SIGNED : SIGNATURES_NOT_CHECKED),
};

/** Runs the work. Prints any error but one of standard output, and sets the exit code. */
function reportErrors(exitCode: number, work: () => void): void {
  try {
    work();
  } catch (error) {
    if (error instanceof StdoutError) throw error;
    print.error(errorText(error));
    process.exitCode = exitCode;
  }
}

/** Reads a public key from a file, or a verifier key given as text. */
export function readKey(named: string): ReturnType<typeof readPublicKey> {
  if (named.includes("+") && !named.includes("\n")) {
    try {
      return readPublicKey(named);
    } catch {
      // Not a verifier key: a file name may contain a plus.
    }
  }
  try {
    return readPublicKey(readFileSync(named, "utf8"));
  } catch (error) {
    throw new AuditLogError(`${named}: ${errorText(error)}`);
  }
}

function verifyWithProgress(options: VerifyOptions): VerifyReport {
  if (process.stderr.isTTY !== true) return verifyLog(options);
  const inAll = Math.max(1, bytesToVerify(options));
  const steps = verifyInSteps(options);
  let done = 0;
  for (;;) {
    const step = steps.next();
    if (step.done === true) {
      print.progress("");
      return step.value.report;
    }
    done += step.value;
    print.progress(`${Math.floor((done / inAll) * PER_CENT)} % verified`);
  }
}

const UNCOMPARED = "pruned.jsonl does not contain what checkpoints are compared with: only the chain was checked";

function isUncompared(checkpoints: number): (stream: StreamReport) => boolean {
  return ({ prunedTo, compared, lines }) => prunedTo !== undefined && compared === 0 && lines > 0 && checkpoints > 0;
}

interface Findings {
  readonly report: VerifyReport;
  readonly ok: boolean;
  readonly signatures: Signatures;
  readonly hasKeys: boolean;
  readonly notRead: readonly string[];
}

const VERDICTS: Readonly<Record<Signatures, string>> = {
  checked: "ok",
  "not checked": "ok, not checked: signatures",
  none: "ok, unsigned",
};

/** States of the signatures; the one that proves least comes first. */
const BY_WEAKNESS: readonly Signatures[] = ["none", "not checked"];
const NOT_SOUND = "NOT SOUND";

/** `name`: the folder of a worker's log. */
function readable(name: string, { report, ok, signatures, hasKeys, notRead }: Findings): readonly string[] {
  const { streams, checkpoints } = report;
  const damages = [...streams.map(({ damage }) => damage), checkpoints.damage].filter((one) => one !== undefined);
  return [
    ...(name === "" ? [] : ["", `${name}:`]),
    ...streams.flatMap((stream) => [summary(stream), ...coverage(stream, hasKeys)]),
    `checkpoints: ${checkpoints.checkpoints} (${signers(checkpoints, hasKeys)})`,
    ...(signatures === "none" ? ["note: without signed checkpoints the chain can be rebuilt unnoticed"] : []),
    ...streams.filter(isUncompared(checkpoints.checkpoints)).map(({ stream }) => `note: ${stream}: ${UNCOMPARED}`),
    ...notRead.map((name) => `note: ${name} is not the file of a day: not read`),
    ...damages.map(damageText),
    ...(signatures === "none" && hasKeys ? ["not signed: there is no checkpoint, so --key has nothing to check"] : []),
    ok ? VERDICTS[signatures] : NOT_SOUND,
  ];
}

function signers({ signed, otherKeys }: VerifyReport["checkpoints"], hasKeys: boolean): string {
  if (!hasKeys) return "signatures not checked: give --key";
  return [`${signed} signed`, ...(otherKeys > 0 ? [`${otherKeys} by other keys`] : [])].join(", ");
}

function summary({ stream, files, lines, linesBefore, lastSeq, compared, prunedTo }: StreamReport): string {
  const notes = [
    `${stream}: ${lines} lines in ${files} files`,
    ...(lastSeq === undefined ? [] : [`the last is seq ${lastSeq}`]),
    `${compared} checkpoints compared`,
    ...(linesBefore > 0 ? [`${linesBefore} lines from before the chain`] : []),
    ...(prunedTo === undefined ? [] : [`lines before seq ${prunedTo} were pruned`]),
  ];
  return notes.join(", ");
}

/** Returns the name of the stream in its checkpoints, and the lines that they cover. */
function coverage({ origin, covered, lastSeq = -1 }: StreamReport, hasKeys: boolean): readonly string[] {
  if (origin === undefined) return [];
  if (covered === undefined) return [`  origin ${origin}`];
  const { size, since } = covered;
  const last = Math.min(size - 1, lastSeq);
  return [
    `  origin ${origin}`,
    `  ${hasKeys ? "signed" : "checkpoints"} up to seq ${last}${last < lastSeq ? `, not yet: seq ${last + 1} to ${lastSeq}` : ""}`,
    `  seq 0 to ${since.size - 1} were there before the first checkpoint, in ${since.file}`,
  ];
}

/** `stc audit prove`: prints a proof that the log contains a call. */
export async function auditProve(id: string, { dir }: { readonly dir?: string | undefined }): Promise<void> {
  const directory = auditDirectory(dir);
  if (directory === undefined) return;
  reportErrors(EXIT.failed, () => print.json(prove(directory.dir, id), 2));
}

type VerifyProofOptions = Pick<AuditVerifyOptions, "key" | "json">;

/** `stc audit verify-proof`: checks a proof with the file and the public key, without the log. */
export async function auditVerifyProof(file: string, { key, json }: VerifyProofOptions): Promise<void> {
  if (key.length === 0) return wrongUsage("a proof is checked with the public key of the checkpoints: give --key FILE");
  reportErrors(UNREADABLE, () => {
    const proof = readProof(readFileSync(file, "utf8"));
    const verdict = checkProof(proof, key.map(readKey));
    if (!verdict.ok) process.exitCode = verdict.isSignature ? NOT_SIGNED : EXIT.failed;
    if (json === true) print.json(answer(proof, verdict));
    else if (verdict.ok) {
      const { size, origin } = verdict.checkpoint;
      print.line(`proved: seq ${proof.index} of 0 to ${size - 1} in ${origin}`);
      print.line(proof.line);
    } else print.error(`not proved: ${verdict.reason}`);
  });
}

function answer({ index }: Proof, verdict: ProofVerdict): object {
  if (!verdict.ok) return { ok: false, index, reason: verdict.reason };
  const { origin, size } = verdict.checkpoint;
  return { ok: true, index, origin, size };
}

interface AuditKeysOptions {
  readonly new?: string;
  readonly key?: string;
  readonly dir?: string;
}

/** `stc audit keys`: creates a key for `audit.checkpointKeyFile`, or prints the parts of a key that auditors need. */
export async function auditKeys({ new: fresh, key, dir }: AuditKeysOptions): Promise<void> {
  if ((fresh === undefined) === (key === undefined)) {
    return wrongUsage("give --new FILE to create a key, or --key FILE to print its public key");
  }
  const publicKey = key === undefined ? createKey(present(fresh, "the file of the new key")) : readPublicHalf(key);
  if (publicKey === undefined) return;
  reportChange(() => print.line(String(publicKey.export({ type: "spki", format: "pem" })).trimEnd()));
  if (dir !== undefined) await guarded(() => printVerifierKeys(dir, publicKey));
}

function readPublicHalf(file: string): KeyObject | undefined {
  try {
    const pem = readFileSync(file, "utf8");
    const key = createPublicKey(pem.includes("PRIVATE KEY") ? createPrivateKey(pem) : pem);
    if (key.asymmetricKeyType === "ed25519") return key;
    throw new Error("another kind of key");
  } catch (error) {
    const isFileProblem = error instanceof Error && "syscall" in error;
    print.error(isFileProblem ? error.message : `${file} does not contain an Ed25519 key in PEM`);
    process.exitCode = EXIT.noInput;
    return undefined;
  }
}

/** Returns undefined as `readPublicHalf` does. */
function createKey(file: string): KeyObject | undefined {
  try {
    return createSigningKey(file);
  } catch (error) {
    print.error(`cannot create ${file}: ${systemCode(error) === "EEXIST" ? "it exists already" : errorText(error)}`);
    process.exitCode = EXIT.cannotWrite;
    return undefined;
  }
}

/** Prints one verifier key for each stream, because a verifier key contains the name of its log. */
function printVerifierKeys(dir: string, publicKey: KeyObject): void {
  const directory = auditDirectory(dir);
  if (directory === undefined) return;
  const origins = new Set<string>();
  for (const log of directory.logs) {
    for (const { checkpoint } of eachNote(log.dir)) if (checkpoint !== undefined) origins.add(checkpoint.origin);
  }
  for (const origin of origins) print.line(verifierKeyOf(origin, publicKey));
}
