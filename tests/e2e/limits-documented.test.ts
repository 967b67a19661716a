import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { AskingService, type Loose, type Reply } from "../support/asking-service.ts";
import { readConfigFile } from "../support/build.ts";
import { blockNamed } from "../support/documented.ts";
import { type Ended, runStc } from "../support/stc.ts";
import { AGENTS_ISSUER } from "../support/tokens.ts";
import { PROJECT } from "../support/world.ts";

const EXAMPLE = join(PROJECT, "docs/examples/limits");
const PAGE = "docs/limits.md";

/** The example's service, with issuers of the test. */
class ExampleService extends AskingService {
  async start(): Promise<void> {
    const { jwt: _, audit: __, ...sections } = parse(readFileSync(join(EXAMPLE, "stc.yaml"), "utf8"));
    await this.run({ ...sections, tools: [join(EXAMPLE, "tools")] });
    const permissions = ["halts:read", "halts:write", "quotas:read", "quotas:write"];
    writeFileSync(join(this.folder, "token"), await this.person({ permissions }), { mode: 0o600 });
  }

  async call(tool: string, args: Loose): Promise<Reply> {
    const token = await this.agent({ permissions: ["payments:read", "payments:refund"] });
    return this.send("POST", "/call", { token, body: { tool, args } });
  }

  stc(...words: readonly string[]): Promise<Ended> {
    return runStc(words, { env: { STC_URL: this.url, STC_TOKEN_FILE: join(this.folder, "token") } });
  }
}

test("the configuration of the example is valid", () => {
  const { halts, limits } = readConfigFile(join(EXAMPLE, "stc.yaml"), {});
  expect(halts).toEqual({ whenUnknown: "refuseChanges" });
  const documented = parse(blockNamed(`${PAGE}: limits:`).text);
  expect(documented.limits.quotas).toEqual(limits.quotas);
});

describe("the example with limits", () => {
  const service = new ExampleService();
  beforeAll(() => service.start());
  afterAll(() => service.end());

  const refund = () => service.call("payments_refund", { payment: "P-1", cents: 5 });

  test("the commands of the page halt a tool, list the halt and lift it", async () => {
    const [halt = "", list = "", resume = ""] = blockNamed(`${PAGE}: stc halt --tool`).text.trim().split("\n");
    expect([list, resume.split(" ").slice(0, 2)]).toEqual(["stc halts", ["stc", "resume"]]);
    const [, tool = "", reason = ""] = /^stc halt --tool (\S+) --reason "(.*)"$/.exec(halt) ?? [];
    expect((await refund()).http).toBe(200);
    const set = await service.stc("halt", "--tool", tool, "--reason", reason);
    expect([set.code, set.err, set.out.split("\n")[0]]).toEqual([0, "", `halted: tool ${tool}`]);
    const id = /^id: (\S+)$/m.exec(set.out)?.[1] ?? "";
    expect((await refund()).body.error.code).toBe("HALTED");
    expect((await service.call("payments_status", { payment: "P-1" })).body.result).toEqual({ refundedCents: 5 });
    const listed = await service.stc("halts");
    expect(listed.code).toBe(0);
    for (const shown of [id, tool, reason, "alice"]) expect(listed.out).toContain(shown);
    const lifted = await service.stc("resume", id);
    expect([lifted.code, lifted.out]).toEqual([0, `lifted: ${id}\n`]);
    expect((await refund()).http).toBe(200);
    expect((await service.stc("resume", id)).code).toBe(1);
  });

  test("the commands of the page list the use of a quota, and set it to zero", async () => {
    const [list = "", reset = ""] = blockNamed(`${PAGE}: stc quotas list`).text.trim().split("\n");
    await refund();
    const listed = await service.stc(...list.split(" ").slice(1));
    expect([listed.code, listed.err]).toEqual([0, ""]);
    expect(listed.out).toMatch(/^budget +100 cost +month +caller$/m);
    expect(listed.out).toMatch(new RegExp(`^daily +\\d+ of 2000 calls +agent-7 +${AGENTS_ISSUER} +- +- +20`, "m"));
    const words = reset.replace("https://login.example.com/", AGENTS_ISSUER).split(" ").slice(1);
    const done = await service.stc(...words);
    expect([done.code, done.out]).toEqual([0, "reset: daily (1 use)\n"]);
    const { use } = JSON.parse((await service.stc("quotas", "list", "--json")).out);
    const shown = use.map(({ quota, used }: Loose) => [quota, quota === "volume" ? used > 0 : used]);
    expect(shown).toContainEqual(["daily", 0]);
    expect(shown).toContainEqual(["volume", true]);
    expect(use.find(({ quota }: Loose) => quota === "budget").used % 0.25).toBe(0);
  });

  test.each([
    [["list", "--caller", "only-one"], "--caller takes two values"],
    [["list", "--limit", "0"], "--limit must be from 1 to 500"],
    [["reset"], "missing required argument"],
    [["reset", "daily", "--tool", ""], "must not be empty"],
  ])("stc quotas %j is wrong usage", async (words, said) => {
    const { code, err } = await service.stc("quotas", ...words);
    expect(code).toBe(64);
    expect(err).toContain(said);
  });

  test("a quota that does not exist cannot be reset", async () => {
    const { code, err } = await service.stc("quotas", "reset", "nowhere");
    expect(code).toBe(1);
    expect(err).toContain("QUOTA_NOT_FOUND");
  });

  test.each([
    [["--all", "--reason", "r", "--for", "1h", "--cancel-running"], "halted: all calls, running ones too, until "],
    [["--system", "nowhere", "--reason", "r"], "halted: system nowhere\n"],
    [
      ["--caller", "https://idp.example/?a=b", "agent 7", "--reason", "r"],
      "halted: caller agent 7 of https://idp.example/?a=b\n",
    ],
    [
      ["--session", "sid:x", "--until", "2099-01-01T00:00:00+01:00", "--reason", "r"],
      "halted: session sid:x, until 2098-12-31T23:00:00.000Z",
    ],
  ])("stc halt %j", async (words, said) => {
    const { code, out, err } = await service.stc("halt", ...words);
    expect([code, err]).toEqual([0, ""]);
    expect(out).toStartWith(said);
    expect(out.includes("note: no system of this service is called nowhere")).toBe(words.includes("nowhere"));
    const answer = JSON.parse((await service.stc("halts", "--json")).out);
    for (const { id } of answer.halts) await service.stc("resume", id, "--json");
  });

  test.each([
    [["--reason", "r"], "name exactly one of --all, --tool, --system, --caller and --session"],
    [["--all", "--tool", "x", "--reason", "r"], "name exactly one of"],
    [["--caller", "only-one", "--reason", "r"], "--caller takes two values"],
    [["--all"], "required option '--reason <text>'"],
    [["--all", "--reason", "r", "--until", "soon"], "must be a time with its zone"],
    [["--all", "--reason", "r", "--until", "2099-01-01T00:00:00"], "must be a time with its zone"],
    [["--all", "--reason", "r", "--for", "400d"], "must be a duration"],
    [["--all", "--reason", "r", "--for", "1h", "--until", "2099-01-01T00:00:00Z"], "cannot be used with"],
  ])("stc halt %j is wrong usage", async (words, said) => {
    const { code, err } = await service.stc("halt", ...words);
    expect(code).toBe(64);
    expect(err).toContain(said);
  });
});
