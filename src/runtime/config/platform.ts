import { z } from "zod";
import { hasPort, NO_PORT } from "./port.ts";

/**
 * Declares what the shipped platform tools read from `systems`: the configuration fixes the addresses, and agents choose from the
 * closed lists.
 */

const LABEL_CHARACTERS_MAX = 63;
const SUBDOMAIN_CHARACTERS_MAX = 253;

const text = z.string().min(1);

/** Returns whether the text is lower-case letters, digits and dashes, with a letter or digit at both ends. */
const isLabel = (part: string): boolean =>
  part.length <= LABEL_CHARACTERS_MAX && /^[a-z0-9-]+$/.test(part) && !part.startsWith("-") && !part.endsWith("-");

const namespace = z
  .string()
  .refine(isLabel, "must be a namespace's name as RFC 1123 has it: at most 63 of a-z, 0-9 and -, no - at an end");

const application = z
  .string()
  .refine(
    (name) => name.length <= SUBDOMAIN_CHARACTERS_MAX && name.split(".").every(isLabel),
    "must be an application's name as RFC 1123 has it: a-z, 0-9, - and ., without a namespace before it",
  );

const kubernetes = z.strictObject({
  kubeconfig: text.optional(),
  namespaces: z.array(namespace).default([]),
  /** Whether the kubeconfig may name programs that create credentials. They run with the rights of the service. */
  execPlugins: z.boolean().default(false),
});

const loki = z.strictObject({
  address: z
    .url({ protocol: /^https?$/, error: "must be a URL that begins with http:// or https://" })
    .refine(isPlainUrl, "must hold no user, password, query or fragment: name the token in bearerTokenFile")
    .optional(),
  namespaces: z.array(namespace).default([]),
  bearerTokenFile: text.optional(),
  /** Tenant id, sent as X-Scope-OrgID. */
  tenant: z
    .string()
    .regex(/^[A-Za-z0-9!._*'()|-]{1,150}$/, "must be a tenant id of Loki")
    .optional(),
  /** Certificate authority to trust, when it is not one of the machine's. */
  rootCert: text.optional(),
});

const argocd = z.strictObject({
  server: z
    .string()
    .regex(
      /^(?:[A-Za-z0-9][A-Za-z0-9.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?$/,
      "must be host or host:port, with no scheme before it and no path after it",
    )
    .refine(hasPort, NO_PORT)
    .optional(),
  applications: z.array(application).default([]),
  /** Settings file that `argocd login` writes; it holds the token. */
  configFile: text.optional(),
  /** Branches and tags that a diff may be requested for, in addition to full commit ids. */
  revisions: z.array(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._/-]{0,254}$/, "must be a branch or tag")).default([]),
  grpcWeb: z.boolean().default(false),
  rootCert: text.optional(),
});

export const PLATFORM_SYSTEMS = { kubernetes, loki, argocd } as const;

/**
 * Returns whether the URL has no user, password, query or fragment. Returns true for an invalid URL, which is already reported.
 */
function isPlainUrl(address: string): boolean {
  const url = URL.parse(address);
  return url === null || [url.username, url.password, url.search, url.hash].every((part) => part === "");
}
