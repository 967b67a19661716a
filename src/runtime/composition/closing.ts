import type { Approvals } from "../../approvals/types.ts";
import type { AuditLog } from "../../audit/json-logger.ts";
import type { Admission } from "../../pipeline/admission.ts";
import type { WaitingRoom } from "../../pipeline/waiting-room.ts";
import type { startExports } from "./exports.ts";
import type { Recording } from "./recording.ts";
import type { Tracing } from "./telemetry.ts";

const POLL_MS = 20;

interface Closing {
  readonly audit: AuditLog;
  readonly approvals: Approvals | undefined;
  readonly close: () => Promise<void>;
  readonly monotonic: () => number;
  readonly admission: Admission;
  readonly waitingRoom: WaitingRoom;
  readonly exporters: ReturnType<typeof startExports>;
  readonly tracing: Tracing;
  readonly recording: Recording;
}

/** Nobody comes in; whoever waits for a person goes with what they have; the rest has its time; the audit is closed last. */
export async function closeAll(
  { admission, recording, waitingRoom, approvals, audit, exporters, tracing, close, monotonic }: Closing,
  graceMs: number,
): Promise<void> {
  admission.drain();
  waitingRoom.empty();
  await idle(admission, monotonic, graceMs);
  recording.trails.shutDown();
  await close();
  await idle(admission, monotonic, graceMs);
  await recording.stop();
  await approvals?.close();
  await Promise.all([exporters.stop(), tracing.close()]);
  await audit.journal({ type: "service.stopped" }).catch(() => {});
  await audit.close();
}

async function idle(admission: Admission, monotonic: () => number, graceMs: number): Promise<void> {
  const until = monotonic() + graceMs;
  while (admission.inFlight() > 0 && monotonic() < until) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
}
