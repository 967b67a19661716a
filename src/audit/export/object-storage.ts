import { readFileSync } from "node:fs";
import { z } from "zod";
import { errorText } from "../../core/error-text.ts";
import { collectorProblems } from "../../core/network.ts";
import { OPERATED_ADDRESSES } from "../../egress/addresses.ts";
import { EgressClient } from "../../egress/client.ts";
import { archiveIn } from "../archive/archive.ts";
import { readS3Credentials, S3Client } from "../archive/s3-client.ts";
import type { Archive, AuditExporter } from "./receiver.ts";

/** The longest wait of a line is below the threshold of the alert on exporters that are behind. */
const INTERVAL_MS_MAX = 600_000;
const INTERVAL_MS_MIN = 1_000;

/** The characters need no encoding in a URL. */
const PLAIN = /^[A-Za-z0-9][A-Za-z0-9._-]*(?:\/[A-Za-z0-9][A-Za-z0-9._-]*)*$/;

/** Without defaults, which the configuration would also give to entries of other kinds. */
export const s3Settings = {
  endpoint: z
    .url({ protocol: /^https?$/, error: "must be a URL that begins with https:// or http://" })
    .max(2_048)
    .refine((value) => !/[?#]/.test(value), "must not have a query or a fragment")
    .describe(
      "For `s3`: URL of the object storage, without the bucket, such as `https://s3.eu-central-1.amazonaws.com`.",
    ),
  bucket: z
    .string()
    .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, "must be the name of a bucket")
    .describe("For `s3`: the bucket. It must exist."),
  prefix: z
    .string()
    .max(256)
    .regex(PLAIN, "must consist of names of letters, digits, ., _ and -, with / between them")
    .optional()
    .describe("For `s3`: folder in the bucket. Left out: its top."),
  region: z
    .string()
    .regex(/^[a-z0-9-]{1,64}$/, "must be the name of a region")
    .optional()
    .describe("For `s3`: region, which signatures name. Left out: `us-east-1`."),
  credentialsFile: z
    .string()
    .min(1)
    .describe(
      "For `s3`: file with `aws_access_key_id = …`, `aws_secret_access_key = …` and, for temporary credentials, `aws_session_token = …`. It is read at every request.",
    ),
  caFile: z
    .string()
    .min(1)
    .optional()
    .describe("For `s3`: file with the certificates (PEM) trusted for the endpoint, instead of the platform's."),
  pathStyle: z
    .boolean()
    .optional()
    .describe(
      "For `s3`: whether the bucket is in the URL's path, as every server accepts it, or in the host's name. Left out: in the path.",
    ),
} as const;

const settings = z
  .strictObject({
    ...s3Settings,
    intervalMs: z
      .int()
      .min(INTERVAL_MS_MIN)
      .max(INTERVAL_MS_MAX)
      .optional()
      .describe(
        "For `s3`: how often new lines are stored, in milliseconds: 8 MiB of them are stored at once. Left out: 600000.",
      ),
  })
  .superRefine(({ endpoint, credentialsFile }, context) => {
    for (const message of collectorProblems(endpoint, credentialsFile, "credentialsFile")) {
      context.addIssue({ code: "custom", path: ["endpoint"], message });
    }
  });

export type S3Settings = z.output<z.ZodObject<typeof s3Settings>>;

interface Opening {
  readonly path: (path: string) => string;
  readonly clock: () => number;
}

/** @throws {Error} that names the setting whose file cannot be read */
export function openS3(settings: S3Settings, { path, clock }: Opening): S3Client {
  const { endpoint, bucket, region = "us-east-1", credentialsFile, caFile, pathStyle = true } = settings;
  const file = path(credentialsFile);
  const credentials = () => {
    try {
      return readS3Credentials(file);
    } catch (error) {
      throw new Error(`credentialsFile: ${credentialsFile}: ${errorText(error)}`);
    }
  };
  credentials();
  let rootCert: Buffer | undefined;
  try {
    rootCert = caFile === undefined ? undefined : readFileSync(path(caFile));
  } catch {
    throw new Error(`caFile: ${caFile}: cannot be read`);
  }
  const client = new EgressClient({ addresses: OPERATED_ADDRESSES, tls: { rootCert } });
  return new S3Client({ endpoint: new URL(endpoint), bucket, region, pathStyle, client, credentials, clock });
}

/** Object storage with the interface of Amazon S3: an archive of the day files. */
export const s3Exporter: AuditExporter<"s3", typeof settings, Archive> = {
  type: "s3",
  settings,
  open({ prefix, intervalMs = INTERVAL_MS_MAX, ...settings }, { problem, ...opening }) {
    try {
      const client = openS3(settings, opening);
      return archiveIn({ client, prefix: prefix === undefined ? "" : `${prefix}/`, intervalMs });
    } catch (error) {
      const [setting = "", ...text] = errorText(error).split(": ");
      problem(setting, text.join(": "));
      return undefined;
    }
  },
};
