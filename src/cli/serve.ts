import { type ConfigurationOptions, configuration } from "./configuration.ts";
import { print, reportChange } from "./output.ts";
import { type RunningService, startService } from "./service.ts";

/**
 * Signals within this time count as one: a supervisor signals every process of a group, and a script runner forwards its own
 * signal.
 */
const SAME_STOP_MS = 1_000;

/** `stc serve`: runs until SIGTERM or SIGINT, then drains; a later signal ends the process immediately. */
export async function serve(options: ConfigurationOptions): Promise<void> {
  // Saved because `process.exit` throws while manifests are loaded again.
  const exit: (code: number) => never = process.exit.bind(process);
  let running: RunningService | undefined;
  // SIGHUP also reports a closed terminal: development ends then. A service keeps running, even when it cannot reload.
  if (options.dev !== true) process.on("SIGHUP", () => void running?.reload?.("signal"));
  const { config, readAgain, start } = await configuration(options);
  const stop = await start();
  let service: RunningService;
  try {
    service = running = await startService(config, readAgain);
  } catch (error) {
    await stop();
    throw error;
  }
  for (const reason of service.notRegistered) print.error(`note: ${reason}`);
  if (options.dev === true) {
    const { welcome } = await import("./development/welcome.ts");
    const [hasGit, hasBash] = ["git", "bash"].map((name) => config.commands.allowed.includes(name));
    const { url } = service;
    const auditDir = config.audit.dir;
    reportChange(() => print.line(welcome({ url, auditDir, hasGit: hasGit === true, hasBash: hasBash === true })));
  }
  // A promise that a tool forgot must not end the service for everyone. A synchronous exception does end it: the state is
  // unknown.
  process.on("unhandledRejection", service.logFault);
  let isEnding = false;
  let mayHurry = false;
  const end = async (exitCode: number): Promise<void> => {
    isEnding = true;
    setTimeout(() => {
      mayHurry = true;
    }, SAME_STOP_MS).unref();
    await service.drain();
    await stop();
    exit(exitCode);
  };
  process.on("uncaughtException", (error) => {
    service.logFault(error);
    if (isEnding) exit(1);
    void end(1);
  });
  const stopped = (): void => {
    if (mayHurry) exit(1);
    if (!isEnding) void end(0);
  };
  process.on("SIGTERM", stopped);
  process.on("SIGINT", stopped);
}
