import { openLog } from "../../../src/runtime/log/log.ts";

/** Logs so many lines; says on stderr how many found no room; ends when a byte comes in and the rest is out. */
const lines = Number(process.argv[2]);
const log = openLog({ level: "info" });
for (let line = 0; line < lines; line += 1) log.logger.info({ line, filler: "x".repeat(400) }, "said");
process.stderr.write(`${log.dropped()}\n`);
await Bun.stdin.stream().getReader().read();
await log.flush(5_000);
log.logger.info({ line: -1 }, "last");
process.exit(0);
