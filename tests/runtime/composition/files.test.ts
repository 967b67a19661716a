import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { auditDirProblems } from "../../../src/runtime/composition/audit.ts";
import { socketProblems } from "../../../src/runtime/composition/listeners.ts";
import type { Config } from "../../../src/runtime/config/config.ts";
import { readConfig } from "../../support/build.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-places-")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
writeFileSync(join(folder, "file"), "x");
mkdirSync(join(folder, "folder"));
symlinkSync("file", join(folder, "link"));
symlinkSync("loop", join(folder, "loop"));
Bun.listen({ unix: join(folder, "s.sock"), socket: { data: () => {} } }).unref();

function configOf(more: Record<string, unknown>): Config {
  const jwt = { issuers: [{ issuer: "https://agents.example", publicKeyFile: "./a.pem" }] };
  const written = { tools: ["./tools"], audit: { dir: "./audit" }, jwt, ...more };
  return readConfig(written, { folder, environment: {}, origin: "test" });
}

test.each([
  ["./new.sock", []],
  ["./folder/new.sock", []],
  ["./s.sock", []],
  ["./none/s.sock", [`server.socket: ${folder}/none is not a folder: create it first`]],
  ["./file/s.sock", [`server.socket: ${folder}/file is not a folder: create it first`]],
  ["./loop/s.sock", ["server.socket: cannot be made (ELOOP)"]],
  ["./file", [`server.socket: ${folder}/file exists already and is not a socket`]],
  ["./link", [`server.socket: ${folder}/link is a symbolic link`]],
])("a socket at %s", (socket, problems) => {
  expect(socketProblems(configOf({ server: { socket } }))).toEqual([...problems]);
});

test("no socket", () => {
  expect(socketProblems(configOf({}))).toEqual([]);
});

test.each([
  ["./folder", []],
  ["./none/audit", []],
  ["./file", [`audit.dir: ${folder}/file is not a directory`]],
  ["./file/audit", [`audit.dir: ${folder}/file/audit cannot be read (ENOTDIR)`]],
  ["./loop/audit", [`audit.dir: ${folder}/loop/audit cannot be read (ELOOP)`]],
])("an audit at %s", (dir, problems) => {
  expect(auditDirProblems(configOf({ audit: { dir } }))).toEqual([...problems]);
});
