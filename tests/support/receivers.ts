import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { lokiExporter, otlpExporter } from "../../src/audit/export/collectors.ts";
import type { Receiver } from "../../src/audit/export/receiver.ts";

interface ReceiverOrder {
  readonly type?: "otlp" | "loki";
  readonly url: string;
  /** Lines of the headers file, which is written into `dir`. */
  readonly headers?: string;
  readonly dir?: string;
}

/** The receiver of an entry of `audit.export`. */
export function openReceiver({ type = "otlp", url, headers, dir = "." }: ReceiverOrder): Receiver {
  const headersFile = headers === undefined ? undefined : join(dir, "headers");
  if (headersFile !== undefined) writeFileSync(headersFile, headers ?? "");
  const problems: string[] = [];
  const receiver = { otlp: otlpExporter, loki: lokiExporter }[type].open(
    { url, ...(headersFile !== undefined && { headersFile }) },
    { path: (path) => path, clock: Date.now, problem: (setting, message) => problems.push(`${setting}: ${message}`) },
  );
  if (receiver === undefined) throw new Error(problems.join("\n"));
  return receiver;
}
