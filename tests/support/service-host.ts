import { type RunningService, startService } from "../../src/cli/service.ts";
import { readConfig } from "./build.ts";

/** What a host is asked: to start services from configurations, by name, and later to drain one. */
export type HostOrder =
  | { readonly start: Readonly<Record<string, unknown>>; readonly folder: string }
  | { readonly drain: string };

export type HostReport = { readonly urls: Readonly<Record<string, string>> } | { readonly failed: string };

/** A process that runs real services, so that their log is a file which tests can read; told what to do by IPC. */
const services = new Map<string, RunningService>();

async function obey(order: HostOrder): Promise<void> {
  if ("drain" in order) {
    await services.get(order.drain)?.drain();
    return;
  }
  const environment = { PATH: process.env["PATH"] };
  for (const [name, written] of Object.entries(order.start)) {
    const config = readConfig(written, { folder: order.folder, environment, origin: name });
    services.set(name, await startService(config));
  }
  report({ urls: Object.fromEntries([...services].map(([name, { url }]) => [name, url])) });
}

function report(message: HostReport): void {
  process.send?.(message);
}

process.on("message", (order: HostOrder) => {
  obey(order).catch((error: unknown) => report({ failed: String(error) }));
});
process.on("disconnect", () => process.exit(0));
