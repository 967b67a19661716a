import { StartupError } from "../core/errors.ts";
import { assemble } from "../wiring.ts";
import { type ConfigurationOptions, configuration } from "./configuration.ts";
import { print } from "./output.ts";

/** `stc check`: everything that would keep the service from starting, at once. Exit 0 when it would start, else 78. */
export async function check(options: ConfigurationOptions & { readonly json?: boolean }): Promise<void> {
  try {
    const { config } = await configuration(options);
    const parts = await assemble(config);
    await parts.close();
    const { notRegistered } = parts.loaded;
    const tools = parts.registry.list().map(({ tool }) => tool.name);
    if (options.json === true) return print.json({ ok: true, tools, notRegistered, problems: [] });
    for (const reason of notRegistered) print.line(`note: ${reason}`);
    print.line(`ok: ${tools.length} tools`);
  } catch (error) {
    if (!(error instanceof StartupError) || options.json !== true) throw error;
    print.json({ ok: false, tools: [], notRegistered: [], problems: error.problems });
    process.exitCode = 78;
  }
}
