import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { MODULES } from "../../../src/modules.ts";
import { editorSchema } from "../../../src/runtime/manifests/editor-schema.ts";
import { PROJECT } from "../../support/world.ts";

/** The JSON Schema of data-only manifests, which editors read. Run as a program, this file writes it; a test compares. */
export const FILE = join(PROJECT, "docs/tool.schema.json");

export function fileContent(): string {
  return `${JSON.stringify(editorSchema(MODULES.targetKinds), undefined, 2)}\n`;
}

if (import.meta.main) writeFileSync(FILE, fileContent());
