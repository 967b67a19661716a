import { MODULES } from "../../modules.ts";
import { exportProbes, reviewProbes } from "../../runtime/composition/connections.ts";
import { type Check, type CheckFinding, configured, failed, notApplicable, ok, warning } from "./check.ts";
import { answersOf, type Clock, type Deployment, type ProbeAnswer } from "./deployment.ts";

const KEYS_RUNBOOK = "docs/runbooks.md#safetoolcallkeysunavailable";
const STORE_RUNBOOK = "docs/runbooks.md#safetoolcallapprovalsunavailable";
const EXPORT_RUNBOOK = "docs/runbooks.md#safetoolcallexportbehind";

function reached(answers: readonly ProbeAnswer[], next: string): readonly CheckFinding[] {
  return answers.map(({ field, name, problem }) =>
    problem === undefined ? ok(`${field}: ${name} answers`) : failed(`${field}: ${problem}`, next),
  );
}

export const issuers: Check = configured("issuers", async (_, deployment) => {
  const answers = await deployment.issuers();
  if (answers.length === 0) return notApplicable("no issuer's keys are fetched");
  return reached(answers, `Restore the way to the keys: DNS, network policies, caFile. ${KEYS_RUNBOOK}`);
});

export const tokenReview: Check = configured("token review", async (config, { now }) => {
  const answers = await answersOf(reviewProbes(config, MODULES), now);
  if (answers.length === 0) return notApplicable("no issuer has tokenReview");
  return reached(
    answers,
    "Bind the service's account to system:auth-delegator, and see caFile and tokenFile. docs/identity.md",
  );
});

export const exporters: Check = configured("exporters", async (config, { now }) => {
  const answers = await answersOf(exportProbes(config, MODULES, now), now);
  if (answers.length === 0) return notApplicable("audit.export names no receiver");
  return reached(answers, `Restore the receiver. Lines wait on the disk. ${EXPORT_RUNBOOK}`);
});

type StoreFacts = NonNullable<Awaited<ReturnType<Deployment["database"]>>>;

/** Connections that each process of a replica opens. */
const CONNECTIONS_MIN = 8;
const SLOW_MS = 50;

export const database: Check = configured("database", async (config, deployment) => {
  let facts: Awaited<ReturnType<Deployment["database"]>>;
  try {
    facts = await deployment.database();
  } catch (error) {
    return [failed(error instanceof Error ? error.message : "it cannot be used", `Restore it. ${STORE_RUNBOOK}`)];
  }
  if (facts === undefined) return notApplicable("approvals.store and approvals.storeUrlFile are not set");
  return [...tableFindings(facts), ...serverFindings(facts, config.server.workers), ...fileFindings(facts)];
});

function tableFindings({ version, latest }: StoreFacts): readonly CheckFinding[] {
  if (version === 0) return [ok("there are no tables yet: the first start makes them")];
  if (version < latest) return [ok(`tables of version ${version}: the next start makes ${latest} of them`)];
  if (version === latest) return [ok(`tables of version ${version}`)];
  const next = "This release can use them. Finish the upgrade, or the way back. docs/compatibility.md";
  return [warning(`tables of version ${version}, and this release knows ${latest}`, next)];
}

function serverFindings({ server }: StoreFacts, workers: number): readonly CheckFinding[] {
  if (server === undefined) return [];
  const { release, roundTripMs, connectionsLeft, isEncrypted, isPooled } = server;
  const processes = workers === 1 ? 1 : workers + 1;
  const needed = CONNECTIONS_MIN * processes;
  const facts = [
    `PostgreSQL ${release}`,
    `a question takes ${Math.ceil(roundTripMs)} ms`,
    `${connectionsLeft} connections are left`,
    isEncrypted ? "with TLS" : "without TLS",
    ...(isPooled ? ["through a pooler (pgbouncer=true)"] : []),
  ];
  return [
    ok(facts.join(", ")),
    ...(roundTripMs > SLOW_MS
      ? [
          warning(
            `a question takes ${Math.ceil(roundTripMs)} ms: each approval asks several`,
            "Put the database closer.",
          ),
        ]
      : []),
    ...(connectionsLeft < needed && !isPooled
      ? [
          warning(
            `a start of this service needs up to ${needed} connections`,
            "Raise max_connections, or use a pooler. docs/approvals.md",
          ),
        ]
      : []),
  ];
}

function fileFindings({ file, version }: StoreFacts): readonly CheckFinding[] {
  if (file === undefined) return [];
  const checked = file.isChecked ? "its quick check found no damage" : "too large for a quick check here";
  const { journalMode = "wal" } = file;
  if (version === 0 || journalMode === "wal") return [ok(`SQLite, ${checked}`)];
  return [warning(`SQLite in the journal mode ${journalMode}, ${checked}`, "The next start sets the mode wal.")];
}

const CLOCK_NEXT =
  "Set this machine's clock, or the other one, by NTP: tokens seem expired or not yet valid. docs/troubleshooting.md#401-the-token-is-refused";
const MS_PER_SECOND = 1_000;

export const clocks: Check = configured("clocks", async (config, deployment) => {
  const [answers, service, server] = await Promise.all([
    deployment.issuers(),
    deployment.service(),
    deployment.database().then(
      (facts) => facts?.server,
      () => undefined,
    ),
  ]);
  const compared: readonly (readonly [string, Clock | undefined])[] = [
    ...answers.map(({ name, clock }) => [name, clock] as const),
    ["the database", server && { aheadMsMin: server.aheadMs, aheadMsMax: server.aheadMs }],
    ["the service", typeof service === "string" ? undefined : service.clock],
  ];
  const toleranceMs = Math.min(...config.jwt.issuers.map((issuer) => issuer.clockToleranceSeconds)) * MS_PER_SECOND;
  const findings = compared.flatMap(([name, clock]) =>
    clock === undefined ? [] : [clockFinding(name, clock, toleranceMs)],
  );
  return findings.length > 0 ? findings : notApplicable("no database server, issuer or service tells its time");
});

function clockFinding(name: string, { aheadMsMin, aheadMsMax }: Clock, toleranceMs: number): CheckFinding {
  const offMs = Math.max(0, aheadMsMin, -aheadMsMax);
  const seconds = (offMs / MS_PER_SECOND).toFixed(1);
  const seen = `${name}: ${seconds} s ${aheadMsMin > 0 ? "ahead of" : "behind"} this machine`;
  if (offMs > toleranceMs) {
    return failed(`${seen}; clockToleranceSeconds allows ${toleranceMs / MS_PER_SECOND}`, CLOCK_NEXT);
  }
  if (offMs > toleranceMs / 2 && offMs > MS_PER_SECOND) return warning(seen, CLOCK_NEXT);
  return ok(offMs < MS_PER_SECOND ? `${name}: less than 1 s off` : seen);
}
