import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Permissions of the fleet's agents. */
export const PERMISSION = "fleet:run";

interface ToolOptions {
  readonly name: string;
  readonly classification: "read" | "write";
  /** Further members of the manifest. */
  readonly more?: string;
  /** File to which each run appends its key. */
  readonly runs?: string;
}

const tool = ({ name, classification, more = "", runs }: ToolOptions): string => `
import { appendFile } from "node:fs/promises";
import { defineTool } from "safe-tool-call";
import { z } from "zod";
export const tool = defineTool({
  name: "${name}", description: "Does what the fleet measures", classification: "${classification}",
  category: "${classification}", limits: { concurrentCallsMax: 1_000 }, permissions: { required: ["${PERMISSION}"] },
  ${more}
  input: z.strictObject({ key: z.string() }), inputPolicy: { key: "allow" },
  target: {
    system: "records",
    handler: async ({ key }) => {
      ${runs === undefined ? "" : `await appendFile(${JSON.stringify(runs)}, key + "\\n");`}
      return { key };
    },
  },
  output: z.strictObject({ key: z.string() }), outputPolicy: { key: "allow" },
  examples: { accepts: [{ key: "a" }], rejects: [{ x: 1 }] },
});
`;

/** Writes the tools of every member, and one more for members with data flow: its answers are untrusted. */
export function writeTools(folder: string, runs: string): { readonly plain: string; readonly flow: string } {
  const [plain, flow] = [join(folder, "tools"), join(folder, "tools-flow")];
  for (const each of [plain, flow]) mkdirSync(each);
  const write = (to: string, options: ToolOptions): void =>
    writeFileSync(join(to, `${options.name}.ts`), tool(options));
  write(plain, { name: "look", classification: "read" });
  const asks = "approval: { needsApproval: () => true },";
  write(plain, { name: "approved", classification: "write", more: asks, runs });
  const free = "approval: { needsApproval: () => false },";
  write(plain, { name: "record", classification: "write", more: free, runs });
  const untrusted = 'dataFlow: { reads: ["untrusted"], sends: [] },';
  write(flow, { name: "mail", classification: "read", more: untrusted });
  return { plain, flow };
}
