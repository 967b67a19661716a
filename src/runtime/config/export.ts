import { z } from "zod";
import type { AUDIT_EXPORTERS } from "../../audit/export/collectors.ts";
import type { Modules } from "../module-types.ts";
import { uniqueNames } from "./values.ts";

const EXPORTERS_MAX = 8;

type BuiltIn = (typeof AUDIT_EXPORTERS)[number];
/** An entry as it may be written, for the kinds of export that every build has. */
type WrittenExport = { readonly type: BuiltIn["type"]; readonly name?: string } & z.input<BuiltIn["settings"]>;
type ReadExport = { readonly type: string; readonly name: string } & Readonly<Record<string, unknown>>;

/** The key `audit.export`. Nothing is sent unless it is configured here. */
export function auditExport(exporters: Modules["auditExporters"]) {
  return z
    .array(exportEntry(exporters))
    .max(EXPORTERS_MAX)
    .superRefine(uniqueNames("appears twice: each needs its own name"))
    .default([]);
}

/**
 * Returns the schema of an entry. A setting has the schema of the kinds that have it, so that the reference shows it; which
 * settings a kind needs, and how they fit together, is checked by the schema of the kind.
 */
function exportEntry(exporters: Modules["auditExporters"]): z.ZodType<ReadExport, WrittenExport> {
  const shapes = exporters.map(({ settings }) => settings.shape);
  const shared: Record<string, z.ZodType> = {};
  for (const [key, schema] of shapes.flatMap((shape) => Object.entries(shape))) {
    const others = shapes.flatMap((shape) => shape[key] ?? []);
    if (others.some((other) => other !== schema)) shared[key] = z.unknown().optional();
    else shared[key] = others.length === shapes.length ? schema : schema.optional();
  }
  const entry = z
    .strictObject({
      type: z.enum(exporters.map(({ type }) => type) as [string, ...string[]]),
      name: z
        .string()
        .regex(/^[a-z0-9][a-z0-9-]{0,63}$/, "must consist of lowercase letters, digits and dashes")
        .optional()
        .describe("Name of the exporter in its files and metrics; the type when left out."),
      ...shared,
    })
    .transform(({ type, name = type, ...written }, context) => {
      const read = exporters.find((exporter) => exporter.type === type)?.settings.safeParse(written);
      for (const issue of read?.error?.issues ?? [])
        context.issues.push({ ...issue, input: written } as z.core.$ZodRawIssue);
      return { ...read?.data, type, name };
    });
  return entry as unknown as z.ZodType<ReadExport, WrittenExport>;
}
