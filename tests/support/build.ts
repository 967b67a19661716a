import { MODULES } from "../../src/modules.ts";
import { assemble as assembleWith, wire as wireWith } from "../../src/runtime/composition/wiring.ts";
import { readConfigFile as readConfigFileWith } from "../../src/runtime/config/file.ts";
import { readConfig as readConfigWith } from "../../src/runtime/config/reading.ts";
import { providePackage } from "../../src/runtime/manifests/package-exports.ts";
import type { Modules } from "../../src/runtime/module-types.ts";

/** What a program does with the parts of a build: this build's, unless a test adds its own. */

providePackage(() => import("../../src/index.ts"));

type ReadOptions = Parameters<typeof readConfigWith>[1];

export const readConfig = (written: unknown, options: ReadOptions, modules: Modules = MODULES) =>
  readConfigWith(written, options, modules);

export const readConfigFile = (
  path: string,
  environment: Parameters<typeof readConfigFileWith>[1],
  modules: Modules = MODULES,
) => readConfigFileWith(path, environment, modules);

type Assembling = Parameters<typeof assembleWith>;

export const assemble = (config: Assembling[0], hooks?: Assembling[2], modules: Modules = MODULES) =>
  assembleWith(config, modules, hooks);

type Wiring = Parameters<typeof wireWith>;

export const wire = (config: Wiring[0], hooks?: Wiring[2], modules: Modules = MODULES) =>
  wireWith(config, modules, hooks);
