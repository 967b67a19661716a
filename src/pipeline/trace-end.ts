import type { EntryDraft } from "../audit/entry.ts";
import { REFUSALS } from "../core/errors.ts";
import type { Receipt } from "../core/evidence.ts";
import type { CallTrace, TraceEnding } from "../core/tracing.ts";

interface Recording {
  readonly entry: EntryDraft;
  readonly recording: Promise<Receipt>;
  /** The clock that the steps are timed with. */
  readonly monotonic: () => number;
}

const HTTP_OK = 200;

/** Waits for the line of the call and ends its trace; a call without a line ends as its answer will say. */
export async function endTrace(trace: CallTrace, { entry, recording, monotonic }: Recording): Promise<Receipt> {
  let receipt: Receipt;
  try {
    receipt = await recording;
  } catch (error) {
    const code = "AUDIT_UNAVAILABLE";
    const { stage, decision, http } = REFUSALS[code];
    end(trace, { call: { ...entry, decision, error: { code }, denial: { stage } }, http, at: monotonic() });
    throw error;
  }
  const http = entry.error === undefined ? HTTP_OK : REFUSALS[entry.error.code].http;
  end(trace, { call: entry, http, at: monotonic() });
  return receipt;
}

function end(trace: CallTrace, ending: TraceEnding): void {
  try {
    trace.end(ending);
  } catch {
    // A call that is on record is not refused because its trace is broken.
  }
}
