import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Envelope, opened } from "./provenance.ts";
import { run } from "./run.ts";
import { digested, NAMESPACE, SIGNATURE, SUMS } from "./signing.ts";
import { publicKeysOf } from "./ssh-key.ts";

/** The signer's name in `allowed_signers`. */
const SIGNER = "safe-tool-call";

/**
 * Verifies a signed release: the signature of `SHA256SUMS`, the sum of every file, and the provenance. Users verify with
 * `ssh-keygen` and `sha256sum` (docs/releasing.md); this also opens the provenance. Returns how many files there are.
 * @param signers path of a file `allowed_signers`
 * @throws {Error} naming the first thing that is not as it was signed
 */
export async function verifyRelease(folder: string, signers: string): Promise<number> {
  const sums = readFileSync(join(folder, SUMS), "utf8");
  const verify = ["ssh-keygen", "-Y", "verify", "-f", signers, "-I", SIGNER, "-n", NAMESPACE];
  await run([...verify, "-s", join(folder, SIGNATURE)], { input: sums });
  const expected = new Map([...sums.matchAll(/^(\S+) {2}(.+)$/gm)].map(([, sum = "", name = ""]) => [name, sum]));
  for (const [name, sum] of expected) {
    if (!existsSync(join(folder, name))) throw new Error(`${name}: the file is missing`);
    if (digested(join(folder, name)).sha256 !== sum)
      throw new Error(`${name}: the file is not the one that was signed`);
  }
  verifyProvenance(folder, expected, signers);
  return expected.size;
}

function verifyProvenance(folder: string, expected: ReadonlyMap<string, string>, signers: string): void {
  const names = readdirSync(folder).filter((name) => name.endsWith(".intoto.json"));
  const [provenance] = names;
  if (provenance === undefined || names.length > 1) throw new Error("expected exactly one file with the provenance");
  const envelope = JSON.parse(readFileSync(join(folder, provenance), "utf8")) as Envelope;
  const subjects = opened(envelope, publicKeysOf(readFileSync(signers, "utf8"))).subject;
  const stated = new Map(subjects.map(({ name, digest }) => [name, digest.sha256]));
  for (const [name, sum] of expected) {
    if (name !== provenance && stated.get(name) !== sum) throw new Error(`${name}: the provenance is of another file`);
  }
}

if (import.meta.main) {
  const [folder, signers] = process.argv.slice(2);
  if (folder === undefined || signers === undefined) {
    console.error("usage: bun deploy/release/verify.ts FOLDER ALLOWED_SIGNERS");
    process.exit(64);
  }
  console.log(`ok: ${await verifyRelease(folder, signers)} files`);
}
