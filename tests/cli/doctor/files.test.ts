import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { chmodSync, chownSync, mkdirSync, rmSync, symlinkSync } from "node:fs";
import { spaceFindings } from "../../../src/cli/doctor/files.ts";
import { DoctorStand, nextIn, seenIn } from "../../support/doctor.ts";
import { Authority, hence } from "../../support/tls-files.ts";

const stand = new DoctorStand();
afterAll(() => stand.end());
beforeEach(() => stand.configure());

const HASH_KEY = Buffer.alloc(32, 7);
const DAY_MS = 86_400_000;
const isRoot = process.getuid?.() === 0;

describe("secret files", () => {
  const withKey = (hashKeyFile: string): void => stand.configure({ audit: { dir: "./audit", hashKeyFile } });

  test.each([
    ["of the owner alone", 0o400],
    ["of the owner alone, who may write", 0o600],
    ["of the group too, as Kubernetes mounts them with fsGroup", 0o440],
    ["of the group too", 0o640],
  ])("%s are ok", async (_, mode) => {
    withKey(stand.file("hash.key", HASH_KEY, mode));
    expect(await stand.check("secret files")).toMatchObject({ status: "ok" });
  });

  test.each([
    [0o644, "failed", "can be read by every user (0644)"],
    [0o606, "failed", "can be written by every user (0606)"],
    [0o660, "warning", "can be written by its group (0660)"],
  ] as const)("with the mode %o: %s", async (mode, status, seen) => {
    withKey(stand.file("hash.key", HASH_KEY, mode));
    const result = await stand.check("secret files");
    expect(result.status).toBe(status);
    expect(seenIn(result)).toContain(`audit.hashKeyFile: ${stand.path("hash.key")} ${seen}`);
    expect(nextIn(result)).toContain("0440");
  });

  test("a file with a loose mode below a directory that others may not enter is ok", async () => {
    withKey(stand.file("closed/hash.key", HASH_KEY, 0o644));
    chmodSync(stand.path("closed"), 0o700);
    expect(await stand.check("secret files")).toMatchObject({ status: "ok" });
  });

  test("links of a mounted Secret are followed: the file's mode counts", async () => {
    const mounted = (mode: number): void => {
      rmSync(stand.path("mount"), { recursive: true, force: true });
      stand.file("mount/..2026_01/hash.key", HASH_KEY, mode);
      symlinkSync("..2026_01", stand.path("mount/..data"));
      symlinkSync("..data/hash.key", stand.path("mount/hash.key"));
    };
    withKey("./mount/hash.key");
    mounted(0o440);
    expect(await stand.check("secret files")).toMatchObject({ status: "ok" });
    mounted(0o444);
    expect(await stand.check("secret files")).toMatchObject({ status: "failed" });
  });

  test("public keys may be read by everybody", async () => {
    expect(await stand.check("secret files")).toMatchObject({ status: "not applicable" });
  });

  test.skipIf(!isRoot)("a file of another user fails", async () => {
    withKey(stand.file("hash.key", HASH_KEY, 0o440));
    chownSync(stand.path("hash.key"), 4_242, 4_242);
    const result = await stand.check("secret files");
    expect(seenIn(result)).toContain("belongs to another user (uid 4242)");
    chownSync(stand.path("hash.key"), 0, 0);
  });
});

describe("certificates", () => {
  const tls = (certFile: string, keyFile: string, server = {}): void =>
    stand.configure({ server: { port: 1, tls: { certFile, keyFile }, ...server } });

  async function issued(name: string, notAfter: Date, notBefore = hence(-DAY_MS)): Promise<void> {
    const authority = await Authority.create("ours");
    const { cert, key } = await authority.issue("stc.example", {
      notBefore,
      notAfter,
      names: [{ type: "dns", value: "stc.example" }],
    });
    tls(stand.file(`${name}.pem`, cert), stand.file(`${name}.key`, key));
  }

  test("none: the check does not apply", async () => {
    expect(await stand.check("certificates")).toMatchObject({ status: "not applicable" });
  });

  test.each([
    ["long valid", 31 * DAY_MS, "ok", "ends in 30 days", ""],
    ["less than a month", 29 * DAY_MS, "warning", "ends in 28 days", "docs/operating.md#rotate"],
    ["less than a fortnight", 13 * DAY_MS, "warning", "ends in 12 days", "Renew it now."],
    ["expired", -3_600_000, "failed", "ended 0 days ago", "docs/runbooks.md#safetoolcallcertificateends"],
  ] as const)("%s", async (name, left, status, seen, next) => {
    await issued("own", hence(left));
    const result = await stand.check("certificates");
    expect([name, result.status]).toEqual([name, status]);
    expect(seenIn(result)).toMatch(new RegExp(`server\\.tls\\.certFile: .*${seen}|server\\.tls\\.certFile: ${seen}`));
    expect(nextIn(result)).toContain(next);
  });

  test("one that is not valid yet fails", async () => {
    await issued("early", hence(90 * DAY_MS), hence(DAY_MS));
    const result = await stand.check("certificates");
    expect([result.status, seenIn(result)]).toEqual(["failed", expect.stringContaining("is not valid before")]);
  });

  test("the key of another certificate fails", async () => {
    const authority = await Authority.create("ours");
    const notAfter = hence(90 * DAY_MS);
    const one = await authority.issue("one", { notAfter });
    const other = await authority.issue("other", { notAfter });
    tls(stand.file("one.pem", one.cert), stand.file("other.key", other.key));
    const result = await stand.check("certificates");
    expect([result.status, seenIn(result)]).toEqual(["failed", expect.stringContaining("other.key is not its key")]);
  });

  test("a chain in the right order is ok, other certificates after the first are not a chain", async () => {
    const authority = await Authority.create("ours");
    const stranger = await Authority.create("theirs");
    const { cert, key } = await authority.issue("one", { notAfter: hence(90 * DAY_MS) });
    const keyFile = stand.file("one.key", key);
    tls(stand.file("chain.pem", `${cert}\n${stranger.pem}`), keyFile);
    expect(seenIn(await stand.check("certificates"))).toContain("are not a chain");
    tls(stand.file("chain.pem", `${cert}\n${authority.pem}`), keyFile);
    expect(seenIn(await stand.check("certificates"))).not.toContain("are not a chain");
  });

  test("names under which clients reach the service are compared", async () => {
    await issued("named", hence(90 * DAY_MS));
    const files = { certFile: "./named.pem", keyFile: "./named.key" };
    stand.configure({ server: { port: 1, tls: files, allowedHosts: ["stc.example"] } });
    expect(await stand.check("certificates")).toMatchObject({ status: "ok" });
    stand.configure({ server: { port: 1, tls: files, allowedHosts: ["stc.example", "other.example"] } });
    const result = await stand.check("certificates");
    expect([result.status, seenIn(result)]).toEqual(["warning", expect.stringContaining("is not for other.example")]);
  });

  test("an old authority in a bundle is ok while another one is valid", async () => {
    const authority = await Authority.create("old");
    const old = await authority.issue("old", {
      isAuthority: true,
      notAfter: hence(-DAY_MS),
      notBefore: hence(-2 * DAY_MS),
    });
    const young = await authority.issue("new", { isAuthority: true, notAfter: hence(90 * DAY_MS) });
    const bundle = (text: string): void =>
      stand.configure({
        systems: {
          api: { http: { baseUrl: "https://api.example", tls: { rootCert: stand.file("bundle.pem", text) } } },
        },
      });
    bundle(`${old.cert}\n${young.cert}`);
    expect(await stand.check("certificates")).toMatchObject({ status: "ok" });
    bundle(old.cert);
    expect(await stand.check("certificates")).toMatchObject({ status: "failed" });
  });
});

describe("storage", () => {
  test("directories that are made at the first start are ok", async () => {
    expect(await stand.check("storage")).toMatchObject({ status: "ok" });
  });

  test("a directory that everybody may write fails; one that others may list is ok", async () => {
    mkdirSync(stand.path("audit"));
    chmodSync(stand.path("audit"), 0o755);
    expect(await stand.check("storage")).toMatchObject({ status: "ok" });
    chmodSync(stand.path("audit"), 0o777);
    const result = await stand.check("storage");
    expect([result.status, seenIn(result)]).toEqual([
      "failed",
      expect.stringContaining("can be written by every user"),
    ]);
    chmodSync(stand.path("audit"), 0o700);
  });

  test("a database that everybody may read fails", async () => {
    stand.configure({ approvals: { store: "sqlite://./store/approvals.sqlite" } });
    stand.file("store/approvals.sqlite", "", 0o644);
    const result = await stand.check("storage");
    expect([result.status, seenIn(result)]).toEqual(["failed", expect.stringContaining("can be read by every user")]);
  });

  const GIB = 1_073_741_824;
  const RESERVE = 67_108_864;
  test.each([
    ["room", { free: GIB, total: 10 * GIB, inodes: 1e6, inodesFree: 1e5 }, []],
    ["no fixed number of files", { free: GIB, total: 10 * GIB, inodes: 0, inodesFree: 0 }, []],
    ["a small disk with room", { free: 40e6, total: 100e6, inodes: 0, inodesFree: 0 }, []],
    ["little more than the reserve", { free: 2 * RESERVE, total: 10 * GIB, inodes: 0, inodesFree: 0 }, ["warning"]],
    ["less than the reserve", { free: RESERVE - 1, total: 10 * GIB, inodes: 0, inodesFree: 0 }, ["failed"]],
    ["no files left", { free: GIB, total: 10 * GIB, inodes: 1e6, inodesFree: 9 }, ["failed"]],
  ] as const)("a disk with %s", (_, space, statuses) => {
    expect(spaceFindings("audit.dir", space, RESERVE).map(({ status }) => status)).toEqual([...statuses]);
  });

  test.skipIf(isRoot)("a directory that this user may not write fails", async () => {
    mkdirSync(stand.path("audit"), { recursive: true });
    chmodSync(stand.path("audit"), 0o500);
    const result = await stand.check("storage");
    expect([result.status, seenIn(result)]).toEqual([
      "failed",
      expect.stringContaining("cannot be written by this user"),
    ]);
    chmodSync(stand.path("audit"), 0o700);
  });
});
