import { z } from "zod";
import { names } from "./inventory.ts";
import type { ReadonlyDeep } from "./readonly.ts";

/** What `GET /configuration/versions` answers. */

const adopted = z.object({
  policyVersion: z.string().describe("As entries of the audit name it."),
  shownSha256: z
    .string()
    .describe("Digest of the stored text, as `service.started` and `configuration.changed` in the journal have it."),
  since: z.iso.datetime(),
  by: z.string().describe("`start`, `watch`, `signal`, `library`, or `issuer|subject` of the operator who reloaded."),
  changes: names.describe("Paths that differ from the version before, at most 32."),
  moreChanges: z.int().describe("Number of further paths."),
});

export const configurationVersions = z.object({
  instance: z.string().describe("The replica whose history it is."),
  inUse: z.string().describe("`policyVersion` of the configuration in use."),
  versions: z.array(adopted).describe("Newest first, at most 200."),
});

const change = z.object({ path: z.string(), before: z.unknown().optional(), after: z.unknown().optional() });

export const configurationVersion = adopted.extend({
  instance: z.string(),
  comparedWith: z.string().nullable().describe("`policyVersion` with which it is compared: by default the one before."),
  differences: z.array(change).describe("At most 500."),
  moreDifferences: z.int(),
  values: z.record(z.string(), z.unknown()).describe("Without secrets and paths, as `GET /configuration` shows them."),
  tools: z.array(z.object({ name: z.string(), identity: z.string() })).describe("The tools, with their digests."),
});

/** The configurations that a replica has used, for operators. */
export interface ConfigurationHistoryRead {
  list(): ConfigurationVersions;
  /** Returns a version, compared with another or the one before; undefined when one of them is not known or its text is gone. */
  version(policyVersion: string, against: string | undefined): ConfigurationVersion | undefined;
}

export type AdoptedVersion = ReadonlyDeep<z.output<typeof adopted>>;
export type ConfigurationVersions = ReadonlyDeep<z.output<typeof configurationVersions>>;
export type ConfigurationVersion = ReadonlyDeep<z.output<typeof configurationVersion>>;
