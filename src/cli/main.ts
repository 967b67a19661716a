#!/usr/bin/env -S bun --no-env-file --config=/dev/null --no-install
import { providePackage } from "../runtime/manifests/package-exports.ts";
import { runStc } from "./command.ts";
import { COMMANDS } from "./commands.ts";

providePackage(() => import("../index.ts"));
await runStc(COMMANDS, process.argv.slice(2));
