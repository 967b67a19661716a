import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { Refusal } from "../../../src/core/errors.ts";
import { until } from "../../support/until.ts";
import { codeOf, fsStand, refusalOf } from "./stand.ts";

const sha256 = (content: string | Uint8Array): string => createHash("sha256").update(content).digest("hex");
const path = "@project/a.txt";

describe("a plan", () => {
  test("is everything that will be written, and writes nothing", async () => {
    const stand = fsStand();
    writeFileSync(join(stand.project, "a.txt"), "one\ntwo\nthree\n");
    symlinkSync("a.txt", join(stand.project, "link"));
    expect(await stand.plan("fs_write", { path: "@project/./link", content: "one\n2\nthree\n" })).toEqual({
      kind: "fs",
      operation: "write",
      path,
      currentSha256: sha256("one\ntwo\nthree\n"),
      newSha256: sha256("one\n2\nthree\n"),
      bytes: 12,
      directories: [],
      workflow: false,
      diff: [`--- ${path}`, `+++ ${path}`, "@@ -1,3 +1,3 @@", " one", "-two", "+2", " three"],
      content: "one\n2\nthree\n",
    });
    expect(readFileSync(join(stand.project, "a.txt"), "utf8")).toBe("one\ntwo\nthree\n");
    expect(readdirSync(stand.project).sort()).toEqual(["a.txt", "link"]);
  });

  test("of a new file says that there was none", async () => {
    expect(await fsStand().plan("fs_write", { path, content: "x\n" })).toMatchObject({
      currentSha256: null,
      diff: ["--- (new file)", `+++ ${path}`, "@@ -0,0 +1,1 @@", "+x"],
    });
  });

  test("is the same while nothing changes", async () => {
    const stand = fsStand();
    writeFileSync(join(stand.project, "a.txt"), "x");
    const plan = await stand.plan("fs_write", { path, content: "y" });
    expect(await stand.plan("fs_write", { path, content: "y" })).toEqual(plan);
  });

  test.each([
    ["binary", Buffer.from([0, 1, 2])],
    ["large", "x\n".repeat(600_000)],
  ])("does not show what was %s", async (title, before) => {
    const stand = fsStand();
    writeFileSync(join(stand.project, "a.txt"), before);
    const { diff } = (await stand.plan("fs_write", { path, content: "y" })) as unknown as { diff: readonly string[] };
    expect(diff).toEqual([`(not shown: the file is ${title === "binary" ? "not text" : "large"})`]);
  });

  test("limits what it shows", async () => {
    const content = `${"x".repeat(5_000)}\n`.repeat(200).concat("y\n".repeat(600));
    const { diff } = (await fsStand().plan("fs_write", { path, content })) as unknown as { diff: readonly string[] };
    expect(diff.length).toBe(401);
    expect(diff.at(-1)).toBe("… 403 more lines");
    expect(diff[3]).toEndWith("(4501 more characters)");
  });

  test.each([
    ["a hash of another content", { ifMatchSha256: "0".repeat(64) }, "E_PRECONDITION_FAILED"],
    ["too much", { content: "x".repeat(101) }, "E_WRITE_LIMIT"],
    ["too many bytes in few characters", { content: "\u20ac".repeat(40) }, "E_WRITE_LIMIT"],
    ["a missing directory", { path: "@project/new/a.txt" }, "ENOENT"],
  ])("refuses %s", async (_title, args, code) => {
    const stand = fsStand({ limits: { maxWriteBytes: 100 } });
    writeFileSync(join(stand.project, "a.txt"), "before");
    expect(await codeOf(stand.plan("fs_write", { path, content: "x", ...args }))).toBe(code);
  });
});

describe("a run", () => {
  test("replaces the old file, keeps its mode, leaves nothing behind", async () => {
    const stand = fsStand();
    const file = join(stand.project, "a.txt");
    writeFileSync(file, "before");
    chmodSync(file, 0o640);
    const answer = await stand.call("fs_write", {
      path,
      content: "after",
      ifMatchSha256: sha256("before").toUpperCase(),
    });
    expect(answer).toEqual({ path, sha256: sha256("after"), bytes: 5, created: false, changed: true });
    expect([readFileSync(file, "utf8"), statSync(file).mode & 0o777]).toEqual(["after", 0o640]);
    expect(readdirSync(stand.project)).toEqual(["a.txt"]);
  });

  test("changes nothing once the call has ended", async () => {
    const stand = fsStand();
    const file = join(stand.project, "a.txt");
    writeFileSync(file, "before");
    const begin = () => {
      throw new Refusal("DEADLINE_EXCEEDED", "over");
    };
    expect(await codeOf(stand.call("fs_write", { path, content: "after" }, { begin }))).toBe("DEADLINE_EXCEEDED");
    expect([readFileSync(file, "utf8"), readdirSync(stand.project)]).toEqual(["before", ["a.txt"]]);
  });

  test("creates directories on request", async () => {
    const stand = fsStand();
    const args = { path: "@project/x/y/z.txt", content: "new", createDirectories: true };
    expect(await stand.plan("fs_write", args)).toMatchObject({ directories: ["x", "y"] });
    expect(await stand.call("fs_write", args)).toMatchObject({ created: true });
    expect(readFileSync(join(stand.project, "x/y/z.txt"), "utf8")).toBe("new");
  });

  test("does not touch a file that has the content already", async () => {
    const stand = fsStand();
    const file = join(stand.project, "a.txt");
    writeFileSync(file, "same");
    const before = statSync(file, { bigint: true });
    expect(await stand.call("fs_write", { path, content: "same" })).toMatchObject({ changed: false });
    expect(statSync(file, { bigint: true }).ino).toBe(before.ino);
  });

  type Change = (file: string, project: string) => void;
  const changes: readonly (readonly [string, Change])[] = [
    ["was changed", (file) => writeFileSync(file, "meanwhile")],
    ["is gone", (file) => rmSync(file)],
    [
      "is a link now",
      (file, project) => {
        rmSync(file);
        writeFileSync(join(project, "b.txt"), "before");
        symlinkSync("b.txt", file);
      },
    ],
    [
      "is a directory now",
      (file) => {
        rmSync(file);
        mkdirSync(file);
      },
    ],
  ];
  test.each(changes)("does not write when the file %s", async (_title, change) => {
    const stand = fsStand();
    const file = join(stand.project, "a.txt");
    writeFileSync(file, "before");
    const plan = await stand.plan("fs_write", { path, content: "after" });
    change(file, stand.project);
    expect(["E_PRECONDITION_FAILED", "EISDIR"]).toContain(await codeOf(stand.run("fs_write", plan)));
    expect(existsSync(file) && statSync(file).isFile() ? readFileSync(file, "utf8") : "").not.toBe("after");
    expect(readdirSync(stand.project).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  });

  test("does not write when there is a new file where there was none", async () => {
    const stand = fsStand();
    const plan = await stand.plan("fs_write", { path, content: "after" });
    writeFileSync(join(stand.project, "a.txt"), "meanwhile");
    expect(await codeOf(stand.run("fs_write", plan))).toBe("E_PRECONDITION_FAILED");
    expect(readFileSync(join(stand.project, "a.txt"), "utf8")).toBe("meanwhile");
  });

  test("one of many writers with the same expectation succeeds", async () => {
    const stand = fsStand();
    writeFileSync(join(stand.project, "a.txt"), "before");
    const ifMatchSha256 = sha256("before");
    const plans = await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        stand.plan("fs_write", { path, content: `after ${index}`, ifMatchSha256 }),
      ),
    );
    const codes = await Promise.all(plans.map((plan) => codeOf(stand.run("fs_write", plan))));
    expect(codes.filter((code) => code === "done")).toHaveLength(1);
    expect(codes.filter((code) => code === "E_PRECONDITION_FAILED")).toHaveLength(7);
    expect(readFileSync(join(stand.project, "a.txt"), "utf8")).toBe(`after ${codes.indexOf("done")}`);
  });

  test("one of many writers of a new file succeeds", async () => {
    const stand = fsStand();
    const plans = await Promise.all(
      Array.from({ length: 8 }, (_, index) => stand.plan("fs_write", { path, content: `new ${index}` })),
    );
    const codes = await Promise.all(plans.map((plan) => codeOf(stand.run("fs_write", plan))));
    expect(codes.filter((code) => code === "done")).toHaveLength(1);
    expect(readFileSync(join(stand.project, "a.txt"), "utf8")).toBe(`new ${codes.indexOf("done")}`);
  });

  test.if(Bun.which("flock") !== null)(
    "waits for another process that writes there, within its time limit",
    async () => {
      const stand = fsStand();
      const plan = await stand.plan("fs_write", { path, content: "x" });
      const holder = Bun.spawn(["flock", stand.project, "sh", "-c", "echo held; read line"], {
        stdin: "pipe",
        stdout: "pipe",
      });
      await holder.stdout.getReader().read();
      expect(await refusalOf(stand.run("fs_write", plan, { deadline: 0 }))).toMatchObject({
        code: "TARGET_UNAVAILABLE",
      });
      const waiting = stand.run("fs_write", plan);
      holder.stdin.write("\n");
      holder.stdin.end();
      expect(await waiting).toMatchObject({ created: true });
    },
  );

  test("an agent's smaller limit applies", async () => {
    const agents = [{ issuer: "https://idp.test", subject: "small", maxWriteBytes: 3 }];
    const stand = fsStand({ limits: { agents } });
    const plan = await stand.plan("fs_write", { path, content: "four" });
    expect(await codeOf(stand.run("fs_write", plan, { subject: "small" }))).toBe("E_WRITE_LIMIT");
    expect(await codeOf(stand.run("fs_write", plan))).toBe("done");
  });

  test.if(process.getuid?.() !== 0)("a file that its owner made read-only stays", async () => {
    const stand = fsStand();
    const file = join(stand.project, "a.txt");
    writeFileSync(file, "before");
    chmodSync(file, 0o444);
    expect(await codeOf(stand.call("fs_write", { path, content: "after" }))).toBe("EACCES");
    expect(readFileSync(file, "utf8")).toBe("before");
  });

  test("a killed writer leaves the old file or the new one", async () => {
    const stand = fsStand();
    const file = join(stand.project, "a.txt");
    for (let round = 0; round < 4; round += 1) {
      const child = Bun.spawn([process.execPath, join(import.meta.dir, "writer-child.ts"), stand.folder], {
        stdout: "pipe",
        stderr: "inherit",
      });
      await child.stdout.getReader().read();
      await until("a write", () => (existsSync(file) ? true : undefined));
      child.kill("SIGKILL");
      await child.exited;
      const content = readFileSync(file, "utf8");
      expect(content.length).toBe(200_000);
      expect(new Set(content).size).toBe(1);
    }
    const { entries } = await stand.call("fs_list", { path: "@project" });
    expect((entries as readonly { readonly name: string }[]).map(({ name }) => name)).toEqual(["a.txt"]);
  });
});
