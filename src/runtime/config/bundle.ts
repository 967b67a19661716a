import { hostname } from "node:os";
import { resolve } from "node:path";
import { z } from "zod";
import { StartupError } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { isLoopback } from "../../core/network.ts";
import { configMessage, configProblems, fieldOf } from "./problems.ts";
import { count, name, problemAdder, text } from "./values.ts";

/** Declares the section `bundle`: where the fleet's part of the configuration comes from, and what is accepted. */

const VERSION_MAX = Number.MAX_SAFE_INTEGER;
const POLL_SECONDS_MAX = 300;

const tls = z
  .strictObject({
    /** File with the certificates (PEM) trusted for the server, instead of the platform's. */
    caFile: text.optional(),
    /** File with this member's certificate, PEM. */
    certFile: text.optional(),
    /** File with the private key of the certificate, PEM. */
    keyFile: text.optional(),
  })
  .refine(({ certFile, keyFile }) => (certFile === undefined) === (keyFile === undefined), {
    path: ["keyFile"],
    message: "certFile and keyFile go together",
  });

/** The section `bundle`. */
export const bundle = z
  .strictObject({
    /** URL of the bundle: https, or http on loopback. `timestamp.json` is next to it. */
    url: z.url({ protocol: /^https?$/, error: "must be a URL that begins with https://" }),
    /** Folder that keeps the last good bundle, for starts without the server. It must outlive a restart. */
    dir: text,
    /** Name of the fleet. A bundle of another fleet is refused. */
    fleet: name,
    /** Name of the environment, such as `production`. A bundle of another environment is refused. */
    environment: name,
    /**
     * File with the public keys of those who sign bundles: in PEM, or one verifier key per line, as `stc audit keys` prints it. It is
     * read again for each bundle.
     */
    keysFile: text,
    /** How many of these keys must have signed. 2 while a key is replaced by another. */
    threshold: z.int().min(1).max(2).default(1),
    /** File with the public keys that sign `timestamp.json`. */
    timestampKeysFile: text,
    /** Lowest version that is accepted. Raise it where `bundle.dir` does not outlive a restart. */
    minVersion: count(1, VERSION_MAX),
    /** Time for which the server may hold a request until there is another bundle, and the pause of servers that do not. */
    pollSeconds: count(30, POLL_SECONDS_MAX),
    /**
     * What happens when `timestamp.json` has expired. `keep`: the bundle stays in force, and log, metrics and `/readyz` say so.
     * `refuseStart`: besides, a start is refused until there is a new one.
     */
    onExpiry: z.enum(["keep", "refuseStart"]).default("keep"),
    /** Labels of this member, which bundles for a part of the fleet name. */
    labels: z.record(name, text).default({}),
    /** Whether a bundle may hold manifests in TypeScript: code, which runs with the rights of the service. */
    allowCode: z.boolean().default(false),
    tls: tls.optional(),
    /** File with a bearer token for the server. It is read for each request. */
    tokenFile: text.optional(),
  })
  .superRefine(({ url, tls: files, tokenFile }, context) => {
    const add = problemAdder(context);
    const { protocol, hostname: host, username, search, hash } = new URL(url);
    const isPlain = protocol === "http:";
    if (isPlain && !isLoopback(host)) add("url", "must be https, or http on loopback");
    if (isPlain && files !== undefined) add("tls", "is only for an https:// URL");
    if (username !== "")
      add("url", `must not hold a user name or a password${tokenFile === undefined ? ": set tokenFile" : ""}`);
    if (search !== "" || hash !== "") add("url", "must have neither a query nor a fragment");
  });

interface WithBundle {
  readonly bundle?: unknown;
  readonly server: { readonly workers: number };
  readonly reload: { readonly trigger: string };
}

/** Checks the section against others. */
export function checkBundle({ bundle: section, server, reload }: WithBundle, context: z.core.$RefinementCtx): void {
  if (section === undefined) return;
  const add = problemAdder(context);
  if (server.workers > 1) add("server.workers", "must be 1 where there is a section bundle");
  if (reload.trigger === "off")
    add("reload.trigger", "must not be off where there is a section bundle: a bundle is taken over by a reload");
}

/** The section, with absolute paths and the name of the member. */
export interface BundleSection extends z.output<typeof bundle> {
  readonly folder: string;
  readonly member: string;
}

/** @throws {StartupError} */
export function readBundle(
  written: unknown,
  { folder, origin }: { readonly folder: string; readonly origin: string },
): BundleSection | undefined {
  const { bundle: section, instance } = isTable(written) ? written : {};
  if (section === undefined || section === null) return undefined;
  const parsed = bundle.safeParse(section, { error: configMessage });
  if (!parsed.success) {
    const problems = configProblems(parsed.error.issues);
    throw new StartupError(
      problems.map(({ path, message }) => `${origin}: ${fieldOf(["bundle", ...path])}: ${message}`),
    );
  }
  const { dir, keysFile, timestampKeysFile, tokenFile, tls: files, ...others } = parsed.data;
  const at = (path: string): string => resolve(folder, path);
  const optional = (path: string | undefined) => (path === undefined ? undefined : at(path));
  return {
    ...others,
    folder,
    member: typeof instance === "string" ? instance : hostname(),
    dir: at(dir),
    keysFile: at(keysFile),
    timestampKeysFile: at(timestampKeysFile),
    tokenFile: optional(tokenFile),
    tls: files && {
      caFile: optional(files.caFile),
      certFile: optional(files.certFile),
      keyFile: optional(files.keyFile),
    },
  };
}
