import { MODULES } from "../../src/modules.ts";
import { kindContexts, Targets } from "../../src/runtime/composition/targets.ts";
import type { Config } from "../../src/runtime/config/config.ts";
import { loadTools } from "../../src/runtime/manifests/loader.ts";
import type { LoadedTools } from "../../src/runtime/manifests/sources.ts";
import type { KindContext } from "../../src/runtime/module-types.ts";

const CAPABILITIES = { now: () => 0, newId: () => "id", random: () => 0.5 };

/** What the kind of this name is opened with. */
export function contextFor(config: Config, name: string, problems: string[] = []): KindContext {
  const kind = MODULES.targetKinds.find((each) => each.name === name);
  if (kind === undefined) throw new Error(`no kind ${name}`);
  return kindContexts(config, CAPABILITIES, problems)(kind);
}

/** Loads the tools with what this build's kinds offer; what the kinds themselves find wrong does not count. */
export async function loadFor(config: Config): Promise<LoadedTools> {
  const targets = new Targets();
  await targets.open(config, MODULES, { ...CAPABILITIES, problems: [] });
  try {
    return await loadTools(config, targets.offered());
  } finally {
    await targets.close();
  }
}
