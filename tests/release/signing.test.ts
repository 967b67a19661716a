import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createPublicKey, verify } from "node:crypto";
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { opened, sealed, statementOf } from "../../deploy/release/provenance.ts";
import { seal, signerOf } from "../../deploy/release/signing.ts";
import { privateKeyOf, publicKeysOf } from "../../deploy/release/ssh-key.ts";
import { verifyRelease } from "../../deploy/release/verify.ts";
import { blockNamed } from "../support/documented.ts";
import { run } from "../support/stc.ts";

const SOURCE = { version: "1.2.3", commit: "ab".repeat(20), epochSeconds: 1_000_000_000, changed: false };
const PROVENANCE = "safe-tool-call-1.2.3.intoto.json";
const folder = mkdtempSync(join(tmpdir(), "stc-signing-"));
const signers = join(folder, "allowed_signers");
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const key = (name: string): string => join(folder, name);
const readKey = (name: string): string => readFileSync(key(name), "utf8");

async function makeKey(name: string, ...options: readonly string[]): Promise<void> {
  const made = await run(["ssh-keygen", "-q", "-N", "", "-C", "", "-f", key(name), ...options]);
  expect(made).toMatchObject({ code: 0 });
}

/** Writes a release of three files into a folder of its own. Returns their paths. */
function release(name: string): readonly string[] {
  mkdirSync(join(folder, name));
  return ["one.tgz", "two.tar.gz", "three.json"].map((file) => {
    writeFileSync(join(folder, name, file), `content of ${file}`);
    return join(folder, name, file);
  });
}

beforeAll(async () => {
  await makeKey("key", "-t", "ed25519");
  await makeKey("other", "-t", "ed25519");
  const line = (name: string): string => `safe-tool-call namespaces="safe-tool-call-release" ${readKey(`${name}.pub`)}`;
  writeFileSync(signers, `# the keys of releases\n${line("key")}`);
  await seal(release("signed"), SOURCE, signerOf(key("key"), SOURCE));
});

describe("a signed release", () => {
  test("is verified by the commands that users have", async () => {
    const cwd = join(folder, "downloaded");
    cpSync(join(folder, "signed"), cwd, { recursive: true });
    cpSync(signers, join(cwd, "allowed_signers"));
    const { text } = blockNamed("docs/releasing.md: ssh-keygen -Y verify");
    const verify = (): ReturnType<typeof run> => run(["sh", "-e", "-c", text], { cwd });
    const { code, out } = await verify();
    expect(code).toBe(0);
    for (const name of ["one.tgz", PROVENANCE, "three.json", "two.tar.gz"]) expect(out).toContain(`${name}: OK\n`);
    rmSync(join(cwd, "two.tar.gz"));
    expect((await verify()).code).toBe(0);
    appendFileSync(join(cwd, "one.tgz"), "x");
    expect(await verify()).toMatchObject({ code: 1, out: expect.stringContaining("one.tgz: FAILED") });
  });

  test("is verified as a whole, and again after it was copied", async () => {
    expect(await verifyRelease(join(folder, "signed"), signers)).toBe(4);
    cpSync(join(folder, "signed"), join(folder, "copied"), { recursive: true });
    expect(await verifyRelease(join(folder, "copied"), signers)).toBe(4);
  });

  test("has the same bytes when it is signed again", async () => {
    await seal(release("again"), SOURCE, signerOf(key("key"), SOURCE));
    for (const file of [PROVENANCE, "SHA256SUMS", "SHA256SUMS.sig"]) {
      expect(readFileSync(join(folder, "again", file))).toEqual(readFileSync(join(folder, "signed", file)));
    }
  });

  const tampered: readonly (readonly [string, (path: string) => void, RegExp])[] = [
    ["a changed file", (path) => appendFileSync(join(path, "one.tgz"), "x"), /^one.tgz: the file is not the one/],
    ["a missing file", (path) => rmSync(join(path, "two.tar.gz")), /^two.tar.gz: the file is missing/],
    ["a sum for another file", (path) => replaceIn(join(path, "SHA256SUMS"), "one.tgz", "1.tgz"), /ssh-keygen/],
    ["an added sum", (path) => appendFileSync(join(path, "SHA256SUMS"), `${"0".repeat(64)}  x\n`), /ssh-keygen/],
    ["no signature", (path) => rmSync(join(path, "SHA256SUMS.sig")), /ssh-keygen/],
    [
      "another provenance",
      (path) => writeFileSync(join(path, PROVENANCE), "{}"),
      /intoto.json: the file is not the one/,
    ],
  ];
  test.each(tampered)("is refused with %s", async (title, tamper, message) => {
    const path = join(folder, title.replaceAll(" ", "-"));
    cpSync(join(folder, "signed"), path, { recursive: true });
    tamper(path);
    await expect(verifyRelease(path, signers)).rejects.toThrow(message);
  });

  test("is refused with the signature of another key", async () => {
    await seal(release("others"), SOURCE, signerOf(key("other"), SOURCE));
    await expect(verifyRelease(join(folder, "others"), signers)).rejects.toThrow("ssh-keygen");
  });
});

describe("a release that is not signed", () => {
  test("has the sums alone, and no signature of an earlier one", async () => {
    const paths = release("unsigned");
    await seal(paths, SOURCE, signerOf(key("key"), SOURCE));
    expect(await seal(paths, SOURCE)).toEqual([join(folder, "unsigned", "SHA256SUMS")]);
    await expect(verifyRelease(join(folder, "unsigned"), signers)).rejects.toThrow();
    const sums = readFileSync(join(folder, "unsigned", "SHA256SUMS"), "utf8");
    expect(sums.match(/ {2}.*$/gm)).toEqual(["  one.tgz", "  three.json", "  two.tar.gz"]);
  });

  test("changed files are not signed", () => {
    expect(() => signerOf(key("key"), { ...SOURCE, changed: true })).toThrow("commit your changes first");
  });

  test("a key that cannot be used is refused by what it is", async () => {
    await makeKey("locked", "-t", "ed25519", "-N", "secret");
    await makeKey("ecdsa", "-t", "ecdsa");
    for (const name of ["locked", "ecdsa", "key.pub"]) {
      expect(() => signerOf(key(name), SOURCE)).toThrow("needs an Ed25519 private key of OpenSSH without a passphrase");
    }
    expect(() => signerOf(key("missing"), SOURCE)).toThrow(`there is no key ${key("missing")}`);
  });
});

describe("the provenance", () => {
  const files = [{ name: "one.tgz", sha256: "0".repeat(64) }];

  test("says which files, source, lock and Bun", async () => {
    const statement = await statementOf(files, SOURCE);
    expect(statement).toMatchObject({
      _type: "https://in-toto.io/Statement/v1",
      subject: [{ name: "one.tgz", digest: { sha256: "0".repeat(64) } }],
      predicateType: "https://slsa.dev/provenance/v1",
      predicate: { buildDefinition: { externalParameters: { source: { digest: { gitCommit: SOURCE.commit } } } } },
    });
    expect(JSON.stringify(statement)).toContain(`pkg:npm/%40oven/bun-linux-x64@${Bun.version}`);
  });

  test("is opened with the key of the same pair alone, unchanged", async () => {
    const envelope = sealed(await statementOf(files, SOURCE), privateKeyOf(readKey("key")));
    const [own, other] = [publicKeysOf(readKey("key.pub")), publicKeysOf(readKey("other.pub"))];
    expect(opened(envelope, own).subject).toEqual([{ name: "one.tgz", digest: { sha256: "0".repeat(64) } }]);
    expect(opened(envelope, [...other, ...own]).subject).toHaveLength(1);
    expect(() => opened(envelope, other)).toThrow("not signed by an allowed key");
    expect(() => opened(envelope, [])).toThrow("not signed by an allowed key");
    const changed = { ...envelope, payload: Buffer.from("{}").toString("base64") };
    expect(() => opened(changed, own)).toThrow("not signed by an allowed key");
    expect(() => opened({ ...envelope, payloadType: "text/plain" }, own)).toThrow("not signed by an allowed key");
  });

  test("is signed over the encoding of DSSE's specification", () => {
    const { payload, signatures } = sealed({ hello: "world" }, privateKeyOf(readKey("key")));
    expect(Buffer.from(payload, "base64").toString()).toBe('{"hello":"world"}');
    const signed = Buffer.from('DSSEv1 28 application/vnd.in-toto+json 17 {"hello":"world"}');
    const [pair] = publicKeysOf(readKey("key.pub"));
    expect(pair?.equals(createPublicKey(privateKeyOf(readKey("key"))))).toBe(true);
    const [{ sig } = { sig: "" }] = signatures;
    expect(pair !== undefined && verify(null, signed, pair, Buffer.from(sig, "base64"))).toBe(true);
  });
});

function replaceIn(path: string, find: string, replacement: string): void {
  writeFileSync(path, readFileSync(path, "utf8").replace(find, replacement));
}
