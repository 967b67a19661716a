import { z } from "zod";
import { hasPort, NO_PORT } from "../../core/network.ts";
import { checkClientCertificate, clientCertificate, count, plaintext, text } from "../settings.ts";

/** Settings of a system that is called over gRPC: its addresses, and how they are connected. Loads no gRPC package. */

export const ENDPOINTS_MAX = 16;

/** Matches a name, an IPv4 address, or an IPv6 address in brackets, with a port. */
const ENDPOINT = /^(?:dns:(?:\/\/\/)?)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}$/;
const endpoint = z
  .string()
  .regex(ENDPOINT, "must be host:port or [IPv6]:port: no scheme, no Unix socket")
  .refine(hasPort, NO_PORT);

const tls = z.strictObject({
  rootCert: text.describe("File with the trusted root certificates, PEM."),
  ...clientCertificate,
  serverName: text.optional().describe("Name in the server's certificate, when it differs from the endpoint's host."),
});

export const keepalive = z
  .strictObject({
    intervalMs: count(310_000, 86_400_000, 10_000).describe(
      "Time between two pings. By default, servers of the gRPC family disconnect a client that pings more often than every 5 minutes.",
    ),
    timeoutMs: count(20_000, 600_000, 1_000).describe("Time for the answer to a ping."),
    withoutCalls: z.boolean().default(false).describe("Whether to ping while no call is under way."),
  })
  .prefault({});

export type Keepalive = Readonly<z.output<typeof keepalive>>;

export const KEEPALIVE_DEFAULTS: Keepalive = keepalive.parse({});

/** Where the system is. */
export const grpcAddress = {
  endpoint: endpoint.optional().describe("Address as `host:port`."),
  endpoints: z
    .array(endpoint)
    .min(1)
    .max(ENDPOINTS_MAX)
    .optional()
    .describe("Several equivalent endpoints (host:port); calls go to each in turn."),
} as const;

/** How its connections are secured. */
export const grpcTls = {
  tls: tls.optional(),
  plaintext: plaintext.describe("Set to `true` to reach this system without TLS; leaving out `tls` alone is an error."),
} as const;

type Entry = z.output<z.ZodObject<typeof grpcAddress & typeof grpcTls>>;

/** Returns whether the entry has an address; `NO_ENDPOINT` is the issue of one that has none. */
export const hasEndpoint = ({ endpoint: one, endpoints: several }: Entry): boolean => (one ?? several) !== undefined;

export const NO_ENDPOINT = {
  path: ["endpoint"],
  message: "is missing; it is text: host:port (or endpoints, a list of them)",
  // Checked even when there is an unknown key, which may be this one with a typo.
  when: () => true,
};

/** Adds the problems of settings that exclude or need each other. */
export function checkTransport(entry: Entry, context: z.RefinementCtx): void {
  if (entry.endpoint !== undefined && entry.endpoints !== undefined) {
    context.addIssue({ code: "custom", path: ["endpoints"], message: "and endpoint exclude each other" });
  }
  if ((entry.tls === undefined) === (entry.plaintext === undefined)) {
    context.addIssue({ code: "custom", message: "needs tls, or plaintext: true, and not both" });
  }
  checkClientCertificate(entry, context);
}
