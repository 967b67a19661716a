import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { readLastNotes } from "../../src/audit/chain/checkpoint.ts";
import { BLOCKS, blockNamed } from "../support/documented.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { freePorts } from "../support/ports.ts";
import { RunningStc, run, runStc, STC } from "../support/stc.ts";
import { hasTerminals, TerminalStc } from "../support/terminal.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

mkdirSync(join(PROJECT, "var"), { recursive: true });
// It stands for the clone, in which readers paste: what is written there is not written into the real one.
const clone = mkdtempSync(join(PROJECT, "var", "pasted-"));
for (const name of ["src", "docs", "certs", "package.json", "bunfig.toml", "node_modules"])
  symlinkSync(join(PROJECT, name), join(clone, name));
mkdirSync(join(clone, "var"));
const port = freePorts();
const url = `http://127.0.0.1:${port}`;
let service: RunningStc;
/** The service of `stc init` that the quick starts use. */
const ownPort = freePorts();
const ownUrl = `http://127.0.0.1:${ownPort}`;
let own: RunningStc;

beforeAll(async () => {
  service = new RunningStc(["serve", "--dev"], {
    env: {
      STC_PORT: String(port),
      STC_AUDIT_DIR: join(clone, "audit-logs"),
      STC_APPROVALS_STORE: `sqlite://${join(clone, "approvals.sqlite")}`,
    },
  });
  await service.printed("Ctrl-C stops the service.");
  const [, init = "", serve = ""] = quickStart("npm i -g").split("\n");
  await runStc(init.split(" ").slice(1), { cwd: clone });
  own = new RunningStc(serve.split(" ").slice(1), { cwd: clone, env: { STC_PORT: String(ownPort) } });
  await own.printed("listening");
  await pasteOwn(quickStart("cd my-service"), clone);
});

afterAll(async () => {
  await service.end("SIGKILL");
  await own.end("SIGKILL");
  rmSync(clone, { recursive: true, force: true });
});

test("every TypeScript block type-checks under the strictest settings", async () => {
  const folder = join(clone, "types");
  mkdirSync(join(folder, "tools"), { recursive: true });
  const blocks = BLOCKS.filter(({ language, text }) => language === "ts" && text.startsWith("import "));
  expect(blocks.length).toBeGreaterThan(10);
  for (const [at, { text }] of blocks.entries()) writeFileSync(join(folder, `block-${at}.ts`), text);
  // What the program of that page imports.
  const manifests = [
    ["disk-usage.ts", "docs/first-service.md: import { defineTool } "],
    ["cancel-order.ts", "docs/first-service.md: import { defineTool, grpcMethod } "],
  ] as const;
  for (const [name, begin] of manifests) writeFileSync(join(folder, "tools", name), blockNamed(begin).text);
  // The readers' own token, and a package whose only content is another one.
  const given = `declare const token: string;\ndeclare module "@openai/agents" { export * from "@openai/agents-core"; }\n`;
  writeFileSync(join(folder, "given.d.ts"), given);
  const settings = { extends: join(PROJECT, "tsconfig.json"), include: ["./**/*.ts"], exclude: [] };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(settings));
  const { code, out } = await run(
    [process.execPath, join(PROJECT, "node_modules/.bin/tsc"), "--noEmit", "-p", folder],
    { cwd: folder },
  );
  expect({ code, out }).toEqual({ code: 0, out: "" });
});

/** The lines as a reader beside this test's service pastes them. */
function ours(lines: string): string {
  const bun = `"${process.execPath}" --cwd="${clone}"`;
  return lines.replaceAll("npx -y bun@1.4.5 run", `${bun} run`).replaceAll("http://127.0.0.1:8787", url);
}

async function paste(lines: string): Promise<string> {
  const alias = blockNamed("docs/README.md: alias stc=").text;
  const { code, out, err } = await run(["sh", "-ec", ours(`export STC_URL=${url}\n${alias}${lines}`)], { cwd: clone });
  expect({ code, err }).toEqual({ code: 0, err: "" });
  return out;
}

/** Every value of the page, but those that it shortens and those that no two calls have in common. */
function shownOf(value: unknown, name = ""): unknown {
  if (["traceId", "durationMs"].includes(name)) return expect.anything();
  if (Array.isArray(value)) return expect.arrayContaining(value.filter((item) => item !== "…"));
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).filter(([key]) => key !== "…");
  return expect.objectContaining(Object.fromEntries(members.map(([key, inner]) => [key, shownOf(inner, key)])));
}

test("README.md: the first governed call answers what the page shows", async () => {
  const out = await paste(blockNamed("README.md: TOKEN=").text);
  const shown = BLOCKS.find(({ page, language }) => page === "README.md" && language === "json")?.text ?? "";
  expect(JSON.parse(out)).toEqual(shownOf(JSON.parse(shown)));
});

/** The lines of the quick starts' blocks whose names begin so, as one reader types them after the alias. */
const quickStart = (...begins: readonly string[]): string =>
  begins.map((begin) => blockNamed(`docs/README.md: ${begin}`).text).join("");

test("README.md: the first call's audit line", async () => {
  expect(await paste(blockNamed("README.md: npx -y bun@1.4.5 run --silent stc audit tail").text)).toContain(
    "get_customer",
  );
});

const STC_FUNCTION = `stc() { ${STC.map((word) => `'${word}'`).join(" ")} "$@"; }`;

/** Pastes lines of a quick start into the service's folder. */
async function pasteOwn(lines: string, cwd = join(clone, "my-service")): Promise<string> {
  const text = `export STC_URL=${ownUrl}\n${STC_FUNCTION}\n${lines.replaceAll("http://127.0.0.1:8787", ownUrl)}`;
  const { code, out, err } = await run(["bash", "-ec", text], { cwd });
  expect({ lines, code, err }).toEqual({ lines, code: 0, err: "" });
  return out;
}

/** Verifies as the blocks show it, once the service has signed calls: it does so a second after the first one. */
async function verified(block: string): Promise<string> {
  const notes = () => readLastNotes(join(clone, "my-service/var/audit"));
  await until("a checkpoint of the calls", () => notes().find(({ checkpoint }) => checkpoint?.stream === "calls"));
  return pasteOwn(block);
}

describe("docs/README.md: the quick start of", () => {
  test("agent developers lists the tools, calls one, and makes a call that runs when a person has approved it", async () => {
    const out = await pasteOwn(quickStart("curl -s", "stc call search_notes"));
    expect(out).toContain('"name":"search_notes"');
    expect(out).toContain('"author": "a**@e******.com"');
    const { id } = JSON.parse(await pasteOwn(`${quickStart("stc call add_note").trim()} || true\n`)).approval;
    const [operator = ""] = quickStart("export STC_TOKEN_FILE").split("\n");
    await pasteOwn(`${operator}\nstc approvals approve ${id}\n`);
    expect(await pasteOwn(quickStart("stc call add_note"))).toContain('"status": "success"');
  });

  test("tool authors shows what a call would run, and what is released of an answer", async () => {
    const out = await pasteOwn(quickStart("stc plan", "echo"));
    expect(out).toContain("/healthz");
    expect(out).toContain("a**@e******.com");
  });

  test("operators lists approval requests and halts", async () => {
    await pasteOwn(quickStart("export STC_TOKEN_FILE"));
  });

  test("auditors lists the day's calls and verifies the log", async () => {
    expect(await pasteOwn(quickStart("stc audit query"))).toContain("ALLOWED");
    expect(await verified(quickStart("stc audit keys"))).toEndWith("\nok\n");
  });
});

test("README.md: from a call to an approval and a verified audit", async () => {
  const [calls = "", approve = ""] = blockNamed("README.md: cd my-service").text.split(/(?=stc approvals approve)/);
  const typed = calls.replace("cd my-service\n", "").replace(/^(stc call add_note .*)$/m, "$1 || true");
  const asked = (await pasteOwn(typed)).split("\n").findLast((line) => / pending +medium +add_note /.test(line)) ?? "";
  const [id = "none"] = asked.split(" ");
  expect(await pasteOwn(approve.replace("ID", id))).toContain(`approved (once): ${id}`);
  expect(await verified(blockNamed("README.md: stc audit keys").text)).toEndWith("\nok\n");
});

test.skipIf(!hasTerminals)("docs/README.md: a terminal that watches", async () => {
  const typed = quickStart("export STC_TOKEN_FILE", "stc approvals watch");
  const lines = `export STC_URL=${ownUrl}\n${STC_FUNCTION}\n${typed}`;
  const screen = new TerminalStc([], {
    env: {},
    through: ["bash", "-ec", `cd '${join(clone, "my-service")}'; ${lines}`],
  });
  await screen.shows(`Watching ${ownUrl}`);
  screen.type("\u0003");
  await screen.ends();
  screen.close();
});

async function asked(command: string): Promise<string> {
  const session = ["--session", "pasted"];
  const { out: token } = await runStc(["token", "--sub", "agent-7", "--permission", "workspace:bash", ...session]);
  const response = await fetch(`${url}/call`, {
    method: "POST",
    headers: { authorization: `Bearer ${token.trim()}`, "content-type": "application/json" },
    body: JSON.stringify({ tool: "bash", args: { command } }),
  });
  return ((await response.json()) as { readonly approval: { readonly id: string } }).approval.id;
}

test("docs/approvals.md: the approver's steps, line by line", async () => {
  const [one, other] = [await asked("ls"), await asked("ls -a")];
  await paste("stc token --operator --sub alice > operator.token");
  const { text } = blockNamed("docs/approvals.md: export STC_URL=");
  const [environment = "", ...lines] = text.trim().split("\n");
  // Watching wants a terminal, and is pasted above.
  const pasted = lines.filter((line) => !line.startsWith("stc approvals watch"));
  expect(pasted).toHaveLength(lines.length - 1);
  for (const line of pasted) {
    const said = line.replace("<id>", line.includes(" deny ") ? other : one).replace("sid:<sid>", "sid:pasted");
    expect(said).not.toMatch(/<\w+>/);
    expect(await paste(`${environment}\n${said}\n`)).not.toBe("");
  }
  const report = blockNamed("docs/webhooks.md: stc approvals report").text;
  expect(await paste(`${environment}\n${report}`)).toMatch(/[23] requests: approved [12], denied 1/);
});

test("docs/operating.md: who can call what", async () => {
  const manifest = join(PROJECT, "tools/people/ask-operator.ts");
  const config = { tools: [manifest], audit: { dir: "./matrix" }, jwt: { issuers: new LiveIssuers().profiles() } };
  writeFileSync(join(clone, "stc.yaml"), stringify(config));
  const { text } = blockNamed("docs/operating.md: stc check --matrix");
  expect(await paste(`export STC_CONFIG=stc.yaml\n${text}`)).toContain("ask_operator");
});
