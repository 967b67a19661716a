import { afterAll, beforeAll, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import fs from "node:fs";
import { join } from "node:path";
import { signedHeaders } from "../../src/audit/archive/s3-client.ts";
import { logIdIn } from "../../src/audit/chain/log-id.ts";
import type { Archive } from "../../src/audit/export/receiver.ts";
import { keys, temporaryDirectory, writeLog } from "../audit/support/chained-log.ts";
import { archiveLog, startArchiving, untilArchived } from "../support/archived-log.ts";
import { logFiles } from "../support/audit-files.ts";
import { openArchive } from "../support/object-storage.ts";
import { freePorts } from "../support/ports.ts";
import { runStc } from "../support/stc.ts";
import { writeReplica } from "../support/stored-logs.ts";
import { Authority } from "../support/tls-files.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

/**
 * The archive in a real server with the interface of S3: Versity's gateway, built from its Go module below `var/`, over TLS. It
 * judges signatures, digests, clocks and conditions, keeps versions and locks objects. It needs Go: without it, this suite fails
 * and says so.
 */
const MODULE = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";
const BINARIES = join(PROJECT, "var/fleet/object-storage");
const BUILD_MS = 1_200_000;
const SIGNER = { id: "root", secret: "root-secret", sessionToken: undefined, region: "us-east-1" };

const folder = temporaryDirectory();
const port = freePorts();
const endpoint = `https://127.0.0.1:${port}`;
const caFile = join(folder, "ca.pem");
const credentialsFile = join(folder, "credentials");
let server: Bun.Subprocess | undefined;

beforeAll(async () => {
  const go = Bun.which("go") ?? Bun.which("go", { PATH: "/usr/local/go/bin" });
  if (go === null) throw new Error("this suite builds a server for object storage: install Go 1.26 or later");
  fs.mkdirSync(BINARIES, { recursive: true });
  const env = { ...process.env, GOBIN: BINARIES };
  const build = Bun.spawn(["nice", go, "install", MODULE], { env, stdout: "inherit", stderr: "inherit" });
  expect(await build.exited).toBe(0);
  const authority = await Authority.create("the archive's authority");
  const { cert, key } = await authority.issue("storage");
  const files = { ca: authority.pem, cert, key };
  for (const [name, text] of Object.entries(files)) fs.writeFileSync(join(folder, `${name}.pem`), text);
  writeCredentials(SIGNER.secret);
  await start();
}, BUILD_MS);
afterAll(async () => {
  server?.kill();
  await server?.exited;
  fs.rmSync(folder, { recursive: true, force: true });
});

async function start(): Promise<void> {
  const [data, versions] = [join(folder, "data"), join(folder, "versions")];
  for (const dir of [data, versions]) fs.mkdirSync(dir, { recursive: true });
  const tls = ["--cert", join(folder, "cert.pem"), "--key", join(folder, "key.pem")];
  server = Bun.spawn(
    [join(BINARIES, "versitygw"), "-p", `127.0.0.1:${port}`, ...tls, "-q", "posix", "--versioning-dir", versions, data],
    { env: { ROOT_ACCESS_KEY: SIGNER.id, ROOT_SECRET_KEY: SIGNER.secret }, stdout: "ignore", stderr: "inherit" },
  );
  await until("the server", async () => (await request("GET", "/").catch(() => undefined)) && true);
}

function writeCredentials(secret: string): void {
  fs.writeFileSync(credentialsFile, `[default]\naws_access_key_id = ${SIGNER.id}\naws_secret_access_key = ${secret}\n`);
}

async function request(method: string, path: string, text = "", headers: Readonly<Record<string, string>> = {}) {
  const url = new URL(path, endpoint);
  const body = Buffer.from(text);
  const digest = { "content-md5": createHash("md5").update(body).digest("base64") };
  const signed = signedHeaders(
    { method, url, headers: { ...headers, ...digest }, body },
    { ...SIGNER, nowMs: Date.now() },
  );
  const sent = { method, headers: signed, tls: { ca: fs.readFileSync(caFile, "utf8") }, ...(text !== "" && { body }) };
  const answer = await fetch(url, sent);
  return { status: answer.status, text: await answer.text() };
}

const makeBucket = (name: string, headers: Readonly<Record<string, string>> = {}) =>
  request("PUT", `/${name}`, "", headers);
const settingsOf = (bucket: string) => ({ endpoint, bucket, credentialsFile, caFile, prefix: "fleet" });

function opened(bucket: string, more: Readonly<Record<string, string>> = {}): Archive {
  return openArchive({ ...settingsOf(bucket), ...more });
}

async function keysIn(bucket: string): Promise<readonly string[]> {
  const { text } = await request("GET", `/${bucket}?list-type=2`);
  return [...text.matchAll(/<Key>([^<]+)<\/Key>/g)].map(([, key = ""]) => key);
}

let fetches = 0;
async function fetched(bucket: string, dir: string): Promise<string> {
  fetches += 1;
  const out = join(folder, `fetched-${fetches}`);
  const files = ["--credentials-file", credentialsFile, "--ca-file", caFile];
  const { code, err } = await runStc([
    "audit",
    "fetch",
    `s3://${bucket}/fleet`,
    "--out",
    out,
    "--endpoint",
    endpoint,
    ...files,
  ]);
  expect([code, err]).toEqual([0, expect.stringContaining("to verify")]);
  return join(out, String(logIdIn(dir, "journal")));
}

test("a log in a bucket with locked objects comes back and verifies; nothing of it can be deleted or replaced", async () => {
  const dir = join(folder, "locked-log");
  await writeLog(dir);
  await makeBucket("locked", { "x-amz-bucket-object-lock-enabled": "true" });
  const rule = "<Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Days>1</Days></DefaultRetention></Rule>";
  const lock = `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>${rule}</ObjectLockConfiguration>`;
  expect(await request("PUT", "/locked?object-lock=", lock)).toMatchObject({ status: 200 });
  await archiveLog(dir, opened("locked"));
  const names = await keysIn("locked");
  expect(names).toHaveLength(9);
  const restored = await fetched("locked", dir);
  expect(logFiles(restored)).toEqual(logFiles(dir));
  const key = join(folder, "public.pem");
  fs.writeFileSync(key, keys.publicKey.export({ type: "spki", format: "pem" }));
  const { code, out } = await runStc(["audit", "verify", "--dir", restored, "--key", key]);
  expect([code, out]).toEqual([0, expect.stringMatching(/\nok\n$/)]);
  const { text } = await request("GET", "/locked?versions=");
  const [, version] = /<VersionId>([^<]+)<\/VersionId>/.exec(text) ?? [];
  expect((await request("DELETE", `/locked/${names[0]}?versionId=${version}`)).text).toContain("AccessDenied");
  const conditional = await request("PUT", `/locked/${names[0]}`, "other", { "if-none-match": "*" });
  expect(conditional).toMatchObject({ status: 412 });
});

test("processes that are killed in the middle of uploads leave nothing half, and the next ones continue", async () => {
  const dir = writeReplica(folder, 0, 40_000);
  await makeBucket("killed");
  const child = () =>
    Bun.spawn(
      [
        process.execPath,
        join(PROJECT, "tests/audit/support/archive-child.ts"),
        dir,
        JSON.stringify(settingsOf("killed")),
      ],
      {
        ...{ stdin: "ignore", stdout: "inherit", stderr: "inherit" },
      },
    );
  for (let [round, stored] = [0, 0]; round < 5; round += 1) {
    const running = child();
    // The upload of the next part begins with the end of this one.
    await until("a further part", async () => (await keysIn("killed")).length > stored || undefined);
    await Bun.sleep(round * 5);
    running.kill("SIGKILL");
    await running.exited;
    stored = (await keysIn("killed")).length;
  }
  expect(await child().exited).toBe(0);
  expect(logFiles(await fetched("killed", dir))).toEqual(logFiles(dir));
}, 120_000);

test("wrong credentials and a missing bucket are reported with the server's code, until they are right", async () => {
  const dir = join(folder, "late-log");
  await writeLog(dir);
  writeCredentials("wrong");
  const reports: string[] = [];
  let now = Date.now();
  const exporters = startArchiving(dir, opened("late"), { reports, clock: () => (now += 60_000) });
  const reported = (text: string) => until(text, () => reports.some((one) => one.includes(text)) || undefined);
  await reported("status 403 SignatureDoesNotMatch");
  writeCredentials(SIGNER.secret);
  await until("another reason", async () => {
    const outcome = await opened("late").probe(AbortSignal.timeout(10_000));
    return outcome.kind === "later" && outcome.reason === "status 404 NoSuchBucket" ? true : undefined;
  });
  expect(exporters.every((exporter) => exporter.state().failingSince !== undefined)).toBe(true);
  await makeBucket("late");
  await untilArchived(exporters);
  await Promise.all(exporters.map((exporter) => exporter.stop()));
  expect(logFiles(await fetched("late", dir))).toEqual(logFiles(dir));
});

test("a clock that is an hour off, a server that nobody vouches for, and a server that is away, are reported and change nothing", async () => {
  await makeBucket("skewed");
  const late = openArchive(settingsOf("skewed"), () => Date.now() - 3_600_000);
  const signal = AbortSignal.timeout(20_000);
  expect(await late.probe(signal)).toMatchObject({ kind: "later", reason: "status 403 RequestTimeTooSkewed" });
  const { caFile: _, ...untrusted } = settingsOf("skewed");
  expect(await openArchive(untrusted).probe(signal)).toMatchObject({
    kind: "later",
    reason: expect.stringMatching(/unreachable|CERT|SELF|UNABLE/),
  });
  const dir = join(folder, "away-log");
  await writeLog(dir);
  server?.kill("SIGKILL");
  await server?.exited;
  const exporters = startArchiving(dir, opened("skewed"));
  await until("failures", () => exporters.every((exporter) => exporter.state().failures > 0) || undefined);
  expect(exporters.map((exporter) => exporter.state().sentLines)).toEqual([0, 0, 0]);
  await start();
  await untilArchived(exporters);
  await Promise.all(exporters.map((exporter) => exporter.stop()));
  expect(logFiles(await fetched("skewed", dir))).toEqual(logFiles(dir));
});

test("an object with other content is a conflict, and stays", async () => {
  const dir = join(folder, "other-log");
  await writeLog(dir);
  await makeBucket("other");
  await archiveLog(dir, opened("other"));
  const name = (await keysIn("other")).find((key) => key.includes("/calls/")) ?? "";
  expect(await request("PUT", `/other/${name}`, "another text")).toMatchObject({ status: 200 });
  fs.rmSync(join(dir, "export"), { recursive: true });
  const reports: string[] = [];
  const exporters = startArchiving(dir, opened("other"), { reports });
  await until("a conflict", () => exporters[0]?.state().conflicts || undefined);
  await Promise.all(exporters.map((exporter) => exporter.stop()));
  expect(reports).toContain(`s3 does not accept the audit's calls: ${name} holds other content than the log`);
  expect(await request("GET", `/other/${name}`)).toMatchObject({ text: "another text" });
});
