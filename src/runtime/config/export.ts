import { z } from "zod";
import { isLoopback } from "../../core/loopback.ts";

const EXPORTERS_MAX = 8;
const URL_CHARACTERS_MAX = 2_048;

const exporter = z
  .strictObject({
    type: z.enum(["otlp", "loki"]),
    /** Name of the exporter in its files and metrics; the type when left out. */
    name: z
      .string()
      .regex(/^[a-z0-9][a-z0-9-]{0,63}$/, "must be of small letters, digits and dashes")
      .optional(),
    /** URL of the collector. A URL without a path gets the default path: /v1/logs for `otlp`, /loki/api/v1/push for `loki`. */
    url: z
      .url({ protocol: /^https?$/, error: "must be a URL that begins with https:// or http://" })
      .max(URL_CHARACTERS_MAX),
    /** File with headers to send, such as credentials: one `Name: value` per line. */
    headersFile: z.string().min(1).optional(),
  })
  .superRefine(({ url, headersFile }, context) => {
    for (const message of collectorFaults(url, headersFile)) {
      context.addIssue({ code: "custom", path: ["url"], message });
    }
  })
  .transform((written) => ({ ...written, name: written.name ?? written.type }));

/** The key `audit.export`. Nothing is sent unless it is configured here. */
export const auditExport = z
  .array(exporter)
  .max(EXPORTERS_MAX)
  .superRefine((exporters, context) => {
    for (const [index, { name }] of exporters.entries()) {
      if (exporters.findIndex((other) => other.name === name) < index) {
        context.addIssue({
          code: "custom",
          path: [index, "name"],
          message: "stands twice: each needs a name of its own",
        });
      }
    }
  })
  .default([]);

/** Returns the problems of a collector's address. Credentials belong in a file, not in the address. */
export function collectorFaults(url: string, headersFile: string | undefined): readonly string[] {
  if (!URL.canParse(url)) return [];
  const { protocol, hostname, username, password } = new URL(url);
  const faults: string[] = [];
  if (username !== "" || password !== "") faults.push("holds credentials: put them into headersFile");
  if (headersFile !== undefined && protocol === "http:" && !isLoopback(hostname)) {
    faults.push("must be https where headersFile is set: credentials over plain http can be read on the way");
  }
  return faults;
}
