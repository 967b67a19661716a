import { readFileSync } from "node:fs";
import { AuditLogError } from "../../audit/audit-log-error.ts";
import { readPublicKey } from "../../audit/chain/signed-note.ts";
import { readDate } from "../../audit/query/time-range.ts";
import type { Damage } from "../../audit/verify/damage.ts";
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
import { errorText } from "../../core/error-text.ts";
import { print, StdoutError } from "../output.ts";
import { auditPlace, refuse } from "./directory.ts";

export interface AuditVerifyOptions {
  readonly dir?: string;
  /** Files with public keys (PEM), or verifier keys. */
  readonly key: readonly string[];
  readonly from?: string;
  readonly to?: string;
  readonly json?: boolean;
}

/** A part of the log, or a key, cannot be read. */
const UNREADABLE = 5;
/** A key was given, but the log contains nothing to check with it. */
const NOT_SIGNED = 4;
const PER_CENT = 100;

/**
 * `stc audit verify`: reads the log and reports the first problem. Exit code: 0 sound; 1 tampered; 2 only an incomplete last
 * line; 3 lines missing; 4 not signed, or not by a given key; 5 unreadable; 64 wrong usage; 66 no directory.
 */
export function auditVerify({ dir, key, from, to, json }: AuditVerifyOptions): void {
  const place = auditPlace(dir);
  if (place === undefined) return;
  const wrong = [from, to].find((day) => day !== undefined && readDate(day) === undefined);
  if (wrong !== undefined) {
    refuse([`${wrong} is no day: write it as 2026-02-16`]);
    return;
  }
  if (from !== undefined && to !== undefined && from > to) {
    refuse(["--from must not be later than --to"]);
    return;
  }
  try {
    const keys = key.map(readKey);
    const report = verifyWithProgress({ dir: place.dir, keys, from, to });
    const isUnsigned = keys.length > 0 && !isSigned(report);
    const code = exitCodeOf(report);
    process.exitCode = code === 0 && isUnsigned ? NOT_SIGNED : code;
    const notRead = unreadNames(place.dir);
    if (json === true) print.json({ ok: process.exitCode === 0, ...report, isUnsigned, notRead });
    else for (const line of readable(report, { hasKeys: keys.length > 0, isUnsigned, notRead })) print.line(line);
  } catch (error) {
    if (error instanceof StdoutError) throw error;
    print.error(errorText(error));
    process.exitCode = UNREADABLE;
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

const UNCOMPARED = "pruned.jsonl does not hold what checkpoints are compared with: only the chain was checked";

function isUncompared(checkpoints: number): (stream: StreamReport) => boolean {
  return ({ prunedTo, compared, lines }) => prunedTo !== undefined && compared === 0 && lines > 0 && checkpoints > 0;
}

/** Returns whether the log is signed. A log without a chained line has nothing to sign. */
function isSigned({ streams, checkpoints }: VerifyReport): boolean {
  return checkpoints.checkpoints > 0 || streams.every(({ lastSeq }) => lastSeq === undefined);
}

interface Findings {
  readonly hasKeys: boolean;
  readonly isUnsigned: boolean;
  readonly notRead: readonly string[];
}

function readable(
  { streams, checkpoints }: VerifyReport,
  { hasKeys, isUnsigned, notRead }: Findings,
): readonly string[] {
  const signatures = hasKeys ? `${checkpoints.signed} signed` : "signatures not checked: give --key";
  const damages = [...streams.map(({ damage }) => damage), checkpoints.damage].filter((one) => one !== undefined);
  return [
    ...streams.map(summary),
    `checkpoints: ${checkpoints.checkpoints} (${signatures})`,
    ...(checkpoints.checkpoints === 0 ? ["note: without signed checkpoints the chain can be made anew unseen"] : []),
    ...streams.filter(isUncompared(checkpoints.checkpoints)).map(({ stream }) => `note: ${stream}: ${UNCOMPARED}`),
    ...notRead.map((name) => `note: ${name} is not a day's file: it was not read`),
    ...damages.map(sentence),
    ...(isUnsigned ? ["not signed: there is no checkpoint, so --key has nothing to check"] : []),
    damages.length === 0 && !isUnsigned ? "ok" : "NOT SOUND",
  ];
}

function summary({ stream, files, lines, linesBefore, lastSeq, compared, prunedTo }: StreamReport): string {
  const notes = [
    `${stream}: ${lines} lines in ${files} files`,
    ...(lastSeq === undefined ? [] : [`the last is ${lastSeq}`]),
    `${compared} checkpoints compared`,
    ...(linesBefore > 0 ? [`${linesBefore} lines from before the chain`] : []),
    ...(prunedTo === undefined ? [] : [`those before ${prunedTo} were pruned`]),
  ];
  return notes.join(", ");
}

function sentence({ kind, file, line, seq, message }: Damage): string {
  return `${kind}: ${file}, line ${line}${seq === undefined ? "" : ` (seq ${seq})`}: ${message}`;
}
