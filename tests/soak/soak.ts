import { parseArgs } from "node:util";
import { runStc, SIGNATURES_NOT_CHECKED } from "../support/stc.ts";
import { Disturbances } from "./disturbances.ts";
import { Stand } from "./stand.ts";
import { type Circumstances, Traffic } from "./traffic.ts";
import { type Sample, sample, trendOf } from "./trends.ts";

/**
 * The service under load for a long time, while all that may happen to it does: tools that fail, tokens and certificates
 * that are exchanged, configurations that change and are broken, a gRPC service that comes and goes. Ends with 1 when an
 * answer has no explanation, memory or descriptors grow, the audit does not verify, or an end loses an answer.
 */
const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    /** Of what the service can do here. */
    share: { type: "string", default: "0.7" },
    /** Of memory between the second and the last quarter. A run of a minute is still warming up. */
    growth: { type: "string", default: "1.15" },
    /** Durability of the audit. With `write`, no answer waits for the disk, which other programs may keep busy. */
    durability: { type: "string", default: "fdatasync" },
  },
});
const RUN_MS = Number(values.minutes) * 60_000;
const SHARE = Number(values.share);
const WARM_MS = 3_000;
const MEASURE_MS = Math.min(10_000, RUN_MS / 6);
const SAMPLE_MS = 1_000;
const CALLERS = 48;
const GROWTH_MAX = Number(values.growth);
const DESCRIPTORS_GROWTH_MAX = 16;
/** Most processor time of a restart after `kill -9`, as a multiple of the first start of the same run. */
const RESTART_FACTOR_MAX = 4;
/** Strangers are summed up by the minute; a sum that is not written yet goes with the process that is killed. */
const SUM_MS = 71_000;

interface Finding {
  readonly what: string;
  readonly seen: string;
  readonly isGood: boolean;
}

const stand = await Stand.make(values.durability);
const findings: Finding[] = [];
const find = (what: string, seen: string | number, isGood: boolean): void => {
  findings.push({ what, seen: String(seen), isGood });
};

try {
  await soak();
} finally {
  await stand.remove();
}
for (const { what, seen, isGood } of findings) console.log(`${isGood ? "ok  " : "FAIL"} ${what.padEnd(52)} ${seen}`);
process.exit(findings.every(({ isGood }) => isGood) ? 0 : 1);

async function soak(): Promise<void> {
  const firstStart = await stand.startService();
  const circumstances: Circumstances = { targetAway: false, keysNew: false, ending: false };
  const traffic = new Traffic({
    url: () => stand.url,
    token: (sub, permissions) => stand.token(sub, permissions),
    circumstances,
    callers: CALLERS,
  });
  traffic.start();
  await Bun.sleep(WARM_MS);
  const capacity = await rate(traffic, MEASURE_MS);
  traffic.pace(capacity * SHARE);
  console.log(`capacity ${Math.round(capacity)} calls/s here; soaking at ${Math.round(capacity * SHARE)}`);

  const disturbances = new Disturbances(stand, circumstances, RUN_MS);
  const samples: Sample[] = [];
  const until = performance.now() + RUN_MS;
  while (performance.now() < until) {
    await Bun.sleep(SAMPLE_MS);
    samples.push(sample(stand.pid));
  }
  await disturbances.end();

  const summed = traffic.strangers(SUM_MS);
  await killedAndStarted(circumstances, firstStart);
  await ended(circumstances);
  await traffic.stop();
  judge(traffic, samples);
  find("disturbances", disturbances.told(), disturbances.count > 0);
  const [changed, refused] = [stand.reloads("changed"), stand.reloads("refused")];
  const isTold = disturbances.missing.length === 0 && changed > 0 && refused > 0;
  const told = [`${changed} taken over, ${refused} refused`, ...disturbances.missing].join("; ");
  find("reloads in the journal", told, isTold);
  const verified = await runStc(["audit", "verify", "--dir", stand.auditDir]);
  const stats = await runStc(["audit", "stats", "--dir", stand.auditDir, "--json"]);
  const { calls } = JSON.parse(stats.out) as { calls: number };
  // A call whose answer was lost may have its line all the same.
  const { answered, lost } = traffic;
  const isWhole = calls >= answered - summed && calls <= answered + lost;
  find("calls in the audit", `${calls}, answered ${answered} (strangers last ${summed}), unanswered ${lost}`, isWhole);
  const isUndamaged = verified.code === SIGNATURES_NOT_CHECKED;
  find("the audit verifies", isUndamaged ? "yes" : verified.out + verified.err, isUndamaged);
}

async function rate(traffic: Traffic, ms: number): Promise<number> {
  const before = traffic.answered;
  await Bun.sleep(ms);
  return (traffic.answered - before) / (ms / 1_000);
}

/** `kill -9` under load, and the start after it. */
async function killedAndStarted(circumstances: Circumstances, firstStart: number): Promise<void> {
  circumstances.ending = true;
  await stand.endService("SIGKILL");
  const ms = await stand.startService();
  await Bun.sleep(WARM_MS);
  circumstances.ending = false;
  await Bun.sleep(WARM_MS);
  const seen = `${Math.round(ms)}, first start ${Math.round(firstStart)}`;
  find("ready again after kill -9, processor ms", seen, ms <= firstStart * RESTART_FACTOR_MAX);
}

/** SIGTERM under load. */
async function ended(circumstances: Circumstances): Promise<void> {
  circumstances.ending = true;
  const { code, ms } = await stand.endService("SIGTERM");
  find("SIGTERM under load: exit code", `${code} after ${Math.round(ms)} ms`, code === 0);
  find("nothing on stderr", stand.errors().trim() || "nothing", stand.errors().trim() === "");
}

function judge(traffic: Traffic, samples: readonly Sample[]): void {
  for (const [what, count] of [...traffic.answers].sort()) console.log(`     ${what.padEnd(52)} ${count}`);
  find("answers", traffic.answered, traffic.answered > 0);
  find("unexplained", traffic.unexplained.slice(0, 10).join("; ") || "none", traffic.unexplained.length === 0);
  const { early, late } = trendOf(samples);
  const growth = late.rssMb / early.rssMb;
  find(
    "memory, last quarter against second",
    `${growth.toFixed(2)} (${Math.round(late.rssMb)} MB)`,
    growth <= GROWTH_MAX,
  );
  const more = late.descriptors - early.descriptors;
  find("descriptors, the same", `${early.descriptors} → ${late.descriptors}`, more <= DESCRIPTORS_GROWTH_MAX);
}
