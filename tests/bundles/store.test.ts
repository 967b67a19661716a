import { afterEach, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Bundle } from "../../src/bundles/checks.ts";
import { BundleStore } from "../../src/bundles/store.ts";

const dir = mkdtempSync(join(tmpdir(), "stc-bundle-store-"));
afterEach(() => rmSync(dir, { recursive: true, force: true }));

test("a bundle that cannot be written leaves no draft", async () => {
  const digest = "e".repeat(64);
  // A file and a folder of one name: writing fails in the middle, as on a full disk.
  const files = new Map([
    ["tools", Buffer.from("a file")],
    ["tools/hello.yaml", Buffer.from("name: hello\n")],
  ]);
  const bundle = { manifest: { version: 1 }, digest, files, policy: {} } as unknown as Bundle;
  await expect(new BundleStore(dir).keep(bundle, Buffer.from("archive"))).rejects.toThrow();
  expect(readdirSync(dir, { recursive: true }).toSorted()).toEqual([`${digest}.tar.gz`, "versions"].toSorted());
});

test("a bundle that another process is writing at the same time is kept whole, and the other's drafts are left alone", async () => {
  const digest = "d".repeat(64);
  const files = new Map([
    ["policy.yaml", Buffer.from("tools: []\n")],
    ["tools/hello.yaml", Buffer.from("name: hello\n")],
  ]);
  const bundle = { manifest: { version: 1 }, digest, files, policy: {} } as unknown as Bundle;
  const [archive, folder] = [join(dir, `${digest}.tar.gz`), join(dir, "versions", `1-${digest.slice(0, 16)}`)];
  // Drafts of another process, under names that do not differ between processes.
  mkdirSync(`${folder}.new`, { recursive: true });
  writeFileSync(join(`${folder}.new`, "policy.yaml"), "half");
  writeFileSync(`${archive}.new`, "half");

  const placed = await new BundleStore(dir).keep(bundle, Buffer.from("archive"));
  expect(placed.folder).toBe(folder);
  expect(readdirSync(folder, { recursive: true }).toSorted()).toEqual(["policy.yaml", "tools", "tools/hello.yaml"]);
  expect(readFileSync(archive, "utf8")).toBe("archive");
  expect(readFileSync(join(`${folder}.new`, "policy.yaml"), "utf8")).toBe("half");
  expect(readFileSync(`${archive}.new`, "utf8")).toBe("half");
  expect(readdirSync(dir).toSorted()).toEqual([`${digest}.tar.gz`, `${digest}.tar.gz.new`, "versions"].toSorted());
});
