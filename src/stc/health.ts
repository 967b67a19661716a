import { processEnvironment } from "../config/file.ts";
import { EXIT, noAddress, noAnswer, over, wayTo, wrongUsage } from "./client.ts";
import { clientTls, type TlsFileOptions } from "./client-tls.ts";
import { print } from "./output.ts";

const TIMEOUT_MS = 2_000;
const PORT = "8787";

export interface HealthCommandOptions extends TlsFileOptions {
  readonly url?: string;
  /** Whether it takes calls, not only whether it lives. */
  readonly ready?: boolean;
}

/** `stc health`: for images that hold no other client. Exit 0 when the service is well, 1 when it says no, 2 when nobody answers. */
export async function health({ url, ready, ...files }: HealthCommandOptions): Promise<void> {
  const environment = processEnvironment();
  const tls = clientTls(files, environment);
  if (typeof tls === "string") return wrongUsage(tls);
  const base = url ?? (environment["STC_URL"] || `http://127.0.0.1:${environment["STC_PORT"] || PORT}`);
  const way = wayTo(base);
  if (!URL.canParse(way.base)) return wrongUsage(noAddress(base));
  try {
    const place = new URL(ready === true ? "/readyz" : "/healthz", way.base);
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const { ok, status } = await fetch(place, { ...over(way, tls.read()), signal, redirect: "error" });
    if (ok) return;
    print.error(`the service answered ${status}`);
    process.exitCode = EXIT.refused;
  } catch (error) {
    print.error(noAnswer(base, error));
    process.exitCode = EXIT.unreachable;
  }
}
