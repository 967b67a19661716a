import { z } from "zod";
import { isLoopback } from "../../core/loopback.ts";

const EXPORTERS_MAX = 8;
const URL_CHARACTERS_MAX = 2_048;

const exporter = z
  .strictObject({
    type: z.enum(["otlp", "loki"]),
    /** Names its files and its metrics; the type when left out. */
    name: z
      .string()
      .regex(/^[a-z0-9][a-z0-9-]{0,63}$/, "must be of small letters, digits and dashes")
      .optional(),
    /** Without a path the usual one: /v1/logs, /loki/api/v1/push. */
    url: z
      .url({ protocol: /^https?$/, error: "must be a URL that begins with https:// or http://" })
      .max(URL_CHARACTERS_MAX),
    /** Lines of `Name: value`, such as credentials. */
    headersFile: z.string().min(1).optional(),
  })
  .superRefine(({ url, headersFile }, context) => {
    for (const message of collectorFaults(url, headersFile)) {
      context.addIssue({ code: "custom", path: ["url"], message });
    }
  })
  .transform((written) => ({ ...written, name: written.name ?? written.type }));

/** `audit.export`: nothing leaves unless it stands here. */
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

/** What is wrong with the address of a collector, whose credentials stand in a file. */
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
