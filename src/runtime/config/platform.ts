import { z } from "zod";
import { hasPort, NO_PORT } from "./port.ts";

/** What the shipped platform tools read of `systems`: the places are fixed here, and agents choose among the closed lists. */

const LABEL_CHARACTERS_MAX = 63;
const SUBDOMAIN_CHARACTERS_MAX = 253;

const text = z.string().min(1);

/** Lower-case letters, digits and dashes, an alphanumeric at both ends. */
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
  /** Whether the kubeconfig may name programs that make credentials. They run as the service does. */
  execPlugins: z.boolean().default(false),
});

const loki = z.strictObject({
  address: z
    .url({ protocol: /^https?$/, error: "must be a URL that begins with http:// or https://" })
    .refine(isPlainUrl, "must hold no user, password, query or fragment: name the token in bearerTokenFile")
    .optional(),
  namespaces: z.array(namespace).default([]),
  bearerTokenFile: text.optional(),
  /** Sent as X-Scope-OrgID. */
  tenant: z
    .string()
    .regex(/^[A-Za-z0-9!._*'()|-]{1,150}$/, "must be a tenant id of Loki")
    .optional(),
  /** Whom to trust, when it is not one of the machine's authorities. */
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
  /** The settings that `argocd login` writes: where the token is. */
  configFile: text.optional(),
  /** What a difference may be asked for beside full commit ids. */
  revisions: z.array(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._/-]{0,254}$/, "must be a branch or tag")).default([]),
  grpcWeb: z.boolean().default(false),
  rootCert: text.optional(),
});

export const PLATFORM_SYSTEMS = { kubernetes, loki, argocd } as const;

/** What is no URL at all has been told already. */
function isPlainUrl(address: string): boolean {
  const url = URL.parse(address);
  return url === null || [url.username, url.password, url.search, url.hash].every((part) => part === "");
}
