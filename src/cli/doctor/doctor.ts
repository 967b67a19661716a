import { processEnvironment } from "../../runtime/config/environment.ts";
import { EXIT, isColoured, print, type StyledText } from "../output.ts";
import { type CheckFinding, type CheckResult, runChecks, STATUSES, type Status, worstFirst } from "./check.ts";
import { CHECKS, CHECKS_OF_TENANTS } from "./checks.ts";
import { type DeploymentOptions, deploymentsOfTenants, openDeployment } from "./deployment.ts";

interface DoctorOptions extends DeploymentOptions {
  readonly json?: boolean;
}

/** `stc doctor`: says what is wrong with a deployment. */
export async function doctor({ json, ...options }: DoctorOptions): Promise<void> {
  const deployment = await openDeployment(options);
  const ofService = await runChecks(CHECKS, deployment);
  await deployment.close();
  const results = [...ofService];
  for (const { tenant, deployment: own } of deploymentsOfTenants(deployment, options)) {
    const found = await runChecks(CHECKS_OF_TENANTS, own);
    await own.close();
    for (const [index, result] of results.entries()) {
      results[index] = withTenant(result, tenant, found.find(({ name }) => name === result.name)?.findings ?? []);
    }
  }
  const isOk = results.every(({ status }) => status !== "failed");
  if (json === true) print.json({ ok: isOk, checks: results });
  else show(results);
  const isUnusable = results.some(({ name, status }) => name === "configuration" && status === "failed");
  if (!isOk) process.exitCode = isUnusable ? EXIT.configuration : EXIT.failed;
}

/** Adds what was found for a tenant and not for the service itself, with the tenant's name. */
function withTenant({ name, findings }: CheckResult, tenant: string, found: readonly CheckFinding[]): CheckResult {
  const isKnown = ({ seen }: CheckFinding): boolean => findings.some((known) => known.seen === seen);
  const named = (seen: string): string => (seen.includes(`tenants.${tenant}`) ? seen : `tenant ${tenant}: ${seen}`);
  const own = found
    .filter((finding) => finding.status !== "not applicable" && !isKnown(finding))
    .map((finding) => ({ ...finding, seen: named(finding.seen) }));
  const all = worstFirst([...findings.filter(({ status }) => own.length === 0 || status !== "not applicable"), ...own]);
  return { name, status: all[0]?.status ?? "ok", findings: all };
}

const STATUS_WIDTH = 9;
const NAME_WIDTH = 16;
const LINE_WIDTH = 80;
const TEXT_WIDTH = LINE_WIDTH - STATUS_WIDTH - NAME_WIDTH;

const SHOWN: Readonly<Record<Status, Required<Pick<StyledText, "text" | "colour">>>> = {
  failed: { text: "FAILED", colour: "red" },
  warning: { text: "warning", colour: "yellow" },
  ok: { text: "ok", colour: "green" },
  "not applicable": { text: "-", colour: undefined },
};

function show(results: readonly CheckResult[]): void {
  const hasColours = isColoured(processEnvironment());
  for (const { name, status, findings } of results) {
    const { text, colour } = SHOWN[status];
    const [first = "", ...more] = linesOf(findings, status);
    const head = { text: text.padEnd(STATUS_WIDTH), colour: hasColours ? colour : undefined };
    print.pieces([head, { text: `${name.padEnd(NAME_WIDTH)}${first}`.trimEnd() }]);
    for (const line of more) print.line(`${" ".repeat(STATUS_WIDTH + NAME_WIDTH)}${line}`);
  }
  print.line(`\n${summaryOf(results)}`);
}

/**
 * A finding that is not as bad as its check says so itself. What to do next is said once after several findings for which it is the
 * same.
 */
function linesOf(findings: readonly CheckFinding[], worst: Status): readonly string[] {
  return findings.flatMap(({ status, seen, next }, index) => {
    const isSaidLater = findings[index + 1]?.next === next;
    const advice = next === undefined || isSaidLater ? [] : wrapped(`-> ${next}`, "   ");
    return [...wrapped(status === worst ? seen : `${status}: ${seen}`), ...advice];
  });
}

function wrapped(text: string, indent = ""): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= TEXT_WIDTH) lines.push(`${lines.pop()} ${word}`);
    else lines.push(last === undefined ? word : `${indent}${word}`);
  }
  return lines;
}

function summaryOf(results: readonly CheckResult[]): string {
  return STATUSES.toReversed()
    .map((status) => `${status}: ${results.filter((result) => result.status === status).length}`)
    .join(", ");
}
