import { z } from "zod";

const LABEL_CHARACTERS_MAX = 63;
const SUBDOMAIN_CHARACTERS_MAX = 253;

/** RFC 1123: lower-case letters, digits and dashes, an alphanumeric at both ends. */
function isDnsLabel(part: string): boolean {
  return (
    part.length <= LABEL_CHARACTERS_MAX && /^[a-z0-9-]+$/.test(part) && !part.startsWith("-") && !part.endsWith("-")
  );
}

/** The same in parts, with dots between them. */
export function isDnsSubdomain(name: string): boolean {
  return name.length <= SUBDOMAIN_CHARACTERS_MAX && name.split(".").every(isDnsLabel);
}

/** A container's name. */
export const DnsLabel = z
  .string()
  .max(LABEL_CHARACTERS_MAX)
  .regex(/^[a-z0-9][a-z0-9-]*$/, "must be a name of a-z, 0-9 and -, without - at an end")
  .refine(isDnsLabel, "must not end with -");

/** A pod's name, or an application's. */
export const DnsSubdomain = z
  .string()
  .max(SUBDOMAIN_CHARACTERS_MAX)
  .regex(/^[a-z0-9][a-z0-9.-]*$/, "must be a plain name of a-z, 0-9, - and .; no kind, namespace or list")
  .refine(isDnsSubdomain, "must be names of at most 63 characters with dots between them, no - or . at an end");
