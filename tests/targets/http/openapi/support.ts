import { createDefineTool } from "../../../../src/core/define-tool.ts";
import type { HttpTarget, Tool } from "../../../../src/core/types.ts";
import { MODULES } from "../../../../src/modules.ts";
import { readDataOnly } from "../../../../src/runtime/manifests/data-only.ts";
import { ApiDocument } from "../../../../src/targets/http/openapi/document.ts";
import type { Loose } from "../../../support/asking-service.ts";

/** A document that consists of these files; the first is the document itself. */
export function documentOf(files: Readonly<Record<string, unknown>>): ApiDocument {
  const [first = ""] = Object.keys(files);
  return ApiDocument.at(`/api/${first}`, (path) => {
    const found = files[path.replace(/^\/api\//, "")];
    if (found === undefined) throw Object.assign(new Error("no such file"), { code: "ENOENT" });
    if (Buffer.isBuffer(found)) return found;
    return Buffer.from(typeof found === "string" ? found : JSON.stringify(found));
  });
}

/** A document with these paths and schemas. */
export function apiOf(paths: Loose, schemas: Loose = {}, version = "3.0.3"): ApiDocument {
  return documentOf({ "api.json": { openapi: version, info: {}, paths, components: { schemas } } });
}

/** An answer in JSON. */
export function answers(schema: unknown, status = "200"): Loose {
  return { [status]: { description: "", content: { "application/json": { schema } } } };
}

/** Loads the text of a manifest as the service does. */
export function loaded(text: string): Tool & { readonly target: HttpTarget } {
  const kinds = MODULES.targetKinds;
  const read = readDataOnly(text, { define: createDefineTool(kinds), kinds });
  if ("problems" in read) throw new Error(read.problems.join("\n"));
  return read.tool as Tool & { readonly target: HttpTarget };
}
