import { isTable } from "../../core/json.ts";
import { processText } from "./audit.ts";
import { type Check, type CheckFinding, failed, notApplicable, ok, warning } from "./check.ts";
import type { Deployment, ReadinessAnswer } from "./deployment.ts";

/** Why calls are refused at `/readyz`, with what helps. */
const REASONS: Readonly<Record<string, string>> = {
  audit_unavailable: "docs/runbooks.md#safetoolcallauditunavailable",
  workers_unavailable: "docs/runbooks.md#safetoolcallworkersreplaced",
  draining: "It is ending.",
  shutting_down: "It is ending.",
};
const OK_STATUS = 200;
const NOT_READY = 503;

export const service: Check = {
  name: "service",
  async run(deployment) {
    const answer = await deployment.service();
    if (typeof answer === "string") return notRunning(answer, deployment);
    const { url, status, state } = answer;
    if (status === OK_STATUS) return [ok(`${url}: ready`), ...refusedReload(state), ...unhealthySystems(state)];
    if (status !== NOT_READY) {
      return [failed(`${url}: /readyz answers ${status}`, "Is it this service, and does the token have metrics:read?")];
    }
    const reasons = Array.isArray(state["reasons"]) ? state["reasons"].map(String) : ["no reason"];
    return reasons.map((reason) =>
      failed(`${url}: not ready: ${reason}`, REASONS[reason] ?? "docs/runbooks.md#safetoolcallnotready"),
    );
  },
};

/** A service that has its log open and does not answer is broken; without one, nothing that is visible here runs. */
async function notRunning(why: string, deployment: Deployment): Promise<readonly CheckFinding[]> {
  const writer = (await deployment.audit()).find((log) => log.writer !== undefined)?.writer;
  if (writer === undefined) return notApplicable(`no service runs here: ${why}`);
  const next = "See its log. Under another address or TLS, give --url. docs/runbooks.md#safetoolcalldown";
  return [failed(`${why}, and ${processText(writer)} has the audit log open`, next)];
}

function refusedReload({ configuration }: ReadinessAnswer["state"]): readonly CheckFinding[] {
  const refused = isTable(configuration) ? configuration["lastRefused"] : undefined;
  if (!isTable(refused)) return [];
  return [
    warning(
      "the last reload was refused: the former configuration is in use",
      "docs/runbooks.md#safetoolcallreloadrefused",
    ),
  ];
}

function unhealthySystems({ systems }: ReadinessAnswer["state"]): readonly CheckFinding[] {
  if (!isTable(systems)) return [];
  return Object.entries(systems).flatMap(([name, system]) => {
    const { state, circuit } = isTable(system) ? system : {};
    if (circuit !== "open" && state !== "failed" && state !== "TRANSIENT_FAILURE") return [];
    const seen = `system ${name}: ${circuit === "open" ? "fails so often that it is not called for a while" : "does not answer"}`;
    return [failed(seen, "docs/runbooks.md#safetoolcalltargetunavailable")];
  });
}

/** Declares a check of what `/readyz` says to holders of a token. */
function ofService(name: string, run: (state: ReadinessAnswer["state"]) => readonly CheckFinding[]): Check {
  return {
    name,
    async run(deployment) {
      const answer = await deployment.service();
      if (typeof answer === "string") return notApplicable("no service answers");
      const hasDetails = "audit" in answer.state;
      return hasDetails ? run(answer.state) : notApplicable("needs --token-file with an operator's metrics:read");
    },
  };
}

export const halts: Check = ofService("halts", ({ halts: state }) => {
  const { status, active } = isTable(state) ? state : {};
  if (status !== "ok") {
    return [failed(`the halts cannot be read (${String(status)})`, "docs/runbooks.md#safetoolcallhaltsunknown")];
  }
  if (active === 0) return [ok("none in force")];
  return [
    warning(
      `${String(active)} in force: the calls that they name are refused`,
      "stc halts shows them. docs/limits.md#halt-calls",
    ),
  ];
});

export const workers: Check = ofService("workers", ({ workers: all }) => {
  if (!Array.isArray(all)) return notApplicable("the service has one process");
  const missing = all.filter((worker) => !isTable(worker) || worker["status"] !== "ready");
  if (missing.length === 0) return [ok(`${all.length} are ready`)];
  return [failed(`${missing.length} of ${all.length} are not ready`, "docs/runbooks.md#safetoolcallworkersreplaced")];
});

export const decisionPoints: Check = ofService("decision points", ({ decisionPoints: points }) => {
  if (!Array.isArray(points)) return notApplicable("the configuration names none");
  return points.filter(isTable).map(({ name, circuit, lastError }) => {
    const next = "docs/runbooks.md#safetoolcalldecisionpointaway";
    if (circuit === "open") return failed(`${String(name)}: fails so often that it is not asked for a while`, next);
    if (isTable(lastError)) return warning(`${String(name)}: its last error: ${String(lastError["reason"])}`, next);
    return ok(`${String(name)}: no error since the start`);
  });
});
