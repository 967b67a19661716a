import { afterAll, beforeEach, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import fs from "node:fs";
import { join } from "node:path";
import { readPublicKey } from "../../src/audit/chain/signed-note.ts";
import { signingFacts } from "../../src/cli/composition.ts";
import { createCheckpointKey, readCheckpointKey } from "../../src/runtime/composition/audit.ts";
import { checkpointKeyFileOf } from "../../src/runtime/config/config.ts";
import { ownPaths } from "../../src/runtime/config/own-paths.ts";
import { openLog } from "../../src/runtime/log/log.ts";
import { temporaryDirectory, writeLog } from "./support/chained-log.ts";
import { signingConfig } from "./support/signing-config.ts";

const folder = temporaryDirectory();
const OWN = join(folder, "audit.key");
beforeEach(() => fs.readdirSync(folder).forEach((name) => void fs.rmSync(join(folder, name), { recursive: true })));
afterAll(() => fs.rmSync(folder, { recursive: true }));

function problemsWith(pem: string | undefined): readonly string[] {
  if (pem !== undefined) fs.writeFileSync(join(folder, "key.pem"), pem);
  const checkpointKeyFile = pem === undefined ? "none.pem" : "key.pem";
  const config = signingConfig(folder, { dir: "audit", checkpointKeyFile });
  const problems = [...createCheckpointKey(config)];
  const key = readCheckpointKey(config, problems);
  expect(key === undefined).toBe(problems.length > 0);
  return problems;
}

/** What a start with its own key does: its problems, and the key. */
function started(audit?: Readonly<Record<string, string>>) {
  const config = signingConfig(folder, audit);
  const problems = [...createCheckpointKey(config)];
  const key = readCheckpointKey(config, problems)?.export({ type: "pkcs8", format: "pem" });
  return { problems, key };
}

const pemOf = (key: { export(options: { type: "pkcs8"; format: "pem" }): string | Buffer }): string =>
  String(key.export({ type: "pkcs8", format: "pem" }));

test("an Ed25519 private key signs checkpoints", () => {
  expect(problemsWith(pemOf(generateKeyPairSync("ed25519").privateKey))).toEqual([]);
});

test.each([
  ["a key of another kind", pemOf(generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey)],
  ["a public key", String(generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "pem" }))],
  ["no key", "secret words"],
  ["an empty file", ""],
])("%s is refused, and nothing of it is quoted", (_name, pem) => {
  expect(problemsWith(pem)).toEqual([
    "audit.checkpointKeyFile: key.pem holds no Ed25519 private key (PEM, PKCS8): make one with stc audit keys --new FILE",
  ]);
});

test("a missing file that the configuration names is reported, and not created", () => {
  expect(problemsWith(undefined)).toEqual(["audit.checkpointKeyFile: none.pem cannot be read (ENOENT)"]);
  expect(fs.readdirSync(folder)).toEqual([]);
});

test("without the setting the first start creates a key next to the audit directory, for this user only", () => {
  const { problems, key } = started();
  expect(problems).toEqual([]);
  expect(String(key)).toBe(fs.readFileSync(OWN, "utf8"));
  expect(fs.statSync(OWN).mode & 0o777).toBe(0o600);
  expect(fs.readdirSync(folder)).toEqual(["audit.key"]);
});

test("the second start uses the same key", async () => {
  const first = started();
  await writeLog(join(folder, "audit"));
  expect(started()).toEqual(first);
});

test("the folder of the key is created, and so is the key of a log that nothing has signed", async () => {
  fs.mkdirSync(join(folder, "state/audit"), { recursive: true });
  fs.writeFileSync(join(folder, "state/audit/2026-02-16.jsonl"), "");
  expect(started({ dir: "state/audit" }).problems).toEqual([]);
  expect(started({ dir: "new/audit/" }).problems).toEqual([]);
  expect(fs.readdirSync(join(folder, "new"))).toEqual(["audit.key"]);
});

test("reading a configuration creates nothing: stc check", () => {
  const problems: string[] = [];
  expect(readCheckpointKey(signingConfig(folder), problems)).toBeUndefined();
  expect(problems).toEqual([]);
  expect(fs.readdirSync(folder)).toEqual([]);
});

test("processes that start at the same moment end with one key", async () => {
  const starts = Array.from({ length: 4 }, () =>
    Bun.spawn([process.execPath, join(import.meta.dir, "support/start-key.ts"), folder], { stdout: "pipe" }),
  );
  const keys = await Promise.all(starts.map(({ stdout }) => new Response(stdout).text()));
  expect(keys[0]).toMatch(/^[\w-]{43}\n$/);
  expect(new Set(keys).size).toBe(1);
  expect(fs.readdirSync(folder)).toEqual(["audit.key"]);
});

test.each([
  ["with its checkpoints", "nothing"],
  ["whose checkpoints were deleted", "checkpoints"],
  ["whose saved position was deleted", ".state"],
])("a missing key of a signed log %s is reported, and no other key takes its place", async (_name, deleted) => {
  await writeLog(join(folder, "audit"));
  fs.rmSync(join(folder, "audit", deleted), { recursive: true, force: true });
  expect(started().problems).toEqual([
    `audit.checkpointKeyFile: ${OWN} is missing, and the audit is signed already: restore that file, or name the key here; stc audit keys --new FILE creates another one`,
  ]);
  expect(fs.readdirSync(folder)).toEqual(["audit"]);
});

test.each([
  ["text", () => fs.writeFileSync(OWN, "secret words"), "holds no Ed25519 private key"],
  ["nothing", () => fs.writeFileSync(OWN, ""), "holds no Ed25519 private key"],
  ["a folder", () => fs.mkdirSync(OWN), "cannot be read (EISDIR)"],
])("%s in the place of the key is reported and left as it is", (_name, make, problem) => {
  make();
  const before = fs.statSync(OWN);
  const { problems } = started();
  expect(problems).toHaveLength(1);
  expect(problems[0]).toStartWith("audit.checkpointKeyFile: audit.key ");
  expect(problems[0]).toContain(problem);
  expect(fs.statSync(OWN).mtimeMs).toBe(before.mtimeMs);
});

test("a link to nowhere in the place of the key is not followed", () => {
  fs.symlinkSync(join(folder, "elsewhere"), OWN);
  expect(started().problems).toEqual(["audit.checkpointKeyFile: audit.key cannot be read (ENOENT)"]);
  expect(fs.readdirSync(folder)).toEqual(["audit.key"]);
});

test("a folder in which no key can be created is named, with the field and what to do", () => {
  // Nobody can create files there, root included.
  const { problems } = started({ dir: "/proc/audit" });
  expect(problems).toHaveLength(1);
  expect(problems[0]).toMatch(
    /^audit\.checkpointKeyFile: \/proc\/audit\.key cannot be created \([A-Z]+\): let the service write to that folder, or create a key with stc audit keys --new FILE and name it here$/,
  );
});

test.skipIf(process.geteuid?.() === 0)("a read-only folder is reported", () => {
  fs.mkdirSync(join(folder, "fixed"), { mode: 0o500 });
  expect(started({ dir: "fixed/audit" }).problems[0]).toContain("fixed/audit.key cannot be created (EACCES)");
});

test.each([
  ["./audit-logs", "audit-logs.key"],
  ["var/audit/", "var/audit.key"],
  ["/var/lib/stc/audit-logs", "/var/lib/stc/audit-logs.key"],
  ["/data", "/data.key"],
  ["/", "/audit.key"],
  [".", "../audit.key"],
  ["var/..", "../audit.key"],
])("the key of the log in %s is %s", (dir, path) => {
  expect(checkpointKeyFileOf(signingConfig(folder, { dir }))).toBe(path);
});

test("the created key is one of the service's own paths, which agents must not access", () => {
  const paths = ownPaths(signingConfig(fs.realpathSync(folder)));
  expect(paths).toContainEqual({ field: "audit.checkpointKeyFile", path: join(fs.realpathSync(folder), "audit.key") });
});

test("the service's log shows the key's path and the verifier key, which is no secret", () => {
  for (let round = 0; round < 50; round += 1) {
    const { publicKey } = generateKeyPairSync("ed25519");
    const lines: string[] = [];
    const sink = { write: (line: string) => void lines.push(line), dropped: 0, flush: async () => {} };
    openLog({ level: "info", sink }).logger.info(signingFacts(signingConfig(folder), publicKey), "the audit is signed");
    const { keyFile, verifier } = JSON.parse(lines[0] ?? "{}") as { keyFile: string; verifier: string };
    expect(keyFile).toBe(OWN);
    expect(readPublicKey(verifier).equals(publicKey)).toBe(true);
  }
});
