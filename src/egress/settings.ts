import { z } from "zod";
import { errorText } from "../core/error-text.ts";
import { isLoopback } from "../core/network.ts";
import type { TargetContext } from "../core/target-kind.ts";
import { type AddressRules, addressProblem, literalAddress, readAddressRules } from "./addresses.ts";
import { readNamed } from "./certificates.ts";
import type { EgressTls } from "./client.ts";
import type { ResilienceLimits } from "./resilience.ts";
import { type CertificateSource, certificateFiles, type TlsFiles } from "./rotation.ts";

/** Settings that systems of several kinds have: their schemas, and how the files that they name are read. */

export const text = z.string().min(1);

export function count(fallback: number, max: number, min = 1) {
  return z.int().min(min).max(max).default(fallback);
}

/** The members of `tls` that are the service's own. */
export const clientCertificate = {
  clientCert: text
    .optional()
    .describe("File with the client certificate, PEM. A changed file is used without interruption."),
  clientKey: text.optional().describe("File with the private key of the client certificate, PEM."),
} as const;

const tls = z.strictObject({
  rootCert: text.optional().describe("File with the trusted root certificates, PEM. Default: those of the platform."),
  ...clientCertificate,
  serverName: text.optional().describe("Name in the server's certificate, when it differs from the URL's host."),
});

export const plaintext = z.literal(true, "must be true, or left out").optional();

export const addresses = z
  .array(text)
  .min(1)
  .max(64)
  .superRefine((names, context) => {
    const rules = readAddressRules(names);
    if ("problem" in rules) context.addIssue({ code: "custom", message: rules.problem });
  });

/** Settings of a system that is reached at a URL. */
export const urlSettings = {
  tls: tls.optional(),
  plaintext: plaintext.describe("Set to `true` for an `http://` URL of a host other than this one."),
  addresses: addresses
    .default(["public"])
    .describe(
      "Addresses that the host may have: `public`, `private`, `loopback`, and networks such as `10.1.0.0/16`. If the host has any other address, nothing is sent. Metadata and link-local addresses are refused always.",
    ),
} as const;

const URL_CHARACTERS_MAX = 2_048;

/** Returns the schema of a URL. `problem` returns what else is wrong with one. */
export function url(problem: (value: string) => string | undefined = () => undefined) {
  return z
    .string()
    .max(URL_CHARACTERS_MAX)
    .superRefine((value, context) => {
      const message = urlProblem(value) ?? problem(value);
      if (message !== undefined) context.addIssue({ code: "custom", message });
    });
}

function urlProblem(value: string): string | undefined {
  const parsed = URL.parse(value);
  if (parsed === null || !/^https?:$/.test(parsed.protocol))
    return "must be a URL that begins with https:// or http://";
  if (parsed.username !== "" || parsed.password !== "") return "holds credentials: set auth";
  return /[?#]/.test(value) ? "must not have a query or a fragment" : undefined;
}

interface UrlEntry {
  readonly plaintext?: true | undefined;
  readonly tls?: TlsFiles | undefined;
  readonly addresses: readonly string[];
}

/** Adds the problems of a URL with the settings next to it. `key`: the setting that holds the URL. */
export function checkUrl(key: string, value: string, entry: UrlEntry, context: z.RefinementCtx): void {
  const issue = (path: string, message: string): void => context.addIssue({ code: "custom", path: [path], message });
  const parsed = URL.parse(value);
  if (parsed?.protocol === "http:") {
    if (entry.tls !== undefined) issue("tls", "is only for an https:// URL");
    if (entry.plaintext !== true && !isLoopback(parsed.hostname))
      issue(key, "is not https: set plaintext: true to allow that");
  } else if (entry.plaintext === true) {
    issue("plaintext", "is only for an http:// URL");
  }
  checkClientCertificate(entry, context);
  const refused = refusedAddress(value, entry.addresses);
  if (refused !== undefined) issue(key, refused);
}

/** Adds a problem when only one of the two files is named. */
export function checkClientCertificate({ tls: files }: Pick<UrlEntry, "tls">, context: z.RefinementCtx): void {
  if ((files?.clientCert === undefined) === (files?.clientKey === undefined)) return;
  context.addIssue({ code: "custom", path: ["tls"], message: "clientCert and clientKey go together" });
}

/** Returns the problem of a URL whose host is an address that the rules refuse. */
export function refusedAddress(value: string, names: readonly string[]): string | undefined {
  const literal = literalAddress(URL.parse(value)?.hostname ?? "");
  const rules = readAddressRules(names);
  const refused = literal === undefined || "problem" in rules ? undefined : addressProblem(literal, rules);
  return refused && `its address is ${refused}, which addresses does not allow`;
}

/** Returns the rules of names that the schema has accepted. */
export function addressRules(names: readonly string[]): AddressRules {
  const rules = readAddressRules(names);
  if ("problem" in rules) throw new Error(rules.problem);
  return rules;
}

/** Limits of a system's calls. */
export const callLimits = {
  retries: count(2, 2, 0).describe(
    "Maximum retries of a call that only reads or is idempotent, when the service was unavailable.",
  ),
  breaker: z
    .strictObject({
      failuresMax: count(10, 10_000).describe(
        "Consecutive connection errors that open the circuit. Errors returned by the service itself do not count.",
      ),
      openMs: count(2_000, 600_000).describe("Time for which an open circuit lets no call through."),
    })
    .prefault({}),
  concurrentCallsMax: count(256, 100_000).describe("Maximum concurrent calls to this system, all tools together."),
} as const;

interface CallLimits {
  readonly retries: number;
  readonly breaker: { readonly failuresMax: number; readonly openMs: number };
  readonly concurrentCallsMax: number;
}

export function resilienceOf({ retries, breaker, concurrentCallsMax }: CallLimits): ResilienceLimits {
  return {
    ...{ concurrentCallsMax, retriesMax: retries },
    ...{ circuitFailuresMax: breaker.failuresMax, circuitOpenMs: breaker.openMs },
  };
}

type Reading = Pick<TargetContext, "readFile" | "watchFiles" | "pathOf" | "problems">;

/** Reads the certificates of a system. Returns undefined after a problem. */
export function readTls(
  context: Reading,
  files: TlsFiles,
  field: string,
): { readonly tls: EgressTls; readonly certificates: CertificateSource } | undefined {
  for (const key of ["rootCert", "clientCert", "clientKey"] as const) {
    const path = files[key];
    if (path !== undefined && readNamed(context, path, `${field}.${key}`) === undefined) return undefined;
  }
  const certificates = certificateFiles(files, context);
  return { tls: certificates.read(), certificates };
}

/** Reads a file once, to report a problem at the start. Returns how it is read later; undefined after a problem. */
export function fileReader<T>(
  context: Reading,
  { path, field, parse }: { readonly path: string; readonly field: string; readonly parse: (bytes: Buffer) => T },
): (() => T) | undefined {
  const bytes = readNamed(context, path, field);
  if (bytes === undefined) return undefined;
  try {
    parse(bytes);
  } catch (error) {
    context.problems.push(`${field}: ${path} ${errorText(error)}`);
    return undefined;
  }
  return () => parse(context.readFile(path));
}

export const SECRET_CHARACTERS_MAX = 16_384;

/** Returns whether a text can be a token or a password in a header. */
export function isSecret(value: string): boolean {
  return value.length <= SECRET_CHARACTERS_MAX && /^[\x21-\x7e]+$/.test(value);
}

/** Reads a secret from a file's text. @throws {Error} that does not quote it */
export function readSecret(bytes: Buffer): string {
  const secret = bytes.toString("utf8").trim();
  if (!isSecret(secret)) throw new Error("must hold one line of visible ASCII");
  return secret;
}
