import { z } from "zod";
import { isLoopback } from "../../core/network.ts";
import { problemAdder, text } from "./values.ts";

/**
 * Declares how the service listens, apart from a plain port: every key and default of `server.socket*`, `server.tls` and
 * `server.resource*`, of `server.console` and of the section `console`.
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

const ownerOrGroup = z.enum(["0600", "0660"], { error: 'must be "0600" or "0660", in quotes' }).default("0600");

/** URL of a server that people's browsers or this service send credentials to. */
const trustedUrl = z
  .url({ protocol: /^https?$/, error: "must be a URL that begins with https://" })
  .refine(
    (url) => url.startsWith("https://") || isLoopback(URL.parse(url)?.hostname ?? ""),
    "must be https: what is sent over plain http can be read on the way",
  )
  .refine((url) => !hasUser(url), "must not hold a user name or a password");

const consoleListener = z
  .strictObject({
    /** Address of this machine. Without `tls`, only a loopback address: browsers would send sessions in plain text. */
    host: text.default("127.0.0.1"),
    /** Port of the console. Without this section there is no console. */
    port: z.int().min(0).max(65_535).default(8788),
    /** TLS for the port, with keys like those of `server.tls`. */
    tls,
    /** Path of a Unix socket for a reverse proxy, in place of host and port. */
    socket: z.string().min(1).optional(),
    /** Who may connect to the socket: its owner (`0600`), or also its group (`0660`). */
    socketMode: ownerOrGroup,
    /** Address under which browsers reach the console, without a path: `https://console.example`. */
    publicUrl: trustedUrl
      .refine((url) => URL.parse(url)?.pathname === "/" && !/[?#]/.test(url), "must end after the host and the port")
      .optional(),
    /** Host names, in addition to that of `publicUrl`, under which browsers reach the console (without port). */
    allowedHosts: z.array(hostName).default([]),
  })
  .superRefine(({ host, tls: secured, socket, publicUrl, allowedHosts }, context) => {
    const add = problemAdder(context);
    if (socket !== undefined && secured !== undefined)
      add("tls", "is for the port, which server.console.socket replaces");
    if (socket !== undefined && publicUrl === undefined) {
      add("publicUrl", "is missing: browsers reach the socket through a proxy, whose address must be known");
    }
    if (socket !== undefined || isLoopback(host)) return;
    if (secured === undefined)
      add("tls", `is missing: without TLS, the console listens on loopback only, not on ${host}`);
    if (isWildcard(host) && publicUrl === undefined && allowedHosts.length === 0) {
      add("publicUrl", `is missing: with the host ${host}, no name is known under which browsers reach the console`);
    }
  })
  .optional();

function isWildcard(host: string): boolean {
  return host === "0.0.0.0" || host === "::";
}

const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]{1,128}$/;

/** The section `console`: how people sign in to the console of `server.console`. */
export const consoleSection = z
  .strictObject({
    /**
     * Sign-in at an OpenID provider (authorization code with PKCE). The access tokens that it issues must be those of an issuer
     * in `jwt.issuers` with `operators: true`. Register `<publicUrl>/console/oidc` there as the redirect URI. Without this key,
     * people paste an operator's token.
     */
    oidc: z
      .strictObject({
        /** The provider's issuer URL; its metadata is read from `/.well-known/openid-configuration` below it. */
        issuer: trustedUrl,
        /** Name of the console at the provider. */
        clientId: z.string().min(1).max(512),
        /** File with the client's secret. Without it, the client is public, and PKCE alone protects the code. */
        clientSecretFile: text.optional(),
        /** File with the certificates (PEM) trusted for the provider, instead of the system's. */
        caFile: text.optional(),
        /** Scopes to request. `offline_access` makes many providers issue a refresh token. */
        scopes: z
          .array(z.string().regex(SCOPE, "must be a scope's name (RFC 6749, 3.3)"))
          .min(1)
          .max(64)
          .default(["openid"]),
        /** The operators' audience, as the parameter `resource` of RFC 8707. */
        resource: z.url().optional(),
        /** The operators' audience, as the parameter `audience` that some providers expect instead. */
        audience: text.optional(),
        /**
         * Whether operators' tokens of this issuer must have the `typ` `at+jwt` (RFC 9068), so that an ID token never counts as one.
         * `false`: the provider does not issue it. `jwt.issuers[].typ` and `profile` come first.
         */
        requireAtJwt: z.boolean().default(true),
      })
      .optional(),
  })
  .optional();

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
  socketMode: ownerOrGroup,
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
  resourceScopes: z.array(z.string().regex(SCOPE, "must be a scope's name (RFC 6749, 3.3)")).max(SCOPES_MAX).optional(),
  /**
   * A separate listener with the operators' console (`/console`) and all operators' endpoints, for people's browsers and for
   * operators' tools.
   */
  console: consoleListener,
  /** Whether the listener for calls also has the operators' endpoints. `false` needs `server.console`. */
  operatorsOnAgentPort: z.boolean().default(true),
} as const;

interface ListenerSettings {
  readonly port: number | "off";
  readonly socket?: string | undefined;
  readonly tls?: z.output<typeof tls>;
  readonly resource?: string | undefined;
  readonly resourceScopes?: readonly string[] | undefined;
  readonly console?: z.output<typeof consoleListener>;
  readonly operatorsOnAgentPort: boolean;
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
  if (!server.operatorsOnAgentPort && server.console === undefined) {
    add("operatorsOnAgentPort", "is false, and there is no server.console either: operators would have no listener");
  }
}
