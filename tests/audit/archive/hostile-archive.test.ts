import { afterAll, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { readKey } from "../../../src/audit/archive/archive.ts";
import { copyOfArchive, fetchLogs, objectStorage } from "../../../src/audit/archive/fetch.ts";
import { openS3 } from "../../../src/audit/export/object-storage.ts";
import { BUCKET, ObjectStorage } from "../../support/object-storage.ts";
import { temporaryDirectory } from "../support/chained-log.ts";

/** Whoever can write to the archive chooses keys, contents and answers. */

const folder = temporaryDirectory();
const storage = new ObjectStorage();
afterAll(async () => {
  await storage.stop();
  fs.rmSync(folder, { recursive: true });
});

const ID = "0123456789abcdef".repeat(2);

test("a pipe in a copy of an archive is a problem of its own, and is not waited for", async () => {
  const own = temporaryDirectory();
  const [copy, out] = [join(own, "copy"), join(own, "out")];
  const day = join(copy, ID, "journal", "2026-02-16");
  fs.mkdirSync(day, { recursive: true });
  fs.writeFileSync(join(day, "000000000000.jsonl.gz"), gzipSync("one\n"));
  Bun.spawnSync(["mkfifo", join(day, "000000000004.jsonl.gz")]);
  const [log] = await fetchLogs(copyOfArchive(copy), { log: undefined, out });
  expect(log).toMatchObject({ parts: 1, bytes: 4 });
  expect(log?.problems).toEqual([
    `${ID}/journal/2026-02-16/000000000004.jsonl.gz cannot be read: it is not a regular file`,
  ]);
  fs.rmSync(own, { recursive: true });
});
const pieces = fc.constantFrom(
  ID,
  "calls",
  "journal",
  "checkpoints",
  "2026-02-16",
  "000000000000",
  "..",
  ".",
  "",
  "/",
  "\0",
  "\n",
  "&",
  "<",
  "%2e",
  "pruned",
  ".jsonl",
  ".txt",
  ".gz",
);
const keys = fc.oneof(
  fc.array(pieces, { maxLength: 9 }).map((parts) => parts.join("")),
  fc.array(pieces, { maxLength: 7 }).map((parts) => parts.join("/")),
  fc.constantFrom(
    `${ID}/journal/2026-02-16/000000000000.jsonl.gz`,
    `${ID}/calls/${ID}/2026-02-17/000000000003.jsonl.gz`,
    `${ID}/pruned.jsonl.gz`,
  ),
);

test("a key is of an archive only when every part of it is", () => {
  fc.assert(
    fc.property(keys, (key) => {
      const object = readKey(key);
      if (object === undefined) return;
      expect(object.directory).toMatch(/^[0-9a-f]{32}$/);
      if (object.kind === "part")
        expect([object.day, object.log]).toEqual([expect.stringMatching(/^\d{4}-\d{2}-\d{2}$/), ID]);
      expect(key).not.toMatch(/\.\.|\n|\0/);
    }),
    { numRuns: 2_000 },
  );
});

test("whatever keys and contents there are, nothing is written outside of the directories of logs", async () => {
  const client = openS3(
    { endpoint: storage.endpoint, bucket: BUCKET, credentialsFile: storage.credentialsFile },
    { path: (path) => path, clock: Date.now },
  );
  const contents = fc.oneof(
    fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
    fc.string({ maxLength: 60 }).map((text) => gzipSync(text)),
  );
  await fc.assert(
    fc.asyncProperty(fc.dictionary(keys, contents, { maxKeys: 6 }), async (objects) => {
      storage.objects.clear();
      for (const [key, object] of Object.entries(objects)) storage.objects.set(key, object);
      const out = fs.mkdtempSync(join(folder, "out-"));
      await fetchLogs(objectStorage(client, "", AbortSignal.timeout(10_000)), { log: undefined, out });
      const written = fs.readdirSync(out, { recursive: true, encoding: "utf8" });
      const allowed =
        /^[0-9a-f]{32}(?:\/(?:pruned\.jsonl|journal|checkpoints|(?:journal\/)?\d{4}-\d{2}-\d{2}\.jsonl|checkpoints\/\d{4}-\d{2}-\d{2}\.txt))?$/;
      expect(written.filter((name) => !allowed.test(name))).toEqual([]);
    }),
    { numRuns: 100 },
  );
  client.close();
  expect(fs.readdirSync(folder).filter((name) => !name.startsWith("out-"))).toEqual([]);
});
