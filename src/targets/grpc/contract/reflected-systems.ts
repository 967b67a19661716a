import { errorText } from "../../../core/error-text.ts";
import { StartupError } from "../../../core/errors.ts";
import type { Tool } from "../../../core/types.ts";
import { reach } from "../connection/tls-identity.ts";
import { systemMetadata } from "../metadata.ts";
import { type ProtoSource, serviceOf } from "./contract.ts";
import { reflectedFiles } from "./reflection.ts";

type ReachOptions = Parameters<typeof reach>[1];

/** What of a system is needed to ask it for its contract. */
export type ReflectingSystem = ProtoSource & ReachOptions & { readonly metadata?: Readonly<Record<string, string>> };

/**
 * The systems, those with `reflection` together with what their servers tell of the services that the tools name. A system
 * that no tool names is not asked. What goes wrong goes into `problems`, and the result is undefined.
 */
export async function withReflection<System extends ReflectingSystem>(
  systems: ReadonlyMap<string, System>,
  tools: readonly Pick<Tool, "target">[],
  problems: string[],
): Promise<ReadonlyMap<string, System> | undefined> {
  const before = problems.length;
  const asked = [...systems].map(async ([name, system]): Promise<readonly [string, System]> => {
    if (system.reflection !== true) return [name, system];
    const targets = tools.flatMap(({ target }) => ("grpc" in target && target.system === name ? [target.grpc] : []));
    const services = [...new Set(targets.map(serviceOf))];
    if (services.length === 0) return [name, { ...system, reflected: [] }];
    try {
      const options = { reach: reach(name, system), metadata: systemMetadata(name, system.metadata), services };
      return [name, { ...system, reflected: await reflectedFiles(options) }];
    } catch (error) {
      if (error instanceof StartupError) problems.push(...error.problems);
      else problems.push(`systems.${name}.reflection: the service ${textOf(error)}`);
      return [name, system];
    }
  });
  const all = new Map(await Promise.all(asked));
  return problems.length > before ? undefined : all;
}

function textOf(error: unknown): string {
  const text = errorText(error);
  return `${text}; where it cannot be asked at a start, name a descriptorSet file instead`;
}
