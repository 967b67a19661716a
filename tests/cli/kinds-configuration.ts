import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";

const MANIFEST = `
  import { defineTool, grpcMethod } from "safe-tool-call";
  import { z } from "zod";
  export const tool = defineTool({
    name: "get_old", description: "Get an old thing", classification: "read", permissions: { required: ["kinds:read"] },
    input: z.strictObject({ id: z.string().max(20) }),
    target: grpcMethod("kinds", "kinds.v1.Kinds", "Legacy"),
    output: z.object({ id: z.string(), FIELD }), outputPolicy: { id: "allow" },
  });`;

interface KindsOptions {
  readonly issuers: unknown;
  /** The entry `systems.kinds`. */
  readonly system: object;
  /** A further field of the output schema. */
  readonly field?: string | undefined;
}

/** Writes a configuration whose one tool calls `Legacy` of the system `kinds`, and returns its path. */
export function writeKindsConfiguration(folder: string, { issuers, system, field = "" }: KindsOptions): string {
  writeFileSync(join(folder, "tool.ts"), MANIFEST.replace("FIELD", field));
  const config = { tools: ["./tool.ts"], audit: { dir: "./audit" }, jwt: { issuers }, systems: { kinds: system } };
  writeFileSync(join(folder, "stc.yaml"), stringify(config));
  return join(folder, "stc.yaml");
}
