import { afterAll, describe, expect, test } from "bun:test";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePorts } from "../support/ports.ts";
import { RunningStc, run, runStc, STC } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

const folder = mkdtempSync(join(tmpdir(), "stc init "));
afterAll(() => rmSync(folder, { recursive: true }));

const own = (name: string): string => {
  const path = join(folder, name);
  mkdirSync(path);
  return path;
};

const filesBelow = (path: string): readonly string[] =>
  [...new Bun.Glob("**/*").scanSync({ cwd: path, dot: true })].sort();

const SERVICE = [
  ...[".gitignore", "README.md", "keys/.gitignore", "keys/issuers/agents/jwks.json"],
  ...["keys/issuers/agents/private.jwk.json", "keys/issuers/operators/jwks.json"],
  ...["keys/issuers/operators/private.jwk.json", "package.json", "stc.schema.json", "stc.yaml", "tests/notes.test.ts"],
  ...["tools/add-note.test.yaml", "tools/get-health.tool.yaml", "tools/notes.ts", "tools/search-notes.test.yaml"],
  ...["tools/test.schema.json", "tools/tool.schema.json", "tsconfig.json"],
];

const DATABASE = ["shop.sqlite", "tools/orders-of-customer.test.yaml", "tools/orders-of-customer.tool.yaml"];

describe("stc init", () => {
  test("writes a service that loads, into a new folder whose name has a space", async () => {
    const { code, out, err } = await runStc(["init", "my service"], { cwd: folder });
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toContain("\nNext, in my service:\n\n  stc serve --config stc.yaml\n");
    const made = join(folder, "my service");
    expect(filesBelow(made)).toEqual(SERVICE);
    expect(readFileSync(join(made, "stc.yaml"), "utf8")).toContain("docs/configuration.md has every setting");
    expect(JSON.parse(readFileSync(join(made, "package.json"), "utf8"))).toMatchObject({
      name: "my-service",
      private: true,
      dependencies: { "safe-tool-call": "link:safe-tool-call" },
    });
    const checked = await runStc(["check", "--config", join(made, "stc.yaml")]);
    expect(checked).toMatchObject({ code: 0, err: "" });
    expect(checked.out).toStartWith("ok: 3 tools\n");
    expect(readFileSync(join(made, "README.md"), "utf8").trim().split("\n").length).toBeLessThanOrEqual(25);
  });

  test("with --database, also writes a database and a tool, which answer at once, with the address masked", async () => {
    const made = own("with a database");
    const { code, out, err } = await runStc(["init", "--database"], { cwd: made });
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(filesBelow(made)).toEqual([...SERVICE, ...DATABASE].sort());
    const passed = await runStc(["test", "--config", "stc.yaml"], { cwd: made });
    expect([passed.code, passed.out.trim().split("\n").at(-1)]).toEqual([0, "7 passed, 0 failed"]);
    const port = String(freePorts());
    const env = { STC_PORT: port, STC_URL: `http://127.0.0.1:${port}` };
    const service = new RunningStc(["serve", "--config", "stc.yaml"], { cwd: made, env });
    try {
      await service.printed("listening");
      const stc = `stc() { ${STC.map((word) => `'${word}'`).join(" ")} "$@"; }`;
      const [token = "", call = ""] = out.trim().split("\n").slice(-2);
      const answer = await run(["bash", "-ec", [stc, token, call].join("\n")], { cwd: made, env });
      expect({ code: answer.code, err: answer.err }).toEqual({ code: 0, err: "" });
      const { status, result } = JSON.parse(answer.out);
      expect([status, result.rows.length, result.rows[0]]).toEqual([
        "success",
        3,
        { id: "105", status: "open", total: "149.50", contact: "j*********@m***.example" },
      ]);
    } finally {
      await service.end("SIGTERM");
    }
  });

  test("makes private keys that only their owner reads, and that git never adds", async () => {
    const made = own("keys of mine");
    expect(await runStc(["init"], { cwd: made })).toMatchObject({ code: 0 });
    for (const issuer of ["agents", "operators"]) {
      expect(statSync(join(made, "keys/issuers", issuer, "private.jwk.json")).mode & 0o777).toBe(0o600);
      expect(statSync(join(made, "keys/issuers", issuer)).mode & 0o777).toBe(0o700);
    }
    // Also where the project has a .gitignore of its own.
    rmSync(join(made, ".gitignore"));
    await run(["git", "init", "-q", "."], { cwd: made });
    await run(["git", "add", "--all"], { cwd: made });
    const { out } = await run(["git", "ls-files"], { cwd: made });
    expect(out).toContain("stc.yaml\n");
    expect(out).not.toContain("keys/");
  });

  test("stc token --keys signs with these keys, and makes missing ones", async () => {
    const made = own("tokens");
    await runStc(["init"], { cwd: made });
    const kidOf = (): string =>
      JSON.parse(readFileSync(join(made, "keys/issuers/agents/jwks.json"), "utf8")).keys[0].kid;
    const headerOf = (token: string) => JSON.parse(Buffer.from(token.split(".")[0] ?? "", "base64url").toString());
    const first = await runStc(["token", "--keys", "keys", "--sub", "a"], { cwd: made });
    expect(headerOf(first.out)).toMatchObject({ alg: "ES256", kid: kidOf() });
    const before = kidOf();
    rmSync(join(made, "keys"), { recursive: true });
    const second = await runStc(["token", "--keys", "keys", "--sub", "a"], { cwd: made });
    expect(second.code).toBe(0);
    expect(kidOf()).not.toBe(before);
    expect(headerOf(second.out).kid).toBe(kidOf());
    expect(readdirSync(made)).toContain("keys");
  });

  test("writes nothing where one of its files exists, and names all of them", async () => {
    const made = own("taken");
    writeFileSync(join(made, "stc.yaml"), "mine");
    mkdirSync(join(made, "keys"));
    writeFileSync(join(made, "tests"), "a file");
    writeFileSync(join(made, "shop.sqlite"), "mine");
    const withDatabase = await runStc(["init", "taken", "--database"], { cwd: folder });
    expect(withDatabase.err).toContain("taken/keys, taken/shop.sqlite, taken/tests exist already");
    rmSync(join(made, "shop.sqlite"));
    const { code, out, err } = await runStc(["init", "taken"], { cwd: folder });
    expect({ code, out, err }).toEqual({
      code: 1,
      out: "",
      err: "nothing is written: taken/stc.yaml, taken/keys, taken/tests exist already\n",
    });
    expect(readdirSync(made).sort()).toEqual(["keys", "stc.yaml", "tests"]);
    expect(readFileSync(join(made, "stc.yaml"), "utf8")).toBe("mine");
  });

  test("does not write through a link", async () => {
    const made = own("linked");
    symlinkSync(join(folder, "elsewhere"), join(made, "stc.yaml"));
    const { code, err } = await runStc(["init"], { cwd: made });
    expect({ code, err }).toEqual({ code: 1, err: "nothing is written: stc.yaml exists already\n" });
    expect(readdirSync(folder)).not.toContain("elsewhere");
  });

  test("joins a project: its own files stay, and it says what to add to them", async () => {
    const made = own("project");
    for (const name of ["package.json", "README.md", "other.ts"]) writeFileSync(join(made, name), "mine");
    const { code, out } = await runStc(["init"], { cwd: made });
    expect(code).toBe(0);
    expect(out).toContain("kept  package.json: add safe-tool-call and zod to its dependencies\nkept  README.md\n");
    for (const name of ["package.json", "README.md", "other.ts"]) {
      expect(readFileSync(join(made, name), "utf8")).toBe("mine");
    }
    expect(filesBelow(made)).toEqual([...SERVICE, "other.ts"].sort());
  });

  test("ends with an error where the folder cannot be made", async () => {
    writeFileSync(join(folder, "file"), "");
    const { code, err } = await runStc(["init", "file/below"], { cwd: folder });
    expect(code).toBe(1);
    expect(err).toMatch(/cannot be written \(ENOTDIR\)/);
  });

  test("its editors' schemas are those of this version", async () => {
    const made = own("schemas");
    await runStc(["init"], { cwd: made });
    for (const kind of ["tool", "test"]) {
      const { out } = await runStc(["schema", kind]);
      expect(JSON.parse(readFileSync(join(made, `tools/${kind}.schema.json`), "utf8"))).toEqual(JSON.parse(out));
    }
    const { out } = await runStc(["schema", "configuration"]);
    expect(JSON.parse(readFileSync(join(made, "stc.schema.json"), "utf8"))).toEqual(JSON.parse(out));
    expect(readFileSync(join(made, "stc.yaml"), "utf8")).toStartWith(
      "# yaml-language-server: $schema=stc.schema.json\n",
    );
    const documented = JSON.parse(readFileSync(join(PROJECT, "docs/tool.schema.json"), "utf8"));
    expect(JSON.parse(readFileSync(join(made, "tools/tool.schema.json"), "utf8"))).toEqual(documented);
  });
});
