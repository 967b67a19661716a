import { createPrivateKey, X509Certificate } from "node:crypto";
import type { EpochMs } from "../../core/types.ts";
import type { Config } from "../../runtime/config/config.ts";
import { namedPaths } from "../../runtime/config/own-paths.ts";
import { type Check, type CheckFinding, configured, failed, notApplicable, ok, warning } from "./check.ts";
import { smallFile } from "./files.ts";

const DAY_MS = 86_400_000;
const WARNING_DAYS = 30;
const URGENT_DAYS = 14;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;
/** Fields of certificates that the service presents; the key is named next to each. Other files hold authorities that it trusts. */
const PRESENTED: Readonly<Record<string, string>> = { certFile: "keyFile", clientCert: "clientKey" };
const RUNBOOK = "docs/runbooks.md#safetoolcallcertificateends";
const ROTATE = "docs/operating.md#rotate";

interface CertificateFile {
  readonly field: string;
  readonly path: string;
  readonly chain: readonly X509Certificate[];
  /** The file of the key; undefined for authorities. */
  readonly keyPath: string | undefined;
}

export const certificates: Check = configured("certificates", (config, { now }) => {
  const files = certificateFiles(config);
  if (files.length === 0) return notApplicable("the configuration names no certificate");
  const findings = files.flatMap((file) => [
    ...dateProblems(file, now()),
    ...pairProblems(file),
    ...nameProblems(file, config),
  ]);
  return findings.length > 0 ? findings : files.map((file) => ok(`${file.field}: ${endText(endOf(file), now())}`));
});

function certificateFiles(config: Config): readonly CertificateFile[] {
  const paths = namedPaths(config);
  return paths.flatMap(({ field, path }) => {
    const chain = certificatesIn(smallFile(path) ?? "");
    if (chain.length === 0) return [];
    const key = field.split(".").at(-1) ?? "";
    const keyField = PRESENTED[key] === undefined ? undefined : field.replace(/[^.]+$/, PRESENTED[key]);
    return [{ field, path, chain, keyPath: paths.find((other) => other.field === keyField)?.path }];
  });
}

/** A certificate that cannot be read is a problem of the configuration. */
function certificatesIn(pem: string): readonly X509Certificate[] {
  try {
    return (pem.match(CERTIFICATE) ?? []).map((block) => new X509Certificate(block));
  } catch {
    return [];
  }
}

/** A chain ends with its first certificate that does; authorities with the last one, since they are exchanged one by one. */
function endOf({ chain, keyPath }: CertificateFile): EpochMs {
  const ends = chain.map(({ validTo }) => Date.parse(validTo));
  return keyPath === undefined ? Math.max(...ends) : Math.min(...ends);
}

function endText(endMs: EpochMs, nowMs: EpochMs): string {
  const days = Math.floor(Math.abs(endMs - nowMs) / DAY_MS);
  const count = `${days} ${days === 1 ? "day" : "days"}`;
  const day = new Date(endMs).toISOString().slice(0, 10);
  return endMs <= nowMs ? `ended ${count} ago, on ${day}` : `ends in ${count}, on ${day}`;
}

function dateProblems(file: CertificateFile, nowMs: EpochMs): readonly CheckFinding[] {
  const endMs = endOf(file);
  const beginMs = Math.max(...file.chain.map(({ validFrom }) => Date.parse(validFrom)));
  const at = `${file.field}: ${file.path}`;
  if (endMs <= nowMs) return [failed(`${at} ${endText(endMs, nowMs)}`, `Renew it. ${RUNBOOK}`)];
  if (file.keyPath !== undefined && beginMs > nowMs) {
    const begin = new Date(beginMs).toISOString();
    return [failed(`${at} is not valid before ${begin}`, "Compare this machine's clock with the authority's.")];
  }
  if (endMs - nowMs > WARNING_DAYS * DAY_MS) return [];
  const isUrgent = endMs - nowMs <= URGENT_DAYS * DAY_MS;
  return [
    warning(`${at} ${endText(endMs, nowMs)}`, isUrgent ? `Renew it now. ${RUNBOOK}` : `Plan its renewal. ${ROTATE}`),
  ];
}

function pairProblems({ field, path, chain, keyPath }: CertificateFile): readonly CheckFinding[] {
  const [leaf, ...others] = chain;
  const pem = keyPath === undefined ? undefined : smallFile(keyPath);
  if (leaf === undefined || pem === undefined) return [];
  const at = `${field}: ${path}`;
  const isChain = others.every((issuer, index) => chain[index]?.checkIssued(issuer) === true);
  return [
    ...(fits(leaf, pem) ? [] : [failed(`${at}: ${keyPath} is not its key`, "Replace both files together.")]),
    ...(isChain
      ? []
      : [
          warning(
            `${at}: its certificates are not a chain`,
            "After the certificate, write the one of its issuer, and so on.",
          ),
        ]),
  ];
}

function fits(certificate: X509Certificate, pem: string): boolean {
  try {
    return certificate.checkPrivateKey(createPrivateKey(pem));
  } catch {
    return false;
  }
}

/** Names under which clients reach the listener that presents a certificate. */
function nameProblems({ field, path, chain: [leaf] }: CertificateFile, { server }: Config): readonly CheckFinding[] {
  const hostOf = (url: string | undefined): readonly string[] => (url === undefined ? [] : [new URL(url).hostname]);
  const names: Readonly<Record<string, readonly string[]>> = {
    "server.tls.certFile": [...hostOf(server.resource), ...server.allowedHosts],
    "server.console.tls.certFile": [...hostOf(server.console?.publicUrl), ...(server.console?.allowedHosts ?? [])],
  };
  const missing = (names[field] ?? []).filter((name) => leaf !== undefined && !isFor(leaf, name));
  if (missing.length === 0) return [];
  const next =
    "Clients refuse it under these names, unless a proxy in front presents another: add them to the certificate.";
  return [warning(`${field}: ${path} is not for ${missing.join(", ")}`, next)];
}

function isFor(certificate: X509Certificate, name: string): boolean {
  const address = name.replace(/^\[|\]$/g, "");
  return (/^[\d.]+$|:/.test(address) ? certificate.checkIP(address) : certificate.checkHost(name)) !== undefined;
}
