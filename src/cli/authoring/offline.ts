import type { TargetKind } from "../../core/target-kind.ts";
import type { Binding, ExecutionPlan, Json, Tool } from "../../core/types.ts";
import { MODULES } from "../../modules.ts";
import { assemble, type Parts } from "../../runtime/composition/wiring.ts";
import type { Config } from "../../runtime/config/config.ts";
import type { KindContext } from "../../runtime/modules.ts";

/**
 * Assembles a configuration without reaching a target or starting a process: tools whose contract only the target itself knows (MCP
 * servers, gRPC reflection) are not compared with it, and confinement is not probed.
 *
 * @throws {StartupError}
 */
export function assembleOffline(config: Config): Promise<Parts> {
  const { commands } = config;
  const offlineConfig = { ...config, commands: { ...commands, confinement: "off", unconfinedBash: true } } as const;
  return assemble(offlineConfig, { ...MODULES, targetKinds: MODULES.targetKinds.map(offline) });
}

function offline(kind: TargetKind<KindContext>): TargetKind<KindContext> {
  if (kind.key !== "mcp" && kind.key !== "grpc") return kind;
  return {
    ...kind,
    async open(context) {
      const opened = await kind.open(context);
      const isAsked = ({ target }: Tool): boolean => "mcp" in target || isReflected(context.systems.get(target.system));
      return {
        ...opened,
        prepare: async (tools) => (await opened.prepare?.(tools.filter((tool) => !isAsked(tool)))) ?? new Map(),
        isBroken: (tool) => !isAsked(tool) && opened.isBroken?.(tool) === true,
        bind: (tool) => (isAsked(tool) ? unasked(tool) : opened.bind(tool)),
        report: (tools) => opened.report?.(tools.filter((tool) => !isAsked(tool))) ?? {},
      };
    },
  };
}

function isReflected(system: unknown): boolean {
  return typeof system === "object" && system !== null && "reflection" in system && system.reflection === true;
}

/** Binds a tool without its target: the plan is what follows from manifest and arguments. */
function unasked({ name, target }: Tool): Binding {
  return {
    plansFromArguments: true,
    plan: (input) => planOf(target, input as Json),
    run: () => Promise.reject(new Error(`${name} is not called offline`)),
  };
}

function planOf(target: Tool["target"], input: Json): ExecutionPlan {
  const { system } = target;
  if ("mcp" in target) return { kind: "mcp", system, tool: target.mcp.tool, arguments: input };
  if (!("grpc" in target)) return { kind: "none", system };
  const { package: namespace, service, method } = target.grpc;
  return { kind: "grpc", system, path: `/${namespace}.${service}/${method}`, message: input };
}
