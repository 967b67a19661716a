import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { LineWindow } from "../../../src/targets/files/read.ts";
import { filler } from "../../detection/secret-examples.ts";
import { codeOf, fsStand } from "./stand.ts";

const sha256 = (content: string | Uint8Array): string => createHash("sha256").update(content).digest("hex");

describe("fs_read", () => {
  const stand = fsStand({ limits: { maxReadBytes: 100, fileBytesMax: 600_000 } });
  const ten = Array.from({ length: 10 }, (_, index) => `line ${index + 1}\n`).join("");
  const contents: Readonly<Record<string, string | Uint8Array>> = {
    ten,
    empty: "",
    unfinished: "a\nb",
    crlf: "a\r\nb\r\n",
    bom: "\ufeffa\n",
    long: `${"\u20ac".repeat(60)}\nnext\n`,
    many: "0123456789\n".repeat(50),
    binary: new Uint8Array([0x7f, 0x45, 0x4c, 0x46, 0]),
    latin: new Uint8Array([0x63, 0x61, 0x66, 0xe9]),
    large: "x".repeat(600_001),
    big: "0123456789\n".repeat(50_000),
  };
  for (const [name, content] of Object.entries(contents)) writeFileSync(join(stand.project, name), content);

  test.each([
    ["a whole file", { path: "ten" }, { content: ten, startLine: 1, endLine: 10, totalLines: 10, truncated: false }],
    ["a window", { path: "ten", startLine: 2, endLine: 3 }, { content: "line 2\nline 3\n", startLine: 2, endLine: 3 }],
    ["one line", { path: "ten", startLine: 10, endLine: 10 }, { content: "line 10\n", startLine: 10, endLine: 10 }],
    ["from a line on", { path: "ten", startLine: 9 }, { content: "line 9\nline 10\n", endLine: 10 }],
    ["past the end", { path: "ten", startLine: 9, endLine: 99 }, { content: "line 9\nline 10\n", endLine: 10 }],
    ["nothing there", { path: "ten", startLine: 11 }, { content: "", startLine: 0, endLine: 0, totalLines: 10 }],
    ["an empty file", { path: "empty" }, { content: "", startLine: 0, endLine: 0, totalLines: 0, bytes: 0 }],
    ["no last newline", { path: "unfinished" }, { content: "a\nb", endLine: 2, totalLines: 2 }],
    ["carriage returns", { path: "crlf", startLine: 2 }, { content: "b\r\n", totalLines: 2 }],
    ["a byte order mark", { path: "bom" }, { content: "\ufeffa\n" }],
    [
      "whole lines up to the limit",
      { path: "many" },
      { content: "0123456789\n".repeat(9), endLine: 9, truncated: true },
    ],
    ["a part of a line", { path: "long" }, { content: "\u20ac".repeat(33), endLine: 1, truncated: true }],
    ["the line after it", { path: "long", startLine: 2 }, { content: "next\n", truncated: false }],
    ["a far window", { path: "big", startLine: 49_999 }, { content: "0123456789\n".repeat(2), totalLines: 50_000 }],
    ["a binary file", { path: "binary" }, { content: "", binary: true, bytes: 5 }],
    ["another encoding", { path: "latin" }, { content: "", binary: true }],
  ])("%s", async (_title, { path, ...window }, want) => {
    const answer = await stand.call("fs_read", { path: `@project/${path}`, ...window });
    expect(answer).toMatchObject({ binary: false, ...want, sha256: sha256(contents[path] ?? "") });
    if (answer["truncated"] === true) expect(answer["hint"]).toBeString();
  });

  test("a secret at the cut of a long line is not released in half", async () => {
    const secret = `ghp_${filler(36)}`;
    for (let at = 100 - secret.length; at < 101; at += 1) {
      writeFileSync(join(stand.project, "minified"), `${"x".repeat(at - 1)} ${secret} ${"y".repeat(40_000)}`);
      const { content } = await stand.call("fs_read", { path: "@project/minified" });
      expect(String(content).startsWith(`${"x".repeat(at - 1)} `.slice(0, 100))).toBe(true);
      expect(content).not.toContain(secret.slice(0, 4));
    }
  });

  test("a file that is too large is refused by its code", async () => {
    expect(await codeOf(stand.call("fs_read", { path: "@project/large" }))).toBe("E_READ_LIMIT");
  });

  test("a caller has the configured limit", async () => {
    const issuer = "https://idp.test";
    const agents = [{ issuer, subject: "small", maxReadBytes: 11 }];
    const other = fsStand({ limits: { agents } });
    writeFileSync(join(other.project, "many"), contents["many"] ?? "");
    const path = "@project/many";
    expect(await other.call("fs_read", { path }, { subject: "small" })).toMatchObject({ endLine: 1, truncated: true });
    expect(await other.call("fs_read", { path }, { subject: "agent" })).toMatchObject({
      endLine: 50,
      truncated: false,
    });
  });

  test("a plan says what will be read", async () => {
    const plan = await stand.plan("fs_read", { path: "@project/ten", startLine: 2 });
    expect(plan).toEqual({ kind: "fs", operation: "read", order: { path: "@project/ten", startLine: 2 } });
  });

  test.if(process.getuid?.() !== 0)("a file that the service may not read", async () => {
    chmodSync(join(stand.project, "ten"), 0);
    expect(await codeOf(stand.call("fs_read", { path: "@project/ten" }))).toBe("EACCES");
    chmodSync(join(stand.project, "ten"), 0o644);
  });

  test("a window shows the requested lines, in any chunks of the file", () => {
    const text = fc.string({ unit: fc.constantFrom("a", "\n", "\u20ac"), maxLength: 40 });
    fc.assert(
      fc.property(text, fc.nat(12), fc.nat(12), fc.integer({ min: 1, max: 9 }), (content, first, more, part) => {
        const [startLine, endLine] = [first + 1, first + 1 + more];
        const window = new LineWindow({ startLine, endLine }, 1_000);
        const bytes = Buffer.from(content);
        for (let at = 0; at < bytes.length; at += part) window.add(bytes.subarray(at, at + part));
        const lines = content.split(/(?<=\n)/).filter((line) => line !== "");
        expect(window.window.bytes.toString()).toBe(lines.slice(first, endLine).join(""));
        expect(window.totalLines).toBe(lines.length);
      }),
    );
  });
});

describe("fs_list", () => {
  const stand = fsStand();
  mkdirSync(join(stand.project, "dir/sub"), { recursive: true });
  for (const name of ["b.txt", "a.txt", ".hidden", "dir/inner"]) writeFileSync(join(stand.project, name), "12345");
  symlinkSync("a.txt", join(stand.project, "link"));
  writeFileSync(Buffer.concat([Buffer.from(join(stand.project, "bad-")), Buffer.from([0xff])]), "");

  test("in the order of names, without hidden ones and links", async () => {
    expect(await stand.call("fs_list", { path: "@project" })).toEqual({
      path: "@project",
      entries: [
        { name: "a.txt", type: "file", bytes: 5 },
        { name: "b.txt", type: "file", bytes: 5 },
        { name: "dir", type: "directory" },
      ],
      truncated: false,
      skipped: 3,
    });
  });

  test("with them when requested", async () => {
    const { entries, skipped } = await stand.call("fs_list", { path: "@project/", all: true });
    expect((entries as { name: string; type: string }[]).map(({ name, type }) => [name, type])).toEqual([
      [".hidden", "file"],
      ["a.txt", "file"],
      ["b.txt", "file"],
      ["dir", "directory"],
      ["link", "link"],
    ]);
    expect(skipped).toBe(1);
  });

  test("at most the requested number, and marked", async () => {
    expect(await stand.call("fs_list", { path: "@project", maxEntries: 2 })).toMatchObject({ truncated: true });
  });

  test.each([
    ["a file", "@project/a.txt", "ENOTDIR"],
    ["nothing", "@project/none", "ENOENT"],
    ["above", "@project/..", "E_SANDBOX_VIOLATION"],
  ])("refuses %s", async (_title, path, code) => {
    expect(await codeOf(stand.call("fs_list", { path }))).toBe(code);
  });

  test("a large directory is listed in part", async () => {
    const other = fsStand();
    for (let index = 0; index < 1_500; index += 1) writeFileSync(join(other.project, `f${index}`), "");
    const { entries, truncated } = await other.call("fs_list", { path: "@project" });
    expect([(entries as unknown[]).length, truncated]).toEqual([1_000, true]);
  });
});
