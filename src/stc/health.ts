import { processEnvironment } from "../config/file.ts";
import { EXIT, wayTo } from "./client.ts";
import { print } from "./output.ts";

const TIMEOUT_MS = 2_000;
const PORT = "8787";

export interface HealthCommandOptions {
  readonly url?: string;
  /** Whether it takes calls, not only whether it lives. */
  readonly ready?: boolean;
}

/** `stc health`: for images that hold no other client. Exit 0 when the service is well, 1 when it says no, 2 when nobody answers. */
export async function health({ url, ready }: HealthCommandOptions): Promise<void> {
  const environment = processEnvironment();
  const base = url ?? (environment["STC_URL"] || `http://127.0.0.1:${environment["STC_PORT"] || PORT}`);
  try {
    const { base: origin, ...over } = wayTo(base);
    const place = new URL(ready === true ? "/readyz" : "/healthz", origin);
    const { ok, status } = await fetch(place, { ...over, signal: AbortSignal.timeout(TIMEOUT_MS), redirect: "error" });
    if (ok) return;
    print.error(`the service answered ${status}`);
    process.exitCode = EXIT.refused;
  } catch {
    print.error(`no answer from ${base}`);
    process.exitCode = EXIT.unreachable;
  }
}
