import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeCertificates } from "../../../src/cli/development/certificates.ts";
import { blockNamed } from "../../support/documented.ts";
import { type Ended, runStc } from "../../support/stc.ts";
import { PROJECT } from "../../support/world.ts";

/** The example of docs/http.md and docs/mcp-upstreams.md, whose API and MCP server do not exist here. */
const folder = mkdtempSync(join(tmpdir(), "stc test "));
const fixtures = join(folder, "tools/get-order.test.yaml");
const COMMANDS = `
import { defineTool } from "safe-tool-call";
import { z } from "zod";
const base = { version: "1.0.0", classification: "read" as const, permissions: { required: ["a:read"] }, category: "command" as const };
export const count = defineTool({ ...base, name: "count_lines", description: "Count the lines of a revision",
  input: z.strictObject({ revision: z.string().max(40).regex(/^[a-z]+$/), limit: z.int().max(9).default(3) }),
  output: z.object({ lines: z.int() }), outputPolicy: { lines: "allow" },
  target: { system: "local", cli: { command: "wc", lookups: { commit: () => [{ args: ["never-run"], answer: /[0-9a-f]+/ }] },
    argsBuilder: ({ limit }, { commit }) => ["--", commit, String(limit)],
    parse: (stdout) => ({ lines: Number.parseInt(stdout, 10) }) } },
  examples: { accepts: [{ revision: "main" }], rejects: [{}] } });
`;
const COUNT = `tool: count_lines
calls:
  - args: { revision: main }
    input: { revision: main, limit: 3 }
    lookups: { commit: abc1 }
    plan: { argv: ["--", abc1, "3"] }
    verdict: ask
answers:
  # as wc writes it
  - stdout: "12 file\\n"
    released: { lines: 12 }
  - stdout: "no number"
    refused: { code: INVALID_OUTPUT }
`;

beforeAll(async () => {
  cpSync(join(PROJECT, "docs/examples/upstreams"), folder, { recursive: true });
  for (const name of ["certs", "secrets"]) mkdirSync(join(folder, name));
  const { rootCert } = await makeCertificates({ notBefore: new Date(0), notAfter: new Date("2099-01-01") });
  writeFileSync(join(folder, "certs/internal-ca.pem"), rootCert);
  writeFileSync(join(folder, "secrets/orders-token"), "the-token\n");
  const config = join(folder, "stc.yaml");
  writeFileSync(config, `${readFileSync(config, "utf8")}\ncommands: { allowed: [wc], confinement: require }\n`);
  writeFileSync(join(folder, "tools/count-lines.ts"), COMMANDS);
  writeFileSync(join(folder, "tools/count-lines.test.yaml"), COUNT);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function tested(...words: readonly string[]): Promise<Ended> {
  return runStc(["test", ...words, "--config", join(folder, "stc.yaml")]);
}

async function failing(source: string): Promise<string> {
  const file = join(folder, "failing.test.yaml");
  writeFileSync(file, source);
  const { code, out } = await tested(file);
  rmSync(file);
  expect(code).toBe(1);
  return out;
}

describe("`stc test`", () => {
  test("passes the documented fixtures, and those of a command, as they are", async () => {
    const [command = ""] = blockNamed("docs/authoring.md: stc test").text.trim().split("\n");
    expect(command).toBe("stc test --config stc.yaml");
    const { code, out } = await tested();
    expect(out).toContain("ok       an order by its number");
    expect([code, out.trim().split("\n").at(-1)]).toEqual([0, "8 passed, 0 failed"]);
  });

  test("runs the fixtures of one tool", async () => {
    const { code, out } = await tested("count_lines");
    expect([code, out.trim().split("\n").at(-1)]).toEqual([0, "3 passed, 0 failed"]);
  });

  test("names line, case and both values of everything that differs", async () => {
    const source = readFileSync(fixtures, "utf8")
      .replace("totalCents: 1999, customer:", "totalCents: 7, customer:")
      .replace("field: order ", "field: orders ")
      .replace("orders/A-7?lines=true", "orders/A-8")
      .replace("verdict: allow", "verdict: deny")
      .replace("removed: [customer.address, internalNote]", "removed: [customer.address, customer.phone]")
      .replace("code: PERMISSION_DENIED", "code: POLICY_DENIED");
    const out = await failing(source);
    expect(out).toMatch(/FAIL +line 5: an order by its number/);
    expect(out).toContain("verdict: expected deny, got allow");
    expect(out).toMatch(/plan\.url: expected ".*orders\/A-8", got ".*orders\/A-7\?lines=true"/);
    expect(out).toContain("refused.field: expected orders, got order");
    expect(out).toContain("refused.code: expected POLICY_DENIED, got PERMISSION_DENIED");
    expect(out).toContain("released.totalCents: expected 7, got 1999");
    expect(out).toContain("removed: expected customer.phone, which is not removed");
    expect(out).toContain("removed: internalNote is removed, too");
    expect(out).toContain("1 passed, 4 failed");
  });

  test.each([
    ["tool: get_ordr\ncalls: [{}]\n", "line 1: tool: there is no tool get_ordr"],
    ["tool: get_order\n", "has neither calls nor answers"],
    ["tool: get_order\ncalls:\n  - arg: {}\n", "line 3: calls[0].arg: is not a known key"],
    ["tool: get_order\ncalls:\n  - args: { order: ../x }\n", "is refused: INVALID_INPUT"],
    [
      "tool: get_order\nanswers:\n  - answer: { number: A, state: open, totalCents: 1 }\n",
      "says nothing about what is released",
    ],
    [
      "tool: get_order\nanswers:\n  - answer: { number: A, state: open, totalCents: 1 }\n    refused: {}\n",
      "expected a refusal",
    ],
    [
      "tool: count_lines\ncalls:\n  - args: { revision: a }\n    plan: {}\n",
      "lookups: the argv needs the answers of commit",
    ],
  ])("%j fails", async (source, says) => {
    expect(await failing(source)).toContain(says);
  });

  test("--update shows what differs, and writes only what answers release", async () => {
    const file = join(folder, "updated.test.yaml");
    const source = `tool: get_order
calls:
  - args: { order: ../x } # stays
answers:
  # an open order
  - answer: { number: A, state: open, totalCents: 1, customer: { email: a@b.example, address: x } }
`;
    writeFileSync(file, source);
    const first = await tested(file, "--update");
    expect([first.code, first.out]).toEqual([1, expect.stringMatching(/FAIL[\s\S]*updated {2}line 6/)]);
    const written = readFileSync(file, "utf8");
    expect(written).toContain("- args: { order: ../x } # stays");
    expect(written).toContain("# an open order");
    writeFileSync(file, written.replace("../x", "A-1"));
    const second = await tested(file);
    expect([second.code, second.out]).toEqual([0, expect.stringContaining("2 passed, 0 failed")]);
    expect(written).toMatch(/removed:\n\s+- customer\.address\n/);
    expect(written).toMatch(/masked:\n\s+- customer\.email\n/);
    rmSync(file);
  });

  test("says where fixtures are when there are none", async () => {
    const { code, err } = await tested("read_note");
    expect([code, err]).toEqual([66, expect.stringContaining("<manifest>.test.yaml")]);
  });
});
