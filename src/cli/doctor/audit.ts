import { createPublicKey } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { DEAD_LETTERS_BYTES_MAX } from "../../audit/export/exporter.ts";
import { readBacklog } from "../../audit/export/unsent.ts";
import type { LogState } from "../../audit/log-state.ts";
import type { LogFolder } from "../../audit/logs.ts";
import { damageText } from "../../audit/verify/damage.ts";
import { bytesToVerify, isSound, verifyInSteps } from "../../audit/verify/verify.ts";
import type { EpochMs } from "../../core/types.ts";
import { type Check, type CheckFinding, configured, failed, notApplicable, ok, warning } from "./check.ts";
import type { Deployment } from "./deployment.ts";

const SECOND_MS = 1_000;
/** Lines are covered by a checkpoint within seconds. */
const UNCOVERED_MS_MAX = 60_000;
/** More is not verified here: it would take longer than a check may. */
const VERIFIED_BYTES_MAX = 100_000_000;
const VERIFY = "Run stc audit verify --key PUBLIC. docs/audit.md#when-the-service-refuses-to-start";

export interface KnownLog extends LogFolder, LogState {}

export const auditLog: Check = configured("audit log", async (_, deployment) => {
  const logs = await deployment.audit();
  const written = logs.filter(({ newestDay }) => newestDay !== undefined);
  if (written.length === 0) return notApplicable("there are no lines yet");
  const { parts } = (await deployment.parts()) ?? {};
  const keys = parts?.checkpointKey === undefined ? [] : [createPublicKey(parts.checkpointKey)];
  const findings: CheckFinding[] = [];
  for (const log of written) {
    findings.push(...stateOf(log, deployment.now()), ...(await verified(log, keys)));
  }
  return findings;
});

type PublicKeys = Parameters<typeof verifyInSteps>[0]["keys"];

function nameOf({ name, dir }: LogFolder): string {
  return name === "" ? dir : name;
}

function stateOf(log: KnownLog, nowMs: EpochMs): readonly CheckFinding[] {
  const ageMs = nowMs - (log.lastLineMs ?? nowMs);
  const writer = log.writer === undefined ? "no process seen here writes it" : `written by ${processText(log.writer)}`;
  const seen = `${nameOf(log)}: ${writer}, last line ${ageText(ageMs)} ago`;
  if (log.uncovered === 0 || ageMs < UNCOVERED_MS_MAX) return [ok(seen)];
  const next =
    log.writer === undefined
      ? "If no service of another container writes them, a crash left them: the next start signs them."
      : "Look for the cause in the service's log: its folder checkpoints must be writable.";
  return [warning(`${seen}; no checkpoint covers its last ${log.uncovered} lines`, next)];
}

/** Returns the name of a process, which may be one of another machine. */
export function processText(pid: number): string {
  return pid === 0 ? "a process of another machine" : `process ${pid}`;
}

/** Verifies the newest day, in steps, so that the other checks go on. */
async function verified(log: KnownLog, keys: PublicKeys): Promise<readonly CheckFinding[]> {
  const part = { dir: log.dir, keys, from: log.newestDay };
  if (bytesToVerify(part) > VERIFIED_BYTES_MAX) {
    return [ok(`${nameOf(log)}: the newest day is too large to be verified here: run stc audit verify`)];
  }
  const steps = verifyInSteps(part);
  for (;;) {
    const step = steps.next();
    if (step.done === true) {
      const { streams, checkpoints } = step.value.report;
      if (isSound(step.value.report)) return [ok(`${nameOf(log)}: the lines since ${log.newestDay} verify`)];
      return [...streams, checkpoints].flatMap(({ damage }) =>
        damage === undefined ? [] : [failed(`${nameOf(log)}: ${damageText(damage)}`, VERIFY)],
      );
    }
    await setImmediate();
  }
}

function ageText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / SECOND_MS));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.round(hours / 24)} days`;
}

/** As the alerts: behind for longer than this is more than a pause of the receiver. */
const BEHIND_SECONDS_MAX = 900;
const SLOW_SECONDS = 60;
const DEAD_PART_MAX = 0.9;
const BEHIND = "docs/runbooks.md#safetoolcallexportbehind";
const REFUSED = "docs/runbooks.md#safetoolcallexportrefused";

export const exportBacklog: Check = configured("export backlog", async (config, deployment) => {
  const names = config.audit.export.map(({ name }) => name);
  if (names.length === 0) return notApplicable("audit.export names no receiver");
  const logs = (await deployment.audit()).filter(({ newestDay }) => newestDay !== undefined);
  const findings = logs.flatMap((log) => names.flatMap((name) => backlogOf(name, log, deployment)));
  return findings.length > 0 ? findings : [ok(`everything was sent to ${names.join(", ")}`)];
});

function backlogOf(exporter: string, log: KnownLog, { now }: Deployment): readonly CheckFinding[] {
  const { streams, deadBytes } = readBacklog(log.dir, exporter, now());
  const at = `${exporter}: ${nameOf(log)}`;
  const behind = streams.flatMap(({ stream, bytesBehind, secondsBehind }) => {
    // Checkpoints hold no time: the day of each is all that is known.
    if (stream === "checkpoints" || secondsBehind < SLOW_SECONDS) return [];
    const seen = `${at}: ${bytesBehind} bytes of ${stream} were not sent, the oldest of ${ageText(secondsBehind * SECOND_MS)} ago`;
    if (log.writer === undefined) return [warning(seen, "The service sends them when it runs.")];
    return [(secondsBehind > BEHIND_SECONDS_MAX ? failed : warning)(seen, `See the check exporters. ${BEHIND}`)];
  });
  return [...behind, ...deadLetters(at, exporter, deadBytes)];
}

function deadLetters(at: string, exporter: string, bytes: number): readonly CheckFinding[] {
  if (bytes === 0) return [];
  const seen = `${at}: the receiver has refused lines for good (export/${exporter}.dead.jsonl, ${bytes} bytes)`;
  if (bytes < DEAD_PART_MAX * DEAD_LETTERS_BYTES_MAX)
    return [warning(seen, `Correct the cause, and send them by hand. ${REFUSED}`)];
  const next = `Correct the cause, then move the file away: the exporter stops when it is full. ${REFUSED}`;
  return [failed(`${seen} and the file is nearly full`, next)];
}
