import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isPipe, readPlainFile } from "../../../src/runtime/config/plain-file.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-plain-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const at = (name: string): string => join(folder, name);

writeFileSync(at("file"), "words");
Bun.spawnSync(["mkfifo", at("pipe")]);
symlinkSync("file", at("link"));
symlinkSync("pipe", at("link to a pipe"));
symlinkSync("/dev/zero", at("device"));

test.each(["file", "link"])("a %s is read", (name) => {
  expect(readPlainFile(at(name)).toString()).toBe("words");
  expect(isPipe(at(name))).toBe(false);
});

const refused: readonly (readonly [string, string, boolean])[] = [
  ["pipe", "a pipe", true],
  ["link to a pipe", "a pipe", true],
  ["device", "a device", false],
  ["nothing", "ENOENT", false],
  [".", "EISDIR", false],
];
test.each(refused)("%s is refused, and nobody waits", (name, code, pipe) => {
  expect(() => readPlainFile(at(name))).toThrow(expect.objectContaining({ code }));
  expect(isPipe(at(name))).toBe(pipe);
});
