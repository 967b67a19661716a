import { type RunningService, startService } from "../main.ts";
import { type ConfigurationOptions, configuration } from "./configuration.ts";
import { print } from "./output.ts";

/** `stc serve`: runs until SIGTERM or SIGINT, then drains; a second signal ends it at once. */
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
    const { welcome } = await import("../dev/welcome.ts");
    const [hasGit, hasBash] = ["git", "bash"].map((name) => config.commands.allowed.includes(name));
    const { url } = service;
    print.line(welcome({ url, auditDir: config.audit.dir, hasGit: hasGit === true, hasBash: hasBash === true }));
  }
  // A tool's forgotten promise must not end everybody's service; what breaks synchronously leaves a state nobody knows.
  process.on("unhandledRejection", service.logFault);
  process.on("uncaughtException", (error) => {
    service.logFault(error);
    void end(1);
  });
  let signals = 0;
  const end = async (exitCode: number): Promise<void> => {
    signals += 1;
    if (signals > 1) exit(1);
    await service.drain();
    await stop();
    exit(exitCode);
  };
  process.on("SIGTERM", () => void end(0));
  process.on("SIGINT", () => void end(0));
}
