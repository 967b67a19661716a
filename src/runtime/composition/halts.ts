import { join } from "node:path";
import type { AuditLog } from "../../audit/audit-log.ts";
import type { StateOperations } from "../../database/operations.ts";
import { haltFile } from "../../halts/file.ts";
import type { HaltTarget } from "../../halts/halt.ts";
import { Halts } from "../../halts/halts.ts";
import type { CallRecords } from "../../pipeline/call-record.ts";
import type { Registry } from "../../pipeline/registry.ts";
import type { WaitingRoom } from "../../pipeline/waiting-room.ts";
import type { Config } from "../config/config.ts";
import type { Capabilities, Hooks } from "./hooks.ts";
import { logDirOf } from "./instance.ts";

/** In the folder of the log, which belongs to this process alone. */
const FILE = "halts.json";

interface HaltParts extends Pick<Capabilities, "clock" | "monotonic">, Pick<Hooks, "logError" | "serviceHalts"> {
  readonly state: StateOperations;
  readonly journal: AuditLog["journal"];
  readonly newId: () => string;
  readonly registry: Registry;
}

/** Returns the halts, which are read when they start. */
export function openHalts(config: Config, { logError = () => {}, registry, ...parts }: HaltParts): Halts {
  const file = parts.state.scope === "shared" ? haltFile(join(logDirOf(config), FILE)) : undefined;
  const { whenUnknown } = config.halts;
  return new Halts({ ...parts, file, log: logError, whenUnknown, knows: (target) => isKnown(target, registry) });
}

function isKnown({ kind, value }: HaltTarget, registry: Registry): boolean {
  if (kind === "tool") return registry.find(value).registered?.tool.name === value;
  return kind !== "system" || registry.list().some(({ tool }) => tool.target.system === value);
}

/** Ends the calls that a new halt stops: those that wait, those that have not started, and running ones if the halt says so. */
export function endHaltedCalls(
  halts: Halts,
  { callRecords, waitingRoom }: { readonly callRecords: CallRecords; readonly waitingRoom: WaitingRoom },
): void {
  halts.listen((added, cancelling) => {
    waitingRoom.halt(added);
    callRecords.halt((call, isRunning) => (isRunning ? cancelling : added)(call));
  });
}
