import "reflect-metadata";
import { createHash } from "node:crypto";
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as x509 from "@peculiar/x509";

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;
const HOUR_MS = 3_600_000;

export interface Pair {
  readonly cert: string;
  readonly key: string;
  /** SHA-256 of the certificate, base64url. */
  readonly thumbprint: string;
}

export interface LeafOptions {
  readonly names?: Readonly<x509.JsonGeneralNames>;
  readonly notBefore?: Date;
  readonly notAfter?: Date;
  /** May sign certificates itself. */
  readonly isAuthority?: boolean;
  /** Object identifiers of extended key usages. */
  readonly usages?: readonly string[];
}

/** An authority whose certificates are good at the moment. */
export class Authority {
  readonly #keys: CryptoKeyPair;
  readonly #root: x509.X509Certificate;

  private constructor(keys: CryptoKeyPair, root: x509.X509Certificate) {
    this.#keys = keys;
    this.#root = root;
  }

  static async create(name: string): Promise<Authority> {
    const keys = await newKeys();
    const extensions = [new x509.BasicConstraintsExtension(true)];
    const root = await x509.X509CertificateGenerator.createSelfSigned({
      ...{ name: `CN=${name}`, keys, extensions, signingAlgorithm: ALGORITHM, serialNumber: "01" },
      ...{ notBefore: hence(-HOUR_MS), notAfter: hence(HOUR_MS) },
    });
    return new Authority(keys, root);
  }

  get pem(): string {
    return this.#root.toString("pem");
  }

  async issue(name: string, options: LeafOptions = {}): Promise<Pair> {
    const keys = await newKeys();
    const {
      names = [
        { type: "dns", value: "localhost" },
        { type: "ip", value: "127.0.0.1" },
      ],
    } = options;
    const certificate = await x509.X509CertificateGenerator.create({
      ...{ subject: `CN=${name}`, issuer: this.#root.subject, serialNumber: "02" },
      ...{ publicKey: keys.publicKey, signingKey: this.#keys.privateKey, signingAlgorithm: ALGORITHM },
      extensions: [
        ...(names.length === 0 ? [] : [new x509.SubjectAlternativeNameExtension([...names])]),
        ...(options.isAuthority === true ? [new x509.BasicConstraintsExtension(true)] : []),
        ...(options.usages === undefined ? [] : [new x509.ExtendedKeyUsageExtension([...options.usages])]),
      ],
      ...{ notBefore: options.notBefore ?? hence(-HOUR_MS), notAfter: options.notAfter ?? hence(HOUR_MS) },
    });
    const pkcs8 = await crypto.subtle.exportKey("pkcs8", keys.privateKey);
    const der = Buffer.from(certificate.rawData);
    return {
      cert: certificate.toString("pem"),
      key: x509.PemConverter.encode(pkcs8, "PRIVATE KEY"),
      thumbprint: createHash("sha256").update(der).digest("base64url"),
    };
  }
}

export function hence(ms: number): Date {
  return new Date(Date.now() + ms);
}

/** Puts a file in another's place at once, as Kubernetes does. */
export function replaceFile(folder: string, name: string, text: string): void {
  writeFileSync(join(folder, `${name}.new`), text);
  renameSync(join(folder, `${name}.new`), join(folder, name));
}

function newKeys(): Promise<CryptoKeyPair> {
  return crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]) as Promise<CryptoKeyPair>;
}
