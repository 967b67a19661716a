import "reflect-metadata";
import { KeyObject } from "node:crypto";
import * as x509 from "@peculiar/x509";
import {
  type CertificateSet,
  DEVELOPMENT_SERVER_NAME,
  type PemPair,
  type ValidityDates,
} from "../../../../src/cli/development/certificates.ts";

const ECDSA = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;
const VALID: ValidityDates = { notBefore: new Date(946_684_800_000), notAfter: new Date(4_102_444_800_000) };

/** A certificate authority that can sign further certificates. */
export interface Authority {
  readonly rootCert: string;
  client(validity?: ValidityDates): Promise<PemPair>;
  server(validity?: ValidityDates): Promise<PemPair>;
  set(): Promise<CertificateSet>;
}

const makeKeys = (): Promise<CryptoKeyPair> =>
  crypto.subtle.generateKey(ECDSA, true, ["sign", "verify"]) as Promise<CryptoKeyPair>;

export async function makeAuthority(commonName: string): Promise<Authority> {
  const keys = await makeKeys();
  const name = `CN=${commonName}`;
  const root = await x509.X509CertificateGenerator.createSelfSigned({
    name,
    keys,
    ...VALID,
    signingAlgorithm: ECDSA,
    extensions: [new x509.BasicConstraintsExtension(true, 0, true)],
  });
  const leaf = async (subject: string, validity: ValidityDates): Promise<PemPair> => {
    const own = await makeKeys();
    const certificate = await x509.X509CertificateGenerator.create({
      subject: `CN=${subject}`,
      issuer: name,
      ...validity,
      publicKey: own.publicKey,
      signingKey: keys.privateKey,
      signingAlgorithm: ECDSA,
      extensions: [new x509.SubjectAlternativeNameExtension([{ type: "dns", value: subject }])],
    });
    const key = KeyObject.from(own.privateKey).export({ type: "pkcs8", format: "pem" });
    return { cert: certificate.toString("pem"), key: key.toString() };
  };
  const client = (validity = VALID): Promise<PemPair> => leaf("proxy.test", validity);
  const server = (validity = VALID): Promise<PemPair> => leaf(DEVELOPMENT_SERVER_NAME, validity);
  const rootCert = root.toString("pem");
  return {
    rootCert,
    client,
    server,
    set: async () => ({ rootCert, server: await server(), client: await client() }),
  };
}
