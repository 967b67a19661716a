import { type ConfigurationOptions, configuration } from "./configuration.ts";
import { print, tell } from "./output.ts";
import { type RunningService, startService } from "./service.ts";

/** Signals that come together are one: a supervisor tells every process of a group, and a script's runner passes its own on. */
const SAME_STOP_MS = 1_000;

/** `stc serve`: runs until SIGTERM or SIGINT, then drains; a later signal ends it at once. */
export async function serve(options: ConfigurationOptions): Promise<void> {
  // While manifests are loaded anew, the process's own throws.
  const exit: (code: number) => never = process.exit.bind(process);
  let running: RunningService | undefined;
  // Of a terminal that is closed the signal says so: development ends with it. A service goes on, also where it takes nothing over.
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
    tell(() => print.line(welcome({ url, auditDir, hasGit: hasGit === true, hasBash: hasBash === true })));
  }
  // A tool's forgotten promise must not end everybody's service; what breaks synchronously leaves a state nobody knows.
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
