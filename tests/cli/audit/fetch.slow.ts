import { afterEach, beforeEach, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { logIdIn } from "../../../src/audit/chain/log-id.ts";
import { keys, temporaryDirectory, writeLog } from "../../audit/support/chained-log.ts";
import { archiveLog } from "../../support/archived-log.ts";
import { logFiles } from "../../support/audit-files.ts";
import { failure, ObjectStorage } from "../../support/object-storage.ts";
import { runStc } from "../../support/stc.ts";

let folder: string;
let dir: string;
let storage: ObjectStorage;
beforeEach(() => {
  folder = temporaryDirectory();
  dir = join(folder, "audit-logs");
  storage = new ObjectStorage();
});
afterEach(async () => {
  await storage.stop();
  fs.rmSync(folder, { recursive: true });
});

const BUCKET = "s3://audit-archive/fleet";
const fetch = (...args: readonly string[]) => runStc(["audit", "fetch", ...args]);
const fetchBucket = (...more: readonly string[]) =>
  fetch(BUCKET, "--endpoint", storage.endpoint, "--credentials-file", storage.credentialsFile, ...more);

/** Copies the objects into a directory, as any tool for object storage does. */
function copied(): string {
  for (const [key, object] of storage.objects) {
    fs.mkdirSync(join(folder, "copy", key, ".."), { recursive: true });
    fs.writeFileSync(join(folder, "copy", key), object);
  }
  return join(folder, "copy/fleet");
}

test("logs come back from the bucket and from a copy, all or one by each of its ids, and verify", async () => {
  const other = join(folder, "other");
  await writeLog(dir);
  await writeLog(other, keys.privateKey, { instance: "other" });
  for (const one of [dir, other]) await archiveLog(one, storage.open({ prefix: "fleet" }));
  const out = join(folder, "restored");
  const all = await fetchBucket("--out", out);
  expect(all).toMatchObject({ code: 0, err: "to verify a directory: stc audit verify --dir DIRECTORY --key PUBLIC\n" });
  const [journal, calls] = [String(logIdIn(dir, "journal")), String(logIdIn(dir, "calls"))];
  expect(all.out).toContain(`${join(out, journal)}: 9 parts, `);
  for (const one of [dir, other]) expect(logFiles(join(out, String(logIdIn(one, "journal"))))).toEqual(logFiles(one));
  const key = join(folder, "public.pem");
  fs.writeFileSync(key, keys.publicKey.export({ type: "spki", format: "pem" }));
  expect((await runStc(["audit", "verify", "--dir", join(out, journal), "--key", key])).out).toEndWith("\nok\n");
  const found = await runStc(["audit", "query", "--dir", join(out, journal), "--json", "--limit", "1"]);
  expect(JSON.parse(found.out)).toMatchObject({ traceId: "t-2-4" });
  const copy = copied();
  for (const [at, id] of [journal, calls].entries()) {
    const { code, out: text } = await fetch(copy, "--out", join(folder, `one-${at}`), "--log", id, "--json");
    expect([code, JSON.parse(text)]).toMatchObject([0, { whole: true, logs: [{ directory: journal, parts: 9 }] }]);
  }
  expect(await fetch(copy, "--out", join(folder, "none"), "--log", "0".repeat(32))).toMatchObject({ code: 1 });
  // Nothing is written over.
  const again = await fetch(copy, "--out", out);
  expect([again.code, again.err]).toEqual([66, expect.stringContaining("exists already")]);
});

test("a log whose checkpoints are gone is not signed, and one without calls is cut off", async () => {
  await writeLog(dir);
  await archiveLog(dir, storage.open({ prefix: "fleet" }));
  const key = join(folder, "public.pem");
  fs.writeFileSync(key, keys.publicKey.export({ type: "spki", format: "pem" }));
  for (const [part, want] of [
    ["/checkpoints/", [4, "not signed"]],
    ["/calls/", [3, "cut off"]],
  ] as const) {
    const objects = new Map(storage.objects);
    for (const name of objects.keys()) if (name.includes(part)) storage.objects.delete(name);
    const out = join(folder, `without${part.slice(1, -1)}`);
    expect((await fetchBucket("--out", out)).code).toBe(0);
    const { code, out: text } = await runStc([
      "audit",
      "verify",
      "--dir",
      join(out, String(logIdIn(dir, "journal"))),
      "--key",
      key,
    ]);
    expect([code, text]).toEqual([want[0], expect.stringContaining(want[1])]);
    for (const [name, object] of objects) storage.objects.set(name, object);
  }
});

test("a part that cannot be read is named, and the rest is fetched", async () => {
  await writeLog(dir);
  await archiveLog(dir, storage.open({ prefix: "fleet" }));
  const key = [...storage.objects.keys()].find((one) => one.includes("/journal/2026-02-17/")) ?? "";
  storage.objects.set(key, Buffer.from("damaged"));
  const { code, out } = await fetchBucket("--out", join(folder, "restored"));
  expect(code).toBe(3);
  expect(out).toContain(": 8 parts, ");
  expect(out).toContain(`  missing: ${key.slice("fleet/".length)} cannot be read: incorrect header check\n`);
});

test("a copy with a pipe, a device or a directory in place of a part is read on; a link to a part is one", async () => {
  await writeLog(dir);
  await archiveLog(dir, storage.open({ prefix: "fleet" }));
  const copy = copied();
  const parts = [...storage.objects.keys()].filter((key) => key.endsWith(".jsonl.gz")).sort();
  const [pipe = "", device = "", folderOf = "", link = ""] = parts.map((key) => join(folder, "copy", key));
  for (const path of [pipe, device, folderOf]) fs.rmSync(path);
  expect(Bun.spawnSync(["mkfifo", pipe]).exitCode).toBe(0);
  fs.symlinkSync("/dev/zero", device);
  fs.mkdirSync(folderOf);
  fs.renameSync(link, `${link}.kept`);
  fs.symlinkSync(`${link}.kept`, link);
  const { code, out } = await fetch(copy, "--out", join(folder, "restored"), "--json");
  const [log] = JSON.parse(out).logs;
  expect([
    code,
    log.parts,
    log.problems.filter((one: string) => one.endsWith(" cannot be read: it is not a regular file")).length,
  ]).toEqual([3, 6, 3]);
  expect(out).not.toContain(`${link}.kept`);
});

const ENDPOINT = ["--endpoint", "http://127.0.0.1:1"];
test.each<readonly [string, readonly string[], number, RegExp]>([
  ["no endpoint", [BUCKET, "--credentials-file", "x"], 64, /--endpoint: /],
  ["no credentials", [BUCKET, ...ENDPOINT], 64, /--credentials-file: /],
  ["no file of credentials", [BUCKET, ...ENDPOINT, "--credentials-file", "/none"], 64, /\/none: cannot be read/],
  [
    "a wrong prefix",
    ["s3://audit-archive/a/../b", ...ENDPOINT, "--credentials-file", "x"],
    64,
    /s3:\/\/BUCKET\/PREFIX/,
  ],
  ["no directory", ["/none"], 66, /there is no directory \/none/],
  ["a wrong id", ["/none", "--log", "x"], 64, /--log must be the id of a log/],
])("wrong usage: %s", async (_, args, code, message) => {
  const { code: ended, err } = await fetch(...args, "--out", join(folder, "never"));
  expect([ended, err]).toEqual([code, expect.stringMatching(message)]);
});

test.each([
  [404, "NoSuchBucket"],
  [403, "InvalidAccessKeyId"],
])("a bucket that answers %i is an error with the server's code", async (status, code) => {
  storage.answer = () => failure(status, code);
  const { code: ended, err } = await fetchBucket("--out", join(folder, "never"));
  expect([ended, err]).toEqual([66, `cannot fetch from ${BUCKET}: status ${status} ${code}\n`]);
});
