import { z } from "zod";
import { isLoopback } from "../../core/network.ts";
import { problemAdder, text } from "./values.ts";

/**
 * Declares how the service listens, apart from a plain port: every key and default of `server.socket*`, `server.tls` and
 * `server.resource*`.
 */

const SCOPES_MAX = 256;

const tls = z
  .strictObject({
    /**
     * File with the service's certificate and the intermediate certificates, PEM. Certificate and key are read again when their
     * files change.
     */
    certFile: text,
    /** File with the private key of the certificate, PEM. */
    keyFile: text,
    /**
     * File with the root certificates (PEM) that clients' certificates must come from. Without it, no client certificate is
     * requested.
     */
    clientCaFile: text.optional(),
    /** Whether clients need a certificate. `request`: it is optional; `require`: a client without one cannot send a request. */
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
  // Anyone may read this URL.
  .refine((url) => !hasUser(url), "must not hold a user name or a password")
  .optional();

/** A `Host` header in lower case, without the port. */
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
    "must be an origin as browsers send it, such as https://pages.example: no path, no default port, no pattern",
  );

/**
 * Returns whether the text is an origin. An http or https origin must be normalized; other schemes, such as those of browser
 * extensions, are only checked for their form.
 */
function isOrigin(text: string): boolean {
  if (!/^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@\\*]+$/.test(text)) return false;
  const spelled = URL.parse(text)?.origin;
  return spelled === text || spelled === "null";
}

/** Keys of the section `server`. */
export const listenerKeys = {
  /** Port for calls; `off`: the service listens on the socket only. */
  port: z
    .union([z.int().min(0).max(65_535), z.literal("off")], {
      error: "must be a number from 0 to 65535, without quotes, or off",
    })
    .default(8787),
  /** Path of a Unix socket that also accepts calls, at most 90 bytes. The socket is created at start and removed at the end. */
  socket: z.string().min(1).optional(),
  /** Who may connect to the socket: its owner (`0600`), or also its group (`0660`). */
  socketMode: z.enum(["0600", "0660"], { error: 'must be "0600" or "0660", in quotes' }).default("0600"),
  /** TLS for the port for calls: with this section, the port accepts only TLS 1.2 and 1.3. */
  tls,
  /** Host names, in addition to loopback names, under which clients reach the service (`Host` header, without port). */
  allowedHosts: z.array(hostName).default([]),
  /**
   * Web origins that may send calls; browsers send `Origin`, agents do not. CORS preflights are not answered: serve the page and
   * the service under one origin through a proxy.
   */
  allowedOrigins: z.array(origin).default([]),
  /**
   * URL under which agents know the service. With it, `/.well-known/oauth-protected-resource` lists who issues tokens for the
   * service (RFC 9728).
   */
  resource,
  /** Scopes that `/.well-known/oauth-protected-resource` lists as worth requesting. */
  resourceScopes: z
    .array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,128}$/, "must be a scope's name (RFC 6749, 3.3)"))
    .max(SCOPES_MAX)
    .optional(),
} as const;

interface ListenerSettings {
  readonly port: number | "off";
  readonly socket?: string | undefined;
  readonly tls?: z.output<typeof tls>;
  readonly resource?: string | undefined;
  readonly resourceScopes?: readonly string[] | undefined;
}

/** Reports keys of the section `server` that contradict each other. */
export function checkListeners(server: ListenerSettings, context: z.core.$RefinementCtx): void {
  const add = problemAdder(context);
  if (server.port === "off" && server.socket === undefined) add("port", "is off, and there is no socket either");
  if (server.port === "off" && server.tls !== undefined) add("tls", "is for the port, which is off");
  if (server.tls?.clientCertificates === "require" && server.tls.clientCaFile === undefined) {
    add("tls.clientCaFile", "is missing: certificates are required, but no authority is configured");
  }
  if (server.resourceScopes !== undefined && server.resource === undefined) {
    add("resourceScopes", "is part of the metadata of server.resource, which is missing");
  }
}
