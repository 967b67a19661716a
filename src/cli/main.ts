#!/usr/bin/env -S bun --no-env-file --config=/dev/null --no-install
import { runStc } from "./command.ts";
import { COMMANDS } from "./commands.ts";

await runStc(COMMANDS, process.argv.slice(2));
