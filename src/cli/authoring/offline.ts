import type { OfflinePlanner, TargetKind } from "../../core/target-kind.ts";
import type { Binding, Json, Tool } from "../../core/types.ts";
import { MODULES } from "../../modules.ts";
import { assemble, type Parts } from "../../runtime/composition/wiring.ts";
import type { Config } from "../../runtime/config/config.ts";
import type { KindContext, Modules } from "../../runtime/module-types.ts";

/**
 * Assembles a configuration without reaching a target or starting a process: tools whose contract only the target itself knows are
 * not compared with it, and confinement is not probed.
 *
 * @throws {StartupError}
 */
export function assembleOffline(config: Config, modules: Modules = MODULES): Promise<Parts> {
  const { commands } = config;
  const offlineConfig = { ...config, commands: { ...commands, confinement: "off", unconfinedBash: true } } as const;
  return assemble(offlineConfig, { ...modules, targetKinds: modules.targetKinds.map(offline) });
}

function offline(kind: TargetKind<KindContext>): TargetKind<KindContext> {
  const { planOffline } = kind;
  if (planOffline === undefined) return kind;
  return {
    ...kind,
    async open(context) {
      const opened = await kind.open(context);
      const plannerOf = (tool: Tool) => planOffline(tool, context.systems.get(tool.target.system));
      const isBound = (tool: Tool): boolean => plannerOf(tool) === undefined;
      return {
        ...opened,
        prepare: async (tools) => (await opened.prepare?.(tools.filter(isBound))) ?? new Map(),
        isBroken: (tool) => isBound(tool) && opened.isBroken?.(tool) === true,
        bind(tool) {
          const plan = plannerOf(tool);
          return plan === undefined ? opened.bind(tool) : unasked(tool, plan);
        },
        report: (tools) => opened.report?.(tools.filter(isBound)) ?? {},
      };
    },
  };
}

/** Binds a tool without its target. */
function unasked({ name }: Tool, plan: OfflinePlanner): Binding {
  return {
    plansFromArguments: true,
    plan: (input) => plan(input as Json),
    run: () => Promise.reject(new Error(`${name} is not called offline`)),
  };
}
