import { afterAll, expect, test } from "bun:test";
import { chmodSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { BUILD_REQUIREMENTS, buildPython } from "../../deploy/release/python.ts";
import { pythonWith } from "../support/python.ts";
import { run } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

const TIME = 1_700_000_000;
const folder = mkdtempSync(join(tmpdir(), "stc-python-package-"));
const other = join(folder, "another checkout");
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("the packages of the Python client have the same bytes from every checkout, and carry license and addresses", async () => {
  // With other modes and times of files.
  cpSync(join(PROJECT, "clients/python"), join(other, "clients/python"), { recursive: true });
  for (const entry of readdirSync(other, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) chmodSync(join(entry.parentPath, entry.name), 0o600);
  }
  const python = await pythonWith(BUILD_REQUIREMENTS);
  const [first, second] = await Promise.all(
    [PROJECT, other].map((root, row) => buildPython(join(folder, String(row)), { python, root, epochSeconds: TIME })),
  );
  const names = (first ?? []).map((path) => basename(path));
  expect(names).toEqual([
    expect.stringMatching(/^safe_tool_call_client-[\d.]+-py3-none-any\.whl$/),
    expect.stringMatching(/^safe_tool_call_client-[\d.]+\.tar\.gz$/),
  ]);
  for (const name of names) {
    expect(readFileSync(join(folder, "0", name)).equals(readFileSync(join(folder, "1", name)))).toBe(true);
  }
  expect(second).toHaveLength(2);
  const [wheel = ""] = (first ?? []).filter((path) => path.endsWith(".whl"));
  const script = [
    "import sys, zipfile",
    "wheel = zipfile.ZipFile(sys.argv[1])",
    "[print(wheel.read(name).decode()) for name in wheel.namelist() if name.endswith(('/METADATA', '/LICENSE'))]",
  ];
  const { out } = await run(["python3", "-c", script.join("\n"), wheel]);
  expect(out).toContain("License-Expression: Apache-2.0");
  expect(out).toMatch(/^Project-URL: Repository, https:/m);
  expect(out).toMatch(/^Author: /m);
  expect(out).toContain("Apache License");
});
