import { expect, test } from "bun:test";
import { z } from "zod";
import {
  checkTransport,
  grpcAddress,
  grpcTls,
  hasEndpoint,
  KEEPALIVE_DEFAULTS,
  keepalive,
  NO_ENDPOINT,
} from "../../../src/egress/grpc/settings.ts";
import { readTls } from "../../../src/egress/settings.ts";

/** Settings that no target declares: those of anything else that is called over gRPC. */
const schema = z
  .strictObject({ ...grpcAddress, ...grpcTls, keepalive })
  .refine(hasEndpoint, NO_ENDPOINT)
  .superRefine(checkTransport);

const tls = { rootCert: "root.pem" };

test.each([
  ["a name and TLS", { endpoint: "policies.example:50051", tls }],
  ["an IPv6 address without TLS", { endpoint: "[::1]:50051", plaintext: true }],
  ["several endpoints", { endpoints: ["a:1", "dns:///b:65535"], tls: { ...tls, clientCert: "c", clientKey: "k" } }],
])("%s is accepted, with the default keepalive", (_, entry) => {
  expect(schema.parse(entry)).toEqual({ ...entry, keepalive: { ...KEEPALIVE_DEFAULTS } } as never);
});

test.each([
  ["no endpoint", { tls }, "endpoint: is missing; it is text: host:port (or endpoints, a list of them)"],
  ["two kinds of endpoint", { endpoint: "a:1", endpoints: ["b:1"], tls }, "endpoints: and endpoint exclude each other"],
  [
    "a scheme",
    { endpoint: "unix:///run/a.sock", tls },
    "endpoint: must be host:port or [IPv6]:port: no scheme, no Unix socket",
  ],
  ["neither TLS nor plaintext", { endpoint: "a:1" }, ": needs tls, or plaintext: true, and not both"],
  ["TLS and plaintext", { endpoint: "a:1", tls, plaintext: true }, ": needs tls, or plaintext: true, and not both"],
  [
    "a certificate without its key",
    { endpoint: "a:1", tls: { ...tls, clientCert: "c" } },
    "tls: clientCert and clientKey go together",
  ],
])("%s is refused", (_, entry, problem) => {
  const { error } = schema.safeParse(entry);
  expect(error?.issues.map(({ path, message }) => `${path.join(".")}: ${message}`)).toEqual([problem]);
});

test("every TLS file that cannot be read is reported", () => {
  const problems: string[] = [];
  const readFile = (path: string): Buffer => {
    if (path === "root.pem") return Buffer.from("");
    throw Object.assign(new Error(), { code: "ENOENT" });
  };
  const context = { problems, readFile, pathOf: (path: string) => path, watchFiles: () => () => {} };
  expect(readTls(context, { ...tls, clientCert: "cert.pem", clientKey: "key.pem" }, "policies.tls")).toBeUndefined();
  expect(problems).toEqual([
    "policies.tls.clientCert: cert.pem cannot be read (ENOENT)",
    "policies.tls.clientKey: key.pem cannot be read (ENOENT)",
  ]);
});
