import { createHash, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { RUNTIMES } from "./runtimes.ts";
import { hexOf, purl } from "./sbom.ts";
import { MANIFEST, ROOT, type Source } from "./source.ts";

const PAYLOAD_TYPE = "application/vnd.in-toto+json";

/** A file of the release and its SHA-256 in hexadecimal. */
export interface Digested {
  readonly name: string;
  readonly sha256: string;
}

/** What a DSSE envelope carries, and who signed it. */
export interface Envelope {
  readonly payloadType: string;
  /** In base64. */
  readonly payload: string;
  readonly signatures: readonly { readonly keyid: string; readonly sig: string }[];
}

interface Statement {
  readonly subject: readonly { readonly name: string; readonly digest: { readonly sha256: string } }[];
}

/**
 * Returns how the files were made, as an in-toto statement with the predicate of SLSA 1.0. It holds no time and no name of a machine:
 * the same source and key give the same envelope.
 */
export async function statementOf(files: readonly Digested[], { commit }: Source): Promise<object> {
  const repository = MANIFEST.repository.url;
  const page = `${repository.replace(/^git\+|\.git$/g, "")}/blob/${commit}/docs/releasing.md`;
  const source = { uri: `${repository}@${commit}`, digest: { gitCommit: commit } };
  const lock = createHash("sha256")
    .update(await Bun.file(`${ROOT}/bun.lock`).bytes())
    .digest("hex");
  const runtimes = RUNTIMES.map(({ package: name, integrity }) => ({
    uri: purl({ name, version: MANIFEST.engines.bun }),
    digest: { sha512: hexOf(integrity) },
  }));
  return {
    _type: "https://in-toto.io/Statement/v1",
    subject: files.map(({ name, sha256 }) => ({ name, digest: { sha256 } })),
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: `${page}#build-a-release`,
        externalParameters: { source, command: ["bun", "run", "release"] },
        resolvedDependencies: [source, { name: "bun.lock", digest: { sha256: lock } }, ...runtimes],
      },
      runDetails: { builder: { id: `${page}#who-builds` } },
    },
  };
}

/** Signs a statement in an envelope of DSSE. */
export function sealed(statement: object, key: KeyObject): Envelope {
  const payload = Buffer.from(JSON.stringify(statement));
  const sig = sign(null, preAuthenticationEncoding(PAYLOAD_TYPE, payload), key).toString("base64");
  const signatures = [{ keyid: keyId(createPublicKey(key)), sig }];
  return { payloadType: PAYLOAD_TYPE, payload: payload.toString("base64"), signatures };
}

/**
 * Returns the statement of an envelope.
 * @throws {Error} when none of the keys signed it
 */
export function opened({ payloadType, payload, signatures }: Envelope, keys: readonly KeyObject[]): Statement {
  const bytes = Buffer.from(payload, "base64");
  const signed = preAuthenticationEncoding(payloadType, bytes);
  const valid = signatures.some(({ sig }) => keys.some((key) => verify(null, signed, key, Buffer.from(sig, "base64"))));
  if (!valid || payloadType !== PAYLOAD_TYPE) throw new Error("the provenance is not signed by an allowed key");
  return JSON.parse(bytes.toString()) as Statement;
}

/** Returns what DSSE signs: type and payload, each with its length in bytes. */
function preAuthenticationEncoding(type: string, payload: Buffer): Buffer {
  const head = `DSSEv1 ${Buffer.byteLength(type)} ${type} ${payload.length} `;
  return Buffer.concat([Buffer.from(head), payload]);
}

/** Returns the SHA-256 of the public key in DER. */
function keyId(key: KeyObject): string {
  return createHash("sha256")
    .update(key.export({ type: "spki", format: "der" }))
    .digest("hex");
}
