import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Launchers } from "./launchers.ts";
import type { Orders } from "./orders.ts";
import type { ProbeReport } from "./probe.ts";

/** For a launcher to start, and to try everything. */
const TIMEOUT_MS = 10_000;
const CPU_SECONDS = 10;
const DATA_BYTES = 1_073_741_824;
/** Discard: nobody listens there, and no profile should name it. */
const UNLISTENED_PORTS = [9, 11, 13];

export type Trial = Pick<Orders, "grants" | "ports" | "filter">;

/**
 * Takes these rules upon a process and lets it try what must not work. Answers what is wrong with them, or nothing: then a child
 * under them is confined, on this machine, now.
 */
export async function confinementFault(
  launchers: Launchers,
  { grants, ports, filter }: Trial,
  token: string,
): Promise<string | undefined> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "safe-tool-call-canary-")));
  try {
    const canary = join(folder, "canary");
    writeFileSync(canary, "not to be read", { mode: 0o600 });
    const port = UNLISTENED_PORTS.find((other) => !ports.includes(other)) ?? 1;
    const act = { kind: "probe", canary, port, readable: process.execPath } as const;
    const readable = { path: process.execPath, access: "read" } as const;
    const rules = { grants: [...grants, readable], ports, filter };
    const child = launchers.launch({
      ...rules,
      token,
      parent: process.pid,
      cpuSeconds: CPU_SECONDS,
      dataBytes: DATA_BYTES,
      act,
    });
    const timer = setTimeout(() => child.kill("SIGKILL"), TIMEOUT_MS);
    const [told, complaint] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    clearTimeout(timer);
    await child.exited;
    return faultOf(told, complaint, filter.network);
  } catch (error) {
    return error instanceof Error ? error.message : "it could not be tried";
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function faultOf(told: string, complaint: string, wantsNetwork: boolean): string | undefined {
  if (told === "") return complaint.slice(complaint.indexOf(" ") + 1).slice(0, 256) || "it ended without a word";
  const { leaks, missing, network } = JSON.parse(told) as ProbeReport;
  if (leaks.length > 0) return `it lets through: ${leaks.join(", ")}`;
  if (missing.length > 0) return `it refuses too much: ${missing.join(", ")}`;
  return network === wantsNetwork ? undefined : `sockets can${network ? "" : "not"} be made`;
}
