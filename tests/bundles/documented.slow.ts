import { afterAll, beforeAll, expect, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "yaml";
import { helloTool } from "../support/bundle-fleet.ts";
import { blockNamed } from "../support/documented.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { type Ended, RunningStc, run, SIGNATURES_NOT_CHECKED, STC } from "../support/stc.ts";
import { until } from "../support/until.ts";

/** The blocks of docs/bundles.md, with real processes: from a folder to a member that follows it. */
const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-fleet-")));
const at = (path: string): string => join(folder, path);
const block = (begin: string): string => blockNamed(`docs/bundles.md: ${begin}`).text;
const issuers = new LiveIssuers();
// Says the last part of the path, which tells the versions apart.
const greetings = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  fetch: ({ url }) => Response.json({ said: new URL(url).pathname.slice(1) }),
});
const started: RunningStc[] = [];

afterAll(async () => {
  for (const each of started) await each.end("SIGKILL");
  await greetings.stop(true);
  rmSync(folder, { recursive: true, force: true });
});

async function paste(commands: string): Promise<Ended> {
  const stc = STC.map((word) => `'${word}'`).join(" ");
  return run(["sh", "-ec", commands.replace(/^stc /gm, `${stc} `)], { cwd: folder });
}

const BUILD = "stc bundle build policy --out bundles --fleet shop --environment production --version";

/** Writes a version of the tool, builds it and signs both files. */
async function publish(version: number): Promise<void> {
  writeFileSync(at("policy/tools/hello.tool.yaml"), helloTool(`v${version}`));
  const sign = "stc bundle sign bundles --key";
  const { code, err } = await paste(
    `${BUILD} ${version}\n${sign} content.key\n${sign} online.key --timestamp --expires 1d`,
  );
  expect({ code, err }).toEqual({ code: 0, err: "" });
}

let bundleUrl = "";

beforeAll(async () => {
  mkdirSync(at("policy/tools"), { recursive: true });
  mkdirSync(at("policy/contracts"));
  writeFileSync(at("policy/policy.yaml"), block("# policy/policy.yaml"));
  writeFileSync(at("policy/contracts/accounts.proto"), 'syntax = "proto3";\npackage accounts;\nmessage Account {}\n');
  writeFileSync(at("policy/tools/hello.tool.yaml"), helloTool("v1"));
  const keys = await paste(block("stc audit keys --new"));
  expect({ code: keys.code, err: keys.err }).toEqual({ code: 0, err: "" });
  const built = await paste(block(`${BUILD} 1`));
  expect({ code: built.code, err: built.err }).toEqual({ code: 0, err: "" });
  expect(built.out).toContain("version 1 of shop, production");
  expect(built.out).toContain("sets tools, approvals, limits, systems");
  expect(block("stc bundle serve")).toStartWith("stc bundle serve bundles ");
  const server = new RunningStc(["bundle", "serve", "bundles", "--port", "0"], { cwd: folder });
  started.push(server);
  const said = await server.printed(/ at (http:\S+)\n/);
  [, bundleUrl = ""] = / at (http:\S+)\n/.exec(said) ?? [];
  const documented = parse(block("bundle:")) as { readonly bundle: Readonly<Record<string, unknown>> };
  writeFileSync(
    at("stc.yaml"),
    JSON.stringify({
      instance: "member-1",
      server: { port: 0, operator: { port: 0 } },
      audit: { dir: "./audit" },
      jwt: { issuers: issuers.profiles() },
      reload: { perMinuteMax: 6_000 },
      systems: {
        greetings: { http: { baseUrl: greetings.url.href.replace(/\/$/, ""), addresses: ["loopback"] } },
        accounts: { endpoint: "127.0.0.1:1", plaintext: true },
      },
      // Longer than any test: what arrives was pushed.
      bundle: { ...documented.bundle, url: bundleUrl, pollSeconds: 300 },
    }),
  );
});

interface RunningMember {
  readonly stc: RunningStc;
  readonly url: string;
}

async function startMember(): Promise<RunningMember> {
  const stc = new RunningStc(["serve", "--config", at("stc.yaml")]);
  started.push(stc);
  const listening = /"url":"(http:[^"]+)"/;
  const [, url = ""] = listening.exec(await stc.printed(listening)) ?? [];
  return { stc, url };
}

async function says({ url }: RunningMember): Promise<string> {
  const token = await issuers.token({ kind: "good", sub: "agent-7", permissions: ["hello:say"] });
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const body = JSON.stringify({ tool: "hello", args: {} });
  const answer = JSON.parse(await (await fetch(`${url}/call`, { method: "POST", headers, body })).text());
  return answer.result?.said ?? answer.error?.code;
}

const remembered = () => JSON.parse(readFileSync(at("var/bundle/state.json"), "utf8"));

test("a real member takes a version that a real server tells it of, without waiting for its next poll", async () => {
  const member = await startMember();
  expect(await says(member)).toBe("v1");
  await publish(2);
  const sinceMs = performance.now();
  await until("the second version", async () => ((await says(member)) === "v2" ? true : undefined));
  // Polling alone takes 300 s.
  expect(performance.now() - sinceMs).toBeLessThan(60_000);
  if (process.env["STC_TEST_TIMES"]) console.error(`taken over after ${Math.round(performance.now() - sinceMs)} ms`);
  expect(remembered()).toMatchObject({ version: 2 });
  expect(await member.stc.end("SIGTERM")).toBe(0);
  expect(member.stc.out).toContain('"msg":"bundle.activated"');
});

test("a member that is killed at any moment of a new version runs the old or the new one, whole, and then the new one", async () => {
  for (let round = 0; round < 8; round += 1) {
    const before = remembered().version as number;
    const member = await startMember();
    expect(await says(member)).toBe(`v${before}`);
    await publish(before + 1);
    await Bun.sleep(round * 60);
    await member.stc.end("SIGKILL");
    const kept = remembered().version as number;
    expect([before, before + 1]).toContain(kept);
    const again = await startMember();
    await until("the new version", async () => {
      const said = await says(again);
      expect([`v${before}`, `v${before + 1}`]).toContain(said);
      return said === `v${before + 1}` ? true : undefined;
    });
    await until("the new version in the state", () => (remembered().version === before + 1 ? true : undefined));
    await again.stc.end("SIGTERM");
  }
  expect((await paste("stc audit verify --dir audit")).code).toBe(SIGNATURES_NOT_CHECKED);
});

test("a rollout in steps, and old content under a new version, are built as the page says", async () => {
  cpSync(at("bundles"), at("kept"), { recursive: true });
  const last = remembered().version as number;
  const commands = block(`${BUILD} 3`).replace(
    /--version (\d)/g,
    (_, step: string) => `--version ${last + Number(step)}`,
  );
  const { code, out, err } = await paste(commands);
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(out.match(/not signed yet/g)).toHaveLength(3);
  const older = await paste(`${BUILD} ${last}`);
  expect({ code: older.code, err: older.err }).toEqual({
    code: 64,
    err: expect.stringContaining(`--version must be higher than ${last + 5}`),
  });
});

test("the server ends at once when it is told to, also while members wait", async () => {
  const etag = (await fetch(bundleUrl)).headers.get("etag") ?? "";
  const headers = { "if-none-match": etag, prefer: "modes=snapshot;wait=300" };
  const waiting = fetch(bundleUrl, { headers }).then(
    ({ status }) => status,
    () => "cut off",
  );
  // A later request over another connection is answered after the first one has arrived.
  await fetch(bundleUrl);
  expect(await started[0]?.end("SIGTERM")).toBe(0);
  expect([304, "cut off"]).toContain(await waiting);
});
