import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Ended, run, STC } from "../support/stc.ts";
import { FIRST, question, StandInApprovals } from "../support/terminal-approvals.ts";

const LINES = 20_000;
const FULL = "standard output cannot be written (ENOSPC)\n";

let folder: string;
let log: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "stc-output-"));
  log = join(folder, "log");
  mkdirSync(log);
  const line = JSON.stringify({ timestamp: "2026-01-02T03:04:05.006Z", traceId: "t", decision: "DENIED", duration: 1 });
  writeFileSync(join(log, "2026-01-02.jsonl"), `${line}\n`.repeat(LINES));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A line of a shell's, in which `$stc` is the command line and what follows its arguments. */
function shell(script: string, env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  const command = STC.map((word) => `'${word}'`).join(" ");
  return run(["/bin/bash", "-o", "pipefail", "-c", `cd '${folder}'; ${script.replaceAll("$stc", command)}`], { env });
}

describe.concurrent("a full disk", () => {
  test.each([
    "audit tail --dir log",
    "audit query --dir log",
    "audit stats --dir log",
    "audit export --format csv --dir log",
    "audit verify --dir log",
    "audit keys --help",
    "--version",
    "--help",
  ])("stc %s", async (args) => {
    expect(await shell(`$stc ${args} > /dev/full`)).toEqual({ code: 73, out: "", err: FULL });
  });

  test("a key that was created exists, though it cannot be shown", async () => {
    const { code, err } = await shell("$stc audit keys --new fresh.pem > /dev/full");
    expect({ code, err }).toEqual({ code: 73, err: `the change was made, but ${FULL}` });
    expect(statSync(join(folder, "fresh.pem")).mode & 0o777).toBe(0o600);
  });

  test("without room for errors the exit code still reports the failure", async () => {
    expect((await shell("$stc audit tail --dir nowhere 2> /dev/full")).code).toBe(66);
    expect((await shell("$stc aduit 2> /dev/full")).code).toBe(64);
    expect((await shell("$stc audit tail --dir nowhere 2>&-")).code).toBe(66);
  });
});

describe.concurrent("a reader that closes the pipe", () => {
  test.each([
    "audit query --limit 20000 --dir log",
    "audit export --format jsonl --dir log",
    "audit tail -n 20000 --dir log",
  ])("stc %s ends as programs do, and prints nothing", async (args) => {
    const { out, err } = await shell(`$stc ${args} | head -1; echo "\${PIPESTATUS[0]}"`);
    expect(err).toBe("");
    expect(out.trimEnd().split("\n")).toHaveLength(2);
    expect(out).toEndWith("\n141\n");
  });

  test("a slow reader gets everything", async () => {
    const { out } = await shell("$stc audit query --limit 20000 --json --dir log | (sleep 0.2; wc -l)");
    expect(Number(out)).toBe(LINES);
  });
});

describe.concurrent("a decision does not depend on whether it can be printed", () => {
  async function deciding(script: string, set: (service: StandInApprovals) => void = () => {}) {
    const service = new StandInApprovals();
    service.add(question());
    set(service);
    writeFileSync(join(folder, "token"), "operator.token.x\n");
    const ended = await shell(script, { STC_URL: service.url, STC_TOKEN_FILE: join(folder, "token") });
    await service.close();
    return { ...ended, decisions: service.decisions.length };
  }

  test("a view that cannot be shown is not approved", async () => {
    const ended = await deciding(`$stc approvals approve ${FIRST} > /dev/full`);
    expect(ended).toMatchObject({ code: 73, decisions: 0, err: `not decided: the view cannot be shown\n${FULL}` });
  });

  test.each([
    `approvals deny ${FIRST}`,
    `approvals deny ${FIRST} --json`,
    `approvals approve ${FIRST} --json`,
    "grants revoke 01900000-0000-7000-8000-0000000000ff",
  ])("stc %s is done and reports it", async (args) => {
    expect(await deciding(`$stc ${args} > /dev/full`)).toMatchObject({
      code: 73,
      err: `the change was made, but ${FULL}`,
    });
  });

  test("nor on whether anybody reads it", async () => {
    const { out, decisions } = await deciding(`$stc approvals deny ${FIRST} | true; echo "\${PIPESTATUS[0]}"`);
    expect({ out, decisions }).toEqual({ out: "0\n", decisions: 1 });
  });
});

describe.concurrent("an export to a file is complete or absent", () => {
  test("a day that cannot be read", async () => {
    const broken = join(folder, "broken");
    mkdirSync(broken);
    symlinkSync(join(log, "2026-01-02.jsonl"), join(broken, "2026-01-02.jsonl"));
    mkdirSync(join(broken, "2026-01-03.jsonl"));
    const { code, err } = await shell("$stc audit export --format csv --dir broken -o half.csv");
    expect(code).toBe(66);
    expect(err).toContain("half.csv would be incomplete and was deleted\n");
    expect(existsSync(join(folder, "half.csv"))).toBe(false);
  });

  test("a complete export stays and is not overwritten", async () => {
    const first = await shell("$stc audit export --format jsonl --dir log -o whole.jsonl");
    expect(first).toEqual({ code: 0, out: "", err: `${LINES} calls in whole.jsonl\n` });
    const size = statSync(join(folder, "whole.jsonl")).size;
    expect((await shell("$stc audit export --format csv --dir log -o whole.jsonl")).code).toBe(73);
    expect(statSync(join(folder, "whole.jsonl")).size).toBe(size);
  });
});

describe.concurrent("wrong arguments", () => {
  test("are printed without control sequences", async () => {
    for (const script of ["$stc $'\\e]0;x\\a\\e[2J'", "$stc approvals show --x$'\\e[2J\\xc2\\x9b'"]) {
      const { code, err } = await shell(script);
      expect(code).toBe(64);
      expect(err).toContain("\\u001b");
      expect(err).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/);
    }
  });

  test("a range that ends before it begins is an error", async () => {
    const { code, out, err } = await shell("$stc audit verify --dir log --from 2026-01-05 --to 2026-01-01");
    expect({ code, out, err }).toEqual({ code: 64, out: "", err: "--from must not be later than --to\n" });
    expect((await shell("$stc audit verify --dir log --from 2026-01-02 --to 2026-01-02")).code).toBe(6);
  });

  test("a count reports how far it goes", async () => {
    expect((await shell("$stc audit tail -n 1000000 --dir log")).err).toContain("a whole number from 0 to 999999");
  });

  test("an invalid key is named without a library's words", async () => {
    writeFileSync(join(folder, "no-key"), "x\n");
    const { code, err } = await shell("$stc audit keys --key no-key");
    expect({ code, err }).toEqual({ code: 66, err: "no-key does not contain an Ed25519 key in PEM\n" });
    expect(readFileSync(join(folder, "no-key"), "utf8")).toBe("x\n");
  });
});
