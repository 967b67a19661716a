import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { pack, unpack } from "../../src/bundles/archive.ts";
import { run } from "../support/stc.ts";

const BLOCK = 512;
const one = gunzipSync(pack(new Map([["tools/a.yaml", Buffer.from("content")]])));

interface Change {
  readonly at: number;
  readonly text: string;
  /** Keeps the old checksum. */
  readonly isDamaged?: boolean;
}

/** Returns an archive whose header was changed, with a checksum that fits. */
function changed({ at, text, isDamaged = false }: Change): Buffer {
  const tar = Buffer.from(one);
  tar.write(text, at, "latin1");
  if (!isDamaged) {
    tar.write("        ", 148, "latin1");
    const sum = tar.subarray(0, BLOCK).reduce((total, byte) => total + byte, 0);
    tar.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  }
  return gzipSync(tar);
}

const named = (name: string): Buffer => changed({ at: 0, text: name.padEnd(100, "\0") });
const typed = (type: string): Buffer => changed({ at: 156, text: type });
const entries = (paths: readonly string[]): Buffer => {
  const blocks = paths.map((path) => {
    const tar = gunzipSync(changed({ at: 0, text: path.padEnd(100, "\0") }));
    return tar.subarray(0, 2 * BLOCK);
  });
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)]));
};

const HOSTILE: readonly (readonly [title: string, archive: () => Buffer, says: string])[] = [
  ["an absolute path", () => named("/etc/passwd"), "a path that is not a plain relative path"],
  ["a path upwards", () => named("../x"), "a path that is not a plain relative path"],
  ["a path upwards in its middle", () => named("tools/../../x"), "a path that is not a plain relative path"],
  ["a path with a dot", () => named("./tools/x"), "a path that is not a plain relative path"],
  ["a hidden file", () => named("tools/.x"), "a path that is not a plain relative path"],
  ["a backslash", () => named("tools\\x"), "a path that is not a plain relative path"],
  ["an empty path", () => named(""), "a path that is not a plain relative path"],
  ["two slashes", () => named("tools//x"), "a path that is not a plain relative path"],
  ["a line end", () => named("tools/x\ny"), "a path that is not a plain relative path"],
  ["bytes after the end of a name", () => named("a\0b"), "a path that is not a plain relative path"],
  ["a deep path", () => named("a/b/c/d/e/f/g/h/i"), "a path that is too long"],
  ["the same path twice", () => entries(["tools/a.yaml", "tools/a.yaml"]), "holds tools/a.yaml twice"],
  ["a path that differs in case alone", () => entries(["tools/a.yaml", "Tools/A.yaml"]), "holds Tools/A.yaml twice"],
  ["a hard link", () => typed("1"), "which is not a regular file"],
  ["a symbolic link", () => typed("2"), "which is not a regular file"],
  ["a device", () => typed("3"), "which is not a regular file"],
  ["a folder", () => typed("5"), "which is not a regular file"],
  ["a pipe", () => typed("6"), "which is not a regular file"],
  ["an extension of pax", () => typed("x"), "which is not a regular file"],
  ["a long name of GNU", () => typed("L"), "which is not a regular file"],
  [
    "a regular file with a link's target",
    () => changed({ at: 157, text: "/etc/passwd" }),
    "which is not a regular file",
  ],
  ["a size beyond the archive", () => changed({ at: 124, text: "77777777777\0" }), "the archive ends within"],
  ["a size in base 256", () => changed({ at: 124, text: "\x80\0\0\0\0\0\0\0\0\0\0\x07" }), "without a size"],
  ["a negative size", () => changed({ at: 124, text: "-0000000007\0" }), "without a size"],
  ["another kind of tar", () => changed({ at: 257, text: "ustar  \0" }), "not of POSIX tar"],
  ["a wrong checksum", () => changed({ at: 100, text: "7", isDamaged: true }), "a damaged entry"],
  ["no end", () => gzipSync(one.subarray(0, 2 * BLOCK)), "no proper end"],
  ["half an end", () => gzipSync(one.subarray(0, 3 * BLOCK)), "no proper end"],
  ["content after the end", () => gzipSync(Buffer.concat([one, Buffer.from("x".repeat(BLOCK))])), "no proper end"],
  ["an endless end", () => gzipSync(Buffer.concat([one, Buffer.alloc(900_000)])), "no proper end"],
  ["a file that is also a folder", () => entries(["tools", "tools/a.yaml"]), "holds tools/a.yaml below a file"],
  ["one in another case", () => entries(["a/Tools", "a/tools/x/b.yaml"]), "holds a/tools/x/b.yaml below a file"],
  [
    "too many files",
    () => pack(new Map(Array.from({ length: 2_001 }, (_, at) => [`f${at}`, Buffer.of()]))),
    "more than 2000 files",
  ],
  ["more than it may unpack to", () => pack(new Map([["a", Buffer.alloc(5_000_000)]])), "unpacks to more than"],
];

test.each(HOSTILE)("refused: %s", (_title, archive, says) => {
  expect(() => unpack(archive())).toThrow(says);
});

test("long paths are kept", () => {
  const path = `${"a".repeat(60)}/${"b".repeat(60)}/${"c".repeat(60)}`;
  expect([...unpack(pack(new Map([[path, Buffer.from("x")]]))).keys()]).toEqual([path]);
});

test("the bytes depend on the files alone, not on their order", () => {
  const files: [string, Buffer][] = [
    ["b", Buffer.from("2")],
    ["a", Buffer.from("1")],
  ];
  expect(pack(new Map(files))).toEqual(pack(new Map(files.reverse())));
});

test.skipIf(Bun.which("tar") === null)("other programs read the archive", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stc-tar-"));
  writeFileSync(join(folder, "x.tar.gz"), pack(new Map([["tools/a.yaml", Buffer.from("content")]])));
  const { code, out } = await run(["tar", "-xOzf", join(folder, "x.tar.gz"), "tools/a.yaml"]);
  expect({ code, out }).toEqual({ code: 0, out: "content" });
  rmSync(folder, { recursive: true });
});
