import { z } from "zod";
import { isLoopback } from "../../core/loopback.ts";

/** How the doors listen beside a plain port: every key and default of `server.socket*`, `server.tls` and `server.resource*`. */

const text = z.string().min(1);
const SCOPES_MAX = 256;

const tls = z
  .strictObject({
    /** The service's certificate and those between it and the root, PEM. Both files are taken anew when they have changed. */
    certFile: text,
    /** Its private key, PEM. */
    keyFile: text,
    /** The roots (PEM) that clients' certificates must come from. Without it no certificate is asked for. */
    clientCaFile: text.optional(),
    /** `request`: a client may do without; `require`: it does not get as far as a request. */
    clientCertificates: z.enum(["request", "require"]).default("request"),
  })
  .optional();

function hasUser(url: string): boolean {
  const { username, password } = URL.parse(url) ?? { username: "", password: "" };
  return username !== "" || password !== "";
}

const resource = z
  .url({ protocol: /^https?$/, error: "must be a URL that begins with https://" })
  .refine(
    (url) => url.startsWith("https://") || isLoopback(URL.parse(url)?.hostname ?? ""),
    "must be https: tokens are sent there",
  )
  .refine((url) => !/[?#"\\\s]/.test(url), "must have neither a query nor a fragment")
  // Anybody may read it.
  .refine((url) => !hasUser(url), "must not hold a user name or a password")
  .optional();

/** As the door compares it: a `Host` without its port, in lower case. */
const hostName = z
  .string()
  .regex(
    /^(?:[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]{2,45}\])$/,
    "must be a host's name or address, without scheme and port; there are no patterns",
  )
  .toLowerCase();

const ORIGIN_CHARACTERS_MAX = 512;

const origin = z
  .string()
  .max(ORIGIN_CHARACTERS_MAX)
  .toLowerCase()
  .refine(
    isOrigin,
    "must be an origin as browsers send it, such as https://pages.example: no path, no port that goes without saying, no pattern",
  );

/** The web's own schemes have one spelling; of others, such as a browser's extension, nothing more is known. */
function isOrigin(text: string): boolean {
  if (!/^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@\\*]+$/.test(text)) return false;
  const spelled = URL.parse(text)?.origin;
  return spelled === text || spelled === "null";
}

/** Keys of the section `server`. */
export const doors = {
  /** `off`: there is the socket alone. */
  port: z
    .union([z.int().min(0).max(65_535), z.literal("off")], {
      error: "must be a number from 0 to 65535, without quotes, or off",
    })
    .default(8787),
  /** A Unix socket that takes calls too: a path of at most 90 bytes, made at start and taken away at the end. */
  socket: z.string().min(1).optional(),
  /** Who may connect to it: its owner, or its group too. */
  socketMode: z.enum(["0600", "0660"], { error: 'must be "0600" or "0660", in quotes' }).default("0600"),
  /** With it the port of the calls speaks TLS 1.2 or 1.3 and nothing else. */
  tls,
  /** Names, beside loopback ones, under which clients reach the service (`Host` header, without port). */
  allowedHosts: z.array(hostName).default([]),
  /** Web origins that may call; a browser sends `Origin`, agents do not. No preflight (CORS) is answered: a proxy serves page and service under one origin. */
  allowedOrigins: z.array(origin).default([]),
  /** The URL under which agents know the service. With it `/.well-known/oauth-protected-resource` tells who issues tokens for it (RFC 9728). */
  resource,
  /** Scopes that the same page names as worth asking for. */
  resourceScopes: z
    .array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,128}$/, "must be a scope's name (RFC 6749, 3.3)"))
    .max(SCOPES_MAX)
    .optional(),
} as const;

interface Doors {
  readonly port: number | "off";
  readonly socket?: string | undefined;
  readonly tls?: z.output<typeof tls>;
  readonly resource?: string | undefined;
  readonly resourceScopes?: readonly string[] | undefined;
}

/** What of the keys contradicts the rest. */
export function checkDoors(server: Doors, context: z.core.$RefinementCtx): void {
  const add = (key: string, message: string): void => {
    context.addIssue({ code: "custom", path: key.split("."), message });
  };
  if (server.port === "off" && server.socket === undefined) add("port", "is off, and there is no socket either");
  if (server.port === "off" && server.tls !== undefined) add("tls", "is for the port, which is off");
  if (server.tls?.clientCertificates === "require" && server.tls.clientCaFile === undefined) {
    add("tls.clientCaFile", "is missing: certificates are required, and nothing says whose");
  }
  if (server.resourceScopes !== undefined && server.resource === undefined) {
    add("resourceScopes", "stands on the page that server.resource makes, and there is none");
  }
}
