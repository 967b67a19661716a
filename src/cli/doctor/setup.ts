import { readFileSync } from "node:fs";
import { engines } from "../../../package.json";
import type { ConfinementShown } from "../../core/target-kind.ts";
import { memoryGroup } from "../../targets/command/command-memory.ts";
import { type Check, type CheckFinding, configured, failed, notApplicable, ok, warning } from "./check.ts";

/** Loading manifests may connect to systems, start MCP servers, and confine a process. */
const LOAD_LIMIT_MS = 30_000;
const INVALID = notApplicable("the configuration is invalid");

export const configuration: Check = {
  name: "configuration",
  timeLimitMs: LOAD_LIMIT_MS,
  async run({ config, problems, parts }) {
    const all = [...problems, ...((await parts())?.problems ?? [])];
    if (all.length === 0) return [ok(config?.origin ?? "")];
    const next = "Correct it, and try stc check. docs/troubleshooting.md#the-service-does-not-start";
    return all.map((problem) => failed(problem, next));
  },
};

export const tools: Check = {
  name: "tools",
  timeLimitMs: LOAD_LIMIT_MS,
  async run(deployment) {
    const { parts } = (await deployment.parts()) ?? {};
    if (parts === undefined) return INVALID;
    const { registry, loaded, report } = parts;
    const quarantined = report.toolNotes.filter(({ isQuarantine }) => isQuarantine === true);
    return [
      ok(`offered: ${registry.list().length}`),
      ...loaded.notRegistered.map((reason) => warning(reason, "docs/troubleshooting.md#a-tool-is-missing")),
      ...quarantined.map(({ tool, message }) =>
        failed(`tool ${tool}: ${message}`, "docs/runbooks.md#safetoolcalltoolsquarantined"),
      ),
    ];
  },
};

export const confinement: Check = {
  name: "confinement",
  timeLimitMs: LOAD_LIMIT_MS,
  async run(deployment) {
    const { parts } = (await deployment.parts()) ?? {};
    if (parts === undefined) return INVALID;
    const shown = parts.targets.confinement();
    return shown === undefined ? notApplicable("no tool starts a command") : confinementFindings(shown);
  },
};

function confinementFindings({ mode, tools: levels, faults }: ConfinementShown): readonly CheckFinding[] {
  const names = Object.keys(levels);
  const confined = names.filter((tool) => levels[tool] === "confined");
  const next = "The kernel needs Landlock, and the container must allow it. docs/confinement.md";
  return [
    ...(confined.length > 0 ? [ok(`run confined: ${confined.join(", ")} (commands.confinement: ${mode})`)] : []),
    ...names
      .filter((tool) => levels[tool] !== "confined")
      .map((tool) =>
        warning(`tool ${tool} runs unconfined: ${faults[tool] ?? `commands.confinement is ${mode}`}`, next),
      ),
    ...Object.entries(faults)
      .filter(([tool]) => levels[tool] === undefined)
      .map(([tool, fault]) => failed(`tool ${tool} is not offered: ${fault}`, next)),
  ];
}

const MEBIBYTE = 1_048_576;
/** Half of what the chart gives to each process. */
const MEMORY_MIN = 256 * MEBIBYTE;
const MEMORY_PART_MAX = 0.9;
const FILES_MIN = 1_024;
const OPEN_FILES = /^Max open files\s+\S+\s+(\S+)/m;

export const environment: Check = configured("environment", ({ server, limits }) => {
  const processes = server.workers === 1 ? 1 : server.workers + 1;
  return [bunFinding(), ...memoryFindings(processes), ...fileLimitFindings(limits.connectionsMax)];
});

function bunFinding(): CheckFinding {
  if (Bun.version === engines.bun) return ok(`Bun ${Bun.version}`);
  return warning(
    `Bun ${Bun.version}, and this release was tested with ${engines.bun}`,
    "Install that version. docs/install.md",
  );
}

function memoryFindings(processes: number): readonly CheckFinding[] {
  const group = memoryGroup();
  if (group === undefined) return [ok("no memory limit")];
  const { bytesMax } = group;
  const used = group.usedBytes() ?? 0;
  const seen = `${Math.floor(used / MEBIBYTE)} of ${Math.floor(bytesMax / MEBIBYTE)} MiB of memory are in use`;
  const next = "Raise the memory limit: at the limit the kernel ends the service. docs/runbooks.md#safetoolcallmemory";
  if (bytesMax < MEMORY_MIN * processes) return [warning(`${seen}, by ${processes} processes of the service`, next)];
  return [used > MEMORY_PART_MAX * bytesMax ? warning(seen, next) : ok(seen)];
}

/** The runtime raises its limit to the hard one. */
function fileLimitFindings(connectionsMax: number): readonly CheckFinding[] {
  const [, written] = OPEN_FILES.exec(readLimits()) ?? [];
  if (written === undefined) return [];
  const limit = written === "unlimited" ? Number.POSITIVE_INFINITY : Number(written);
  if (limit >= connectionsMax) return [ok(`${written} files may be open`)];
  const seen = `${written} files may be open, and limits.connectionsMax is ${connectionsMax}`;
  return [
    (limit < FILES_MIN ? failed : warning)(seen, "Raise the limit (ulimit -Hn, LimitNOFILE), or lower connectionsMax."),
  ];
}

function readLimits(): string {
  try {
    return readFileSync("/proc/self/limits", "latin1");
  } catch {
    return "";
  }
}
