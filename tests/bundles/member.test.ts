import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { lastMoment } from "../../src/bundles/checks.ts";
import { BundleMember } from "../../src/bundles/member.ts";
import type { BundleServer } from "../../src/bundles/server.ts";
import { configuration } from "../../src/cli/configuration.ts";
import { StartupError } from "../../src/core/errors.ts";
import { present } from "../../src/core/present.ts";
import { SafeToolCall, type SafeToolCallOptions } from "../../src/index.ts";
import { readBundleFile } from "../../src/runtime/config/file.ts";
import { fingerprintOf } from "../../src/runtime/reload/fingerprints.ts";
import { assemble } from "../support/build.ts";
import { BundleFleet, HOUR_MS, newKey } from "../support/bundle-fleet.ts";
import { FleetMember, serveFleet } from "../support/bundle-member.ts";
import { manifest } from "../support/reload-service.ts";
import { until } from "../support/until.ts";

const HUGE = Number.MAX_SAFE_INTEGER;

let fleet: BundleFleet;
let member: FleetMember;
let server: BundleServer;

beforeEach(() => {
  fleet = new BundleFleet();
  member = new FleetMember(fleet, "member");
  server = serveFleet(fleet);
  member.configure(server.url);
});
afterEach(async () => {
  await member.end();
  await server.close();
  fleet.end();
});

const inState = (state: string, version: number) =>
  until(`${state} at version ${version}`, async () => {
    const status = await member.status();
    return status.state === state && status.version === version ? status : undefined;
  });

async function startProblems(): Promise<readonly string[]> {
  try {
    await configuration({ config: member.file });
  } catch (error) {
    if (error instanceof StartupError) return error.problems;
    throw error;
  }
  throw new Error("the configuration was accepted");
}

test("a member takes over each version, as a whole, and the journal says so", async () => {
  const first = fleet.publish({ version: 1 });
  await member.start();
  expect(await member.says()).toBe("v1");
  expect(member.journal("bundle.activated")).toMatchObject([{ version: 1, digest: first.digest, by: "start" }]);

  const second = fleet.publish({ version: 2, previous: first.digest });
  await inState("current", 2);
  expect(await member.says()).toBe("v2");
  expect(member.journal("bundle.activated")[1]).toMatchObject({
    version: 2,
    digest: second.digest,
    former: 1,
    by: "bundle",
  });
  expect(member.journal("configuration.changed")).toMatchObject([{ by: "bundle", generation: 2 }]);
  expect(member.remembered()).toMatchObject({ version: 2, digest: second.digest, timestamp: { version: 2 } });
  expect(await member.metrics()).toContain('stc_bundle_version{state="current"} 2');

  // A reload that operators ask for reads the same bundle.
  expect(await member.running.reload?.("signal")).toMatchObject({ outcome: "changed", generation: 3 });
  expect(await member.says()).toBe("v2");
});

test("a bundle that is no valid configuration changes nothing, and says why once", async () => {
  const first = fleet.publish({ version: 1 });
  await member.start();
  const broken = fleet.publish({
    version: 2,
    previous: first.digest,
    policy: "tools: [./tools]\nlimits: { nonsense: 1 }\n",
  });
  const status = await inState("refused", 1);
  expect(status.lastError).toBe("version 2 is not a valid configuration: see configuration.refused in the log");
  expect(member.journal("configuration.refused")).toMatchObject([{ by: "bundle", problems: 1 }]);
  expect(await member.says()).toBe("v1");
  expect(member.remembered()).toMatchObject({ version: 1, digest: first.digest });
  expect(member.journal("bundle.refused")).toMatchObject([{ version: 1, error: status.lastError }]);

  // It does not shut out the one after it.
  fleet.publish({ version: 3, previous: broken.digest });
  await inState("current", 3);
  expect(await member.says()).toBe("v3");
});

test("a bundle of an older version, put in place of the newer one, is refused and the newer one stays", async () => {
  const first = fleet.publish({ version: 1 });
  const second = fleet.publish({ version: 2, previous: first.digest });
  await member.start();
  fleet.write("served/bundle.tar.gz", first.archive);
  fleet.write("served/timestamp.json", first.timestamp);
  const status = await inState("refused", 2);
  expect(status.lastError).toBe("version 1 is older than version 2, which was seen before");
  await member.stop();
  await member.start();
  await inState("refused", 2);
  expect(await member.says()).toBe("v2");
  expect(member.remembered()).toMatchObject({ version: 2, digest: second.digest });
});

test("a member starts without the server, with its last good bundle", async () => {
  fleet.publish({ version: 1 });
  await member.start();
  await member.stop();
  await server.close();
  await member.start();
  expect(await member.says()).toBe("v1");
  expect((await inState("unreachable", 1)).lastError).toStartWith("the timestamp cannot be fetched");
});

test("a member without any bundle does not start without the server", async () => {
  await server.close();
  expect(await startProblems()).toEqual([expect.stringContaining("bundle: the timestamp cannot be fetched")]);
});

test("a first bundle that is no valid configuration is not remembered: the next start takes the corrected one", async () => {
  const broken = fleet.publish({ version: 5, policy: "tools: [./tools]\nlimits: { nonsense: 1 }\n" });
  expect(await startProblems()).toEqual([expect.stringContaining("limits.nonsense: is not a known key")]);
  expect(existsSync(join(member.folder, "bundle/state.json"))).toBe(false);
  fleet.publish({ version: 6, previous: broken.digest });
  await member.start();
  expect(await member.says()).toBe("v6");
});

test("a kept bundle that does not fit the member's own file any more is replaced by the newest, at the start", async () => {
  const first = fleet.publish({ version: 1, policy: "tools: [./tools]\nhalts: { whenUnknown: keepLast }\n" });
  await member.start();
  await member.stop();
  const changed = new FleetMember(fleet, "changed", { halts: { whenUnknown: "refuseChanges" } });
  changed.configure(server.url, { dir: join(member.folder, "bundle") });
  await expect(configuration({ config: changed.file })).rejects.toThrow("halts.whenUnknown: is set by the bundle and");
  fleet.publish({ version: 2, previous: first.digest });
  await changed.start();
  expect(await changed.says()).toBe("v2");
  await changed.end();
});

test("TypeScript in a bundle runs where the member allows code, and nowhere else", async () => {
  const files = { "tools/hello.ts": manifest({ name: "coded", says: "code" }) };
  fleet.publish({ version: 1, files });
  expect(await startProblems()).toEqual(["bundle: tools/hello.ts: is code, which needs bundle.allowCode: true"]);
  member.configure(server.url, { allowCode: true });
  await member.start();
  expect(member.running.notRegistered).toEqual([]);
  expect(await member.says("coded")).toBe("code");
});

test("members with the same folders have the same policy version, whatever their names", async () => {
  fleet.publish({ version: 1 });
  const other = new FleetMember(fleet, "other", { instance: "member-2" });
  other.configure(server.url, { labels: { region: "eu" }, pollSeconds: 7 });
  const digests = [];
  for (const { file } of [member, other]) {
    const { config } = await configuration({ config: file });
    // Each has systems and issuers of its own here.
    digests.push(fingerprintOf({ ...config, systems: {}, jwt: { ...config.jwt, issuers: [] } }).sha256);
  }
  expect(digests[0]).toBe(digests[1] ?? "");
  await other.end();
});

test("approvals stay valid under a new version that changes neither the tool nor its contract", async () => {
  const policy = "tools: [./tools]\nsystems: { greetings: { http: { openapi: ./contracts/api.yaml } } }\n";
  const identities: (string | undefined)[] = [];
  let previous: string | null = null;
  for (const [version, title] of [
    [1, "a"],
    [2, "a"],
    [3, "b"],
  ] as const) {
    const files = { "contracts/api.yaml": openApi(title), [`docs/${version}.md`]: "text" };
    previous = fleet.publish({ version, policy, says: "v1", previous, files }).digest;
    const { config } = await configuration({ config: member.file });
    const parts = await assemble(config);
    identities.push(parts.registry.list()[0]?.identity);
    await parts.close();
  }
  expect(identities[0]).toMatch(/^[0-9a-f]{64}$/);
  expect(identities[1]).toBe(identities[0] ?? "");
  expect(identities[2]).not.toBe(identities[0] ?? "");
});

function openApi(title: string): string {
  const said = "{ type: object, required: [said], properties: { said: { type: string } } }";
  const answer = `{ description: x, content: { application/json: { schema: ${said} } } }`;
  return `openapi: 3.1.0
info: { title: ${title}, version: "1" }
paths: { /v1: { get: { responses: { "200": ${answer} } } } }
`;
}

test("a kept bundle that somebody has changed is made again from what was signed", async () => {
  fleet.publish({ version: 1 });
  await member.start();
  await member.stop();
  const versions = join(member.folder, "bundle/versions");
  const [folder = ""] = readdirSync(versions);
  writeFileSync(join(versions, folder, "tools/hello.tool.yaml"), "name: other");
  writeFileSync(join(versions, folder, "tools/more.tool.yaml"), "name: other");
  await member.start();
  expect(await member.says()).toBe("v1");
  expect(readdirSync(join(versions, folder, "tools"))).toEqual(["hello.tool.yaml"]);
});

test("a kept archive that somebody has changed is not used", async () => {
  const { digest, archive } = fleet.publish({ version: 1 });
  await member.start();
  await member.stop();
  await server.close();
  archive[archive.length - 20] = (archive.at(-20) ?? 0) ^ 1;
  writeFileSync(join(member.folder, "bundle", `${digest}.tar.gz`), archive);
  expect(await startProblems()).toEqual([expect.stringContaining("bundle: the timestamp cannot be fetched")]);
});

test("a damaged memory of the highest version is reported, and not forgotten silently", async () => {
  fleet.publish({ version: 1 });
  await member.start();
  await member.stop();
  writeFileSync(join(member.folder, "bundle/state.json"), "{");
  expect(await startProblems()).toEqual([expect.stringContaining("bundle/state.json cannot be read")]);
});

test("the state is written after everything else: a member that stops before it starts with the former version", async () => {
  const first = fleet.publish({ version: 1 });
  await member.start();
  const kept = member.remembered();
  fleet.publish({ version: 2, previous: first.digest });
  await inState("current", 2);
  await member.stop();
  // As a crash between the reload and the last write leaves it.
  writeFileSync(join(member.folder, "bundle/state.json"), JSON.stringify(kept));
  await server.close();
  await member.start();
  expect(await member.says()).toBe("v1");
});

test("an expired timestamp: the bundle stays in force, and operators see it", async () => {
  fleet.publish({ version: 1 });
  await member.start();
  await member.stop();
  const kept = member.remembered();
  const expires = new Date(Date.now() - HOUR_MS).toISOString();
  const timestamp = { ...kept.timestamp, expires };
  writeFileSync(join(member.folder, "bundle/state.json"), JSON.stringify({ ...kept, timestamp }));
  await server.close();
  await member.start();
  expect(await member.says()).toBe("v1");
  expect(await inState("expired", 1)).toMatchObject({ expires });
  expect(await until("the journal", () => member.journal("bundle.expired")[0])).toMatchObject({ version: 1, expires });
  expect(await member.metrics()).toContain('stc_bundle_version{state="expired"} 1');
  await member.stop();

  member.configure(server.url, { onExpiry: "refuseStart" });
  expect(await startProblems()).toEqual([expect.stringContaining("bundle: the timestamp cannot be fetched")]);
});

test("the expiry of a running member is reported when it comes, while the server holds the next request", async () => {
  const expiresMs = Date.now() + HOUR_MS;
  const { digest } = fleet.publish({ version: 1, expiresMs });
  let isHeld = false;
  const seen = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    fetch({ url, headers, signal }) {
      isHeld ||= headers.has("prefer");
      return fetch(new URL(new URL(url).pathname, server.url), { headers, signal });
    },
  });
  member.configure(seen.url.href, { pollSeconds: 300 });
  const section = present(readBundleFile(member.file), "the section");
  const lastMs = lastMoment({ expires: new Date(expiresMs).toISOString() });
  let nowMs = lastMs - 20;
  const alone = await BundleMember.open(section, { clock: () => nowMs, monotonic: () => performance.now() });
  const expired: object[] = [];
  const unfollow = await alone.follow({
    reload: () => Promise.reject(new Error("there is no other bundle")),
    journal: async (line) => void (line.type === "bundle.expired" && expired.push(line)),
    log: () => {},
  });
  await until("the held request", () => isHeld || undefined);
  expect(expired).toEqual([]);
  nowMs = lastMs + 1;
  await until("the entry", () => expired[0]);
  expect(alone.status()).toMatchObject({ state: "expired", version: 1, lastError: null, fault: null });
  const renewed = { version: 1, digest, createdAtMs: Date.now() + 1, expiresMs: expiresMs + HOUR_MS };
  fleet.write("served/timestamp.json", fleet.timestamp(renewed));
  await until("the end of the alarm", () => alone.status().state === "current" || undefined);
  expect(expired).toHaveLength(1);
  unfollow();
  await seen.stop(true);
});

test("a bundle whose transfer is cut in the middle is refused as unreachable, and fetched again", async () => {
  const first = fleet.publish({ version: 1 });
  await member.start();
  await member.stop();
  let cuts = 0;
  const cutting = createServer(async ({ url = "", headers }, response) => {
    const known = headers["if-none-match"];
    const answer = await fetch(new URL(url, server.url), {
      headers: { ...(known !== undefined && { "if-none-match": known }) },
    });
    const body = Buffer.from(await answer.arrayBuffer());
    const etag = answer.headers.get("etag") ?? "";
    response.writeHead(answer.status, { etag, "content-length": body.length });
    if (!url.endsWith(".tar.gz") || cuts >= 2) return void response.end(body);
    cuts += 1;
    response.write(body.subarray(0, body.length / 2), () => response.socket?.resetAndDestroy());
  });
  await new Promise<void>((resolve) => cutting.listen(0, "127.0.0.1", resolve));
  const { port } = cutting.address() as AddressInfo;
  member.configure(`http://127.0.0.1:${port}/`, { pollSeconds: 1 });
  await member.start();
  fleet.publish({ version: 2, previous: first.digest });
  const status = await inState("unreachable", 1);
  expect(status).toMatchObject({ fault: "unreachable", offered: 1 });
  expect(status.lastError).toStartWith("the bundle cannot be fetched");
  expect(await member.says()).toBe("v1");
  expect(member.remembered()).toMatchObject({ version: 1, digest: first.digest });
  await inState("current", 2);
  expect(await member.says()).toBe("v2");
  expect(cuts).toBe(2);
  await member.stop();
  cutting.closeAllConnections();
  await new Promise((resolve) => cutting.close(resolve));
});

describe("files that a loss of power has cut", () => {
  const HALF = 0.5;
  const cut = (path: string, part: number): void => truncateSync(path, Math.floor(statSync(path).size * part));

  beforeEach(async () => {
    fleet.publish({ version: 1 });
    await member.start();
    await member.stop();
  });

  test.each([0, HALF])("the kept archive, %d of it: the member fetches it again", async (part) => {
    const { digest } = member.remembered();
    const path = join(member.folder, "bundle", `${digest}.tar.gz`);
    const whole = readFileSync(path);
    cut(path, part);
    await member.start();
    expect(await member.says()).toBe("v1");
    expect(readFileSync(path).equals(whole)).toBe(true);
  });

  test.each([0, HALF])("a manifest, %d of it: it is unpacked again, without the server", async (part) => {
    const versions = join(member.folder, "bundle/versions");
    const [folder = ""] = readdirSync(versions);
    await server.close();
    cut(join(versions, folder, "tools/hello.tool.yaml"), part);
    await member.start();
    expect(await member.says()).toBe("v1");
  });

  test.each([0, HALF])("the highest version, %d of it: the start is refused and says what to do", async (part) => {
    const path = join(member.folder, "bundle/state.json");
    cut(path, part);
    expect(await startProblems()).toEqual([
      `bundle.dir: ${path} cannot be read: set bundle.minVersion to the version in use and remove the file to begin again`,
    ]);
    // Nothing was forgotten: the advice is followed by a person.
    expect(existsSync(path)).toBe(true);
    rmSync(path);
    member.configure(server.url, { minVersion: 2 });
    expect(await startProblems()).toEqual([expect.stringContaining("is below")]);
    member.configure(server.url, { minVersion: 1 });
    await member.start();
    expect(await member.says()).toBe("v1");
  });

  test("drafts that were never renamed are no obstacle", async () => {
    const { digest } = member.remembered();
    const dir = join(member.folder, "bundle");
    const [folder = ""] = readdirSync(join(dir, "versions"));
    mkdirSync(join(dir, "versions", `${folder}.new`, "tools"), { recursive: true });
    writeFileSync(join(dir, "versions", `${folder}.new`, "tools/hello.tool.yaml"), "name: hal");
    rmSync(join(dir, "versions", folder), { recursive: true });
    await server.close();
    await member.start();
    expect(await member.says()).toBe("v1");
    expect(member.remembered().digest).toBe(digest);
    expect(readdirSync(join(dir, "versions"))).toEqual([folder]);
  });
});

test("a renewed timestamp ends the alarm, without another bundle", async () => {
  const { digest } = fleet.publish({ version: 1, expiresMs: Date.now() + 2 * HOUR_MS });
  await member.start();
  const expiresMs = Date.now() + 3 * HOUR_MS;
  fleet.write("served/timestamp.json", fleet.timestamp({ version: 1, digest, expiresMs }));
  await until("the new time", async () => {
    const { expires } = await member.status();
    return expires === new Date(expiresMs).toISOString() ? expires : undefined;
  });
  expect(member.journal("bundle.activated").length).toBe(1);
});

test.each([
  ["another label", { labels: { region: "us" } }],
  ["a share that this member is not in", { percent: 0 }],
])("a rollout for %s: the member keeps its version, and takes the next one", async (_title, rollout) => {
  member.configure(server.url, { labels: { region: "eu" } });
  const first = fleet.publish({ version: 1 });
  await member.start();
  const second = fleet.publish({ version: 2, previous: first.digest, rollout });
  expect(await inState("held", 1)).toMatchObject({ offered: 2, lastError: null });
  expect(await member.says()).toBe("v1");
  fleet.publish({ version: 3, previous: second.digest, rollout: { labels: { region: "eu" }, percent: 100 } });
  await inState("current", 3);
  expect(await member.says()).toBe("v3");
});

test("a key that is in both files of keys is refused, at a start and while the member runs", async () => {
  const first = fleet.publish({ version: 1 });
  await member.start();
  fleet.write("online.pem", fleet.online.pem + fleet.content.pem);
  fleet.publish({ version: 2, previous: first.digest });
  expect(await inState("refused", 1)).toMatchObject({
    fault: "signature",
    lastError: "a key of the content is also a key of the timestamp: use two different keys",
  });
  expect(await member.says()).toBe("v1");
  await member.stop();
  expect(await startProblems()).toEqual([expect.stringContaining("use two different keys")]);
});

test("two-key rotation: old key, both, the new one alone", async () => {
  const next = newKey();
  const first = fleet.publish({ version: 1 });
  await member.start();
  fleet.write("keys.pem", "no key");
  fleet.write("served/timestamp.json", fleet.timestamp({ version: 1, digest: first.digest }));
  expect((await inState("refused", 1)).lastError).toStartWith("bundle.keysFile: not an Ed25519 public key");
  fleet.write("keys.pem", fleet.content.pem + next.pem);
  const second = fleet.publish({ version: 2, previous: first.digest, keys: [fleet.content, next] });
  await inState("current", 2);
  fleet.write("keys.pem", next.pem);
  const third = fleet.publish({ version: 3, previous: second.digest, keys: [fleet.content] });
  expect((await inState("refused", 2)).lastError).toBe("bundle.json is not signed by a configured key");
  fleet.publish({ version: 4, previous: third.digest, keys: [next] });
  await inState("current", 4);
  expect(await member.says()).toBe("v4");
});

test("a bundle of a thief with a huge version does not shut out the one that is signed with the new key", async () => {
  const next = newKey();
  const first = fleet.publish({ version: 1 });
  await member.start();
  const stolen = fleet.publish({ version: HUGE, says: "stolen" });
  await inState("current", HUGE);
  fleet.write("keys.pem", next.pem);
  // The server still offers it, with a new timestamp.
  fleet.write("served/timestamp.json", fleet.timestamp({ version: HUGE, digest: stolen.digest }));
  expect((await inState("refused", HUGE)).lastError).toBe("bundle.json is not signed by a configured key");
  fleet.publish({ version: 2, previous: first.digest, keys: [next] });
  await inState("current", 2);
  expect(await member.says()).toBe("v2");
});

test("a folder that cannot be written is a problem of the start, in one line", async () => {
  fleet.publish({ version: 1 });
  mkdirSync(join(member.folder, "bundle"));
  writeFileSync(join(member.folder, "bundle/versions"), "");
  expect(await startProblems()).toEqual([expect.stringMatching(/^bundle\.dir: .*(ENOTDIR|EEXIST)/)]);
});

test("what a member that was killed has half written is removed with the next bundle", async () => {
  const first = fleet.publish({ version: 1 });
  await member.start();
  const dir = join(member.folder, "bundle");
  writeFileSync(join(dir, `${"0".repeat(64)}.tar.gz.new`), "half");
  mkdirSync(join(dir, "versions/2-0000000000000000.new"));
  fleet.publish({ version: 2, previous: first.digest });
  await inState("current", 2);
  await until(
    "its removal",
    () =>
      readdirSync(dir, { recursive: true })
        .map(String)
        .every((name) => !name.endsWith(".new")) || undefined,
  );
});

test("a half-downloaded bundle is refused, and tried again", async () => {
  const first = fleet.publish({ version: 1 });
  await member.start();
  const second = fleet.make({ version: 2, previous: first.digest });
  fleet.write("served/bundle.tar.gz", second.archive.subarray(0, second.archive.length / 2));
  fleet.write("served/timestamp.json", second.timestamp);
  expect((await inState("refused", 1)).lastError).toBe("the archive is not gzip");
  expect(await member.says()).toBe("v1");
  fleet.write("served/bundle.tar.gz", second.archive);
  await inState("current", 2);
});

test("a setting that both have is refused: neither replaces the other", async () => {
  const both = new FleetMember(fleet, "both", { limits: { concurrentCallsMax: 7 } });
  both.configure(server.url);
  fleet.publish({ version: 1, policy: "tools: [./tools]\nlimits: { concurrentCallsMax: 1000 }\n" });
  await expect(configuration({ config: both.file })).rejects.toThrow(
    "limits.concurrentCallsMax: is set by the bundle and by the configuration of this member",
  );
  await both.end();
});

test("settings of the two that are different are joined", async () => {
  const joined = new FleetMember(fleet, "joined", { limits: { concurrentCallsMax: 7 } });
  joined.configure(server.url);
  fleet.publish({ version: 1, policy: "tools: [./tools]\nlimits: { concurrentCallsPerCallerMax: 5 }\n" });
  const { config } = await configuration({ config: joined.file });
  expect(config.limits).toMatchObject({ concurrentCallsMax: 7, concurrentCallsPerCallerMax: 5 });
  await joined.end();
});

test.each([
  [{ server: { workers: 2 }, approvals: { store: "sqlite://./a.sqlite" } }, "server.workers: must be 1"],
  [{ reload: { trigger: "off" } }, "reload.trigger: must not be off"],
])("%j is refused next to a bundle", async (changes, says) => {
  const refused = new FleetMember(fleet, "refused", changes);
  refused.configure(server.url);
  fleet.publish({ version: 1 });
  await expect(configuration({ config: refused.file })).rejects.toThrow(says);
  await refused.end();
});

test("the library, which follows no bundle, refuses the section", () => {
  const bundle = { url: "https://x", dir: "x", fleet: "x", environment: "x", keysFile: "x", timestampKeysFile: "x" };
  const jwt = { issuer: "https://agents", publicKeyFile: "x" };
  const options = { tools: ["./tools"], audit: { dir: "./audit" }, jwt, bundle } as SafeToolCallOptions;
  expect(() => SafeToolCall.create(options)).toThrow("SafeToolCall.create: bundle: only the service takes bundles");
});
