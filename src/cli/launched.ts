/**
 * Entry point for the package's launcher where it cannot become this program and stays its parent (`deploy/release/launcher`). The
 * channel between them closes when the launcher ends, even by SIGKILL. This program then ends as on SIGTERM: an orphaned service
 * would keep its port and its audit directory.
 */
process.on("disconnect", () => process.kill(process.pid, "SIGTERM"));
// The listener alone must not keep a finished command from exiting.
process.channel?.unref();
void import("./main.ts");
