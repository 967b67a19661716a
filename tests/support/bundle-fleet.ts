import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { mkdirSync, mkdtempSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { build, manifestIn, withManifest } from "../../src/bundles/build.ts";
import type { BundleExpectations } from "../../src/bundles/checks.ts";
import { contentOf, fileOf, readFile, withSignature } from "../../src/bundles/metadata.ts";
import { parseYaml } from "../../src/runtime/config/file.ts";

export interface Key {
  readonly key: KeyObject;
  readonly publicKey: KeyObject;
  readonly pem: string;
}

export function newKey(): Key {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  return { key: privateKey, publicKey, pem: publicKey.export({ type: "spki", format: "pem" }).toString() };
}

/** A tool as data, which a request to `/<says>` answers. */
export function helloTool(says: string): string {
  return `name: hello
description: Says something
classification: read
permissions: { required: ["hello:say"] }
target:
  system: greetings
  http: { method: GET, path: /${says} }
input: { type: object, additionalProperties: false, properties: {} }
output: { type: object, additionalProperties: false, properties: { said: { type: string } }, required: [said] }
outputPolicy: { said: allow }
examples: { accepts: [{}], rejects: [{ x: 1 }] }
`;
}

export interface Publication {
  readonly version: number;
  readonly says?: string;
  readonly previous?: string | null;
  readonly policy?: string;
  readonly files?: Readonly<Record<string, string>>;
  readonly fleet?: string;
  readonly environment?: string;
  readonly rollout?: { readonly labels?: Record<string, string>; readonly percent?: number };
  readonly keys?: readonly Key[];
  readonly timestampKey?: Key;
  readonly createdAtMs?: number;
  readonly expiresMs?: number;
}

export interface Published {
  readonly archive: Buffer;
  readonly timestamp: Buffer;
  readonly digest: string;
}

export const HOUR_MS = 3_600_000;

/** The signing keys of a fleet, and the folder that its members are served from. */
export class BundleFleet {
  readonly content: Key = newKey();
  readonly online: Key = newKey();
  readonly folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-bundles-")));
  readonly served = join(this.folder, "served");

  constructor() {
    mkdirSync(this.served);
    this.write("keys.pem", this.content.pem);
    this.write("online.pem", this.online.pem);
  }

  end(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  write(path: string, text: string | Uint8Array): void {
    mkdirSync(dirname(join(this.folder, path)), { recursive: true });
    writeFileSync(join(this.folder, `${path}.draft`), text);
    renameSync(join(this.folder, `${path}.draft`), join(this.folder, path));
  }

  /** Rules of a member with this fleet's keys. */
  expected(changes: Partial<BundleExpectations> = {}): BundleExpectations {
    return {
      fleet: "shop",
      environment: "test",
      keys: [this.content.publicKey],
      threshold: 1,
      timestampKeys: [this.online.publicKey],
      minVersion: 1,
      allowsCode: false,
      readYaml: parseYaml,
      ...changes,
    };
  }

  make(publication: Publication): Published {
    const { version, says = `v${version}`, policy = "tools: [./tools]\n", files = {} } = publication;
    const { fleet = "shop", environment = "test", keys = [this.content], previous = null, rollout } = publication;
    const from = mkdtempSync(join(this.folder, "content-"));
    const content = { "policy.yaml": policy, "tools/hello.tool.yaml": helloTool(says), ...files };
    for (const [path, text] of Object.entries(content)) {
      mkdirSync(dirname(join(from, path)), { recursive: true });
      writeFileSync(join(from, path), text);
    }
    const createdAt = new Date(publication.createdAtMs ?? Date.now()).toISOString();
    const origin = { fleet, environment, version, createdAt };
    // Members also refuse bundles that a careless or hostile author builds.
    const unsigned = build(from, { ...origin, previous, rollout, allowsCode: true, readYaml: parseYaml });
    rmSync(from, { recursive: true });
    const archive = keys.reduce((signed, key) => withSigned(signed, key), unsigned);
    const { digest } = manifestIn(archive);
    return { archive, digest, timestamp: this.timestamp({ ...publication, digest }) };
  }

  timestamp({ digest, ...publication }: Publication & { readonly digest: string }): Buffer {
    const { fleet = "shop", environment = "test", version, timestampKey = this.online } = publication;
    const { createdAtMs = Date.now() } = publication;
    const expires = new Date(publication.expiresMs ?? createdAtMs + HOUR_MS).toISOString();
    const createdAt = new Date(createdAtMs).toISOString();
    const signed = { type: "timestamp", fleet, environment, version, digest, createdAt, expires };
    const unsigned = readFile(Buffer.from(fileOf(signed)), "timestamp");
    return Buffer.from(withSignature(unsigned, timestampKey.key, timestampKey.publicKey));
  }

  /** Makes a bundle the current one of the served folder. */
  publish(publication: Publication): Published {
    const published = this.make(publication);
    this.write("served/bundle.tar.gz", published.archive);
    this.write("served/timestamp.json", published.timestamp);
    return published;
  }
}

export function withSigned(archive: Uint8Array, { key, publicKey }: Key): Buffer {
  return withManifest(archive, withSignature(manifestIn(archive), key, publicKey));
}

/** Returns an archive whose manifest was changed, signed again. */
export function resigned(archive: Uint8Array, change: (signed: Record<string, unknown>) => unknown, key: Key): Buffer {
  const signed = change(structuredClone(contentOf(manifestIn(archive), "bundle")) as Record<string, unknown>);
  const file = readFile(Buffer.from(fileOf(signed)), "bundle");
  return withManifest(archive, withSignature(file, key.key, key.publicKey));
}
