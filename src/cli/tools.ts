import { toJson } from "../core/tool-formats.ts";
import { assemble } from "../runtime/composition/wiring.ts";
import { type ConfigurationOptions, configuration } from "./configuration.ts";
import { print, table } from "./output.ts";

/** `stc tools`: lists the tools that the service would offer, with the permissions that each needs. */
export async function tools(options: ConfigurationOptions & { readonly json?: boolean }): Promise<void> {
  const { config } = await configuration(options);
  const parts = await assemble(config);
  await parts.close();
  const listed = parts.registry.list().map(({ tool }) => tool);
  if (options.json === true)
    return print.json({ tools: listed.map(toJson), notRegistered: parts.loaded.notRegistered });
  const rows = listed.map((tool) => [
    tool.name,
    tool.classification,
    tool.target.system,
    tool.permissions.required.join(" "),
  ]);
  print.line(table([["TOOL", "CLASSIFICATION", "SYSTEM", "PERMISSIONS"], ...rows]));
  for (const reason of parts.loaded.notRegistered) print.line(`note: ${reason}`);
}
