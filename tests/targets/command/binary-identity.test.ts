import { expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { chmodSync, renameSync, statSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { binarySha256 } from "../../../src/targets/command/handler.ts";
import { planOf, refusalFrom, stand, standTool } from "./stand.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

test("a program is identified by its bytes, also through a link", () => {
  const folder = temporaryDirectory();
  const program = join(folder, "program");
  writeFileSync(program, "one");
  symlinkSync(program, join(folder, "link"));
  expect(binarySha256(program)).toBe(sha256("one"));
  expect(binarySha256(join(folder, "link"))).toBe(sha256("one"));
});

test("a change is noticed even when size and modification time are unchanged", () => {
  const program = join(temporaryDirectory(), "program");
  writeFileSync(program, "one");
  const { atime, mtime } = statSync(program);
  binarySha256(program);
  writeFileSync(program, "two");
  utimesSync(program, atime, mtime);
  expect(binarySha256(program)).toBe(sha256("two"));
});

test("another file in its place is another program", () => {
  const folder = temporaryDirectory();
  const program = join(folder, "program");
  writeFileSync(program, "one");
  binarySha256(program);
  writeFileSync(join(folder, "next"), "six");
  renameSync(join(folder, "next"), program);
  expect(binarySha256(program)).toBe(sha256("six"));
  chmodSync(program, 0o755);
  expect(binarySha256(program)).toBe(sha256("six"));
});

test("a missing file has no hash", () => {
  expect(binarySha256(join(temporaryDirectory(), "nothing"))).toBe("");
});

test("a program that was replaced after the plan does not run", async () => {
  const program = join(temporaryDirectory(), "program");
  writeFileSync(program, "#!/bin/sh\necho planned\n", { mode: 0o755 });
  const { handler } = stand({ commands: new Map([["program", program]]) });
  const tool = standTool({ command: "program", argsBuilder: () => [] });
  const plan = await planOf(tool, { handler });
  const caller = { issuer: "https://idp.test", subject: "agent", permissions: [], actors: [], expiresAt: 0 };
  const run = () =>
    handler.bind(tool).run(plan, { signal: new AbortController().signal, deadline: 10_000, traceId: "trace", caller });
  expect(await run()).toEqual({ text: "planned\n" });
  writeFileSync(program, "#!/bin/sh\necho exchanged\n");
  expect(await refusalFrom(Promise.resolve().then(run))).toMatchObject({
    code: "TARGET_UNAVAILABLE",
    message: "The program was replaced after the call was planned. Call again.",
  });
});
