import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createPrivateKey, createPublicKey } from "node:crypto";
import { cpSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkProof, prove } from "../../src/audit/chain/proof.ts";
import { tenantsIn } from "../../src/audit/logs.ts";
import { isSound, verifyLog } from "../../src/audit/verify/verify.ts";
import { keys, writeLog } from "../audit/support/chained-log.ts";
import { runStc } from "../support/stc.ts";
import { auditDirOf, type TenantName, TenantService } from "../support/tenant-service.ts";
import { until } from "../support/until.ts";

/** The audit of each tenant is a stream of its own: its own lines, key, proofs and retention, in a folder below the service's. */

const ALL: readonly TenantName[] = [undefined, "acme", "globex"];
const service = new TenantService();
const outside = mkdtempSync(join(tmpdir(), "stc-tenant-evidence-"));
const dirOf = (tenant: TenantName): string => auditDirOf(service.folder, tenant);
const keyFileOf = (tenant: TenantName): string => `${dirOf(undefined)}${tenant === undefined ? "" : `.${tenant}`}.key`;
const publicKeyOf = (tenant: TenantName) => createPublicKey(createPrivateKey(readFileSync(keyFileOf(tenant))));
const pemOf = (tenant: TenantName): string => String(publicKeyOf(tenant).export({ type: "spki", format: "pem" }));
const named = ALL.map((tenant) => [tenant ?? "the service itself", tenant] as const);

/** The calls of a tenant, without the record of deleted days. */
const callsOf = (tenant: TenantName) => service.entriesOf(tenant).filter((line) => "tool" in line);

function linesOf(tenant: TenantName): readonly Readonly<Record<string, unknown>>[] {
  return [...callsOf(tenant), ...service.journalOf(tenant)] as never;
}

beforeAll(async () => {
  writeFileSync(join(service.folder, "hash.key"), "k".repeat(32), { mode: 0o600 });
  for (const tenant of ALL) await writeLog(dirOf(tenant), keys.privateKey, { tenant });
  for (const tenant of ALL) {
    const pem = keys.privateKey.export({ type: "pkcs8", format: "pem" });
    if (tenant !== "globex") writeFileSync(keyFileOf(tenant), pem, { mode: 0o600 });
  }
  // A tenant that has no log yet.
  rmSync(dirOf("globex"), { recursive: true });
  await service.start(
    { audit: { dir: "audit", hashKeyFile: "./hash.key", retentionDays: 36_500 } },
    { acme: { audit: { retentionDays: 1 } }, globex: {} },
  );
  for (const tenant of ALL) {
    expect((await service.callTo(tenant, "do_read")).http).toBe(200);
    expect((await service.callTo(tenant, "do_write")).http).toBe(202);
  }
  await until("retention", () => service.journalOf("acme").some(({ type }) => type === "audit.pruned") || undefined);
});
afterAll(async () => {
  await service.end();
  rmSync(outside, { recursive: true, force: true });
});

describe("while the service runs", () => {
  test.each(named)("every line of %s says whose it is, and no other line does", (_, tenant) => {
    const lines = linesOf(tenant);
    expect(lines.length).toBeGreaterThan(3);
    expect(new Set(lines.map((line) => line["tenant"]))).toEqual(new Set([tenant]));
    if (tenant === undefined) expect(lines.every((line) => !("tenant" in line))).toBe(true);
  });

  test("the same arguments have different hashes in different tenants", () => {
    const hashes = ALL.map((tenant) => callsOf(tenant).findLast(({ tool }) => tool.name === "do_read"));
    expect(hashes.map((entry) => entry?.request.hashAlg)).toEqual(Array(3).fill("hmac-sha256"));
    expect(new Set(hashes.map((entry) => entry?.request.argsHash)).size).toBe(3);
  });

  test("retention of one tenant deletes nothing of another or of the service", () => {
    const days = ALL.map((tenant) => readdirSync(dirOf(tenant)).filter((name) => name.startsWith("2026-02")));
    expect(days.map((names) => names.sort())).toEqual([
      ["2026-02-16.jsonl", "2026-02-17.jsonl", "2026-02-19.jsonl"],
      ["2026-02-19.jsonl"],
      [],
    ]);
    expect(service.journalOf(undefined).some(({ type }) => type === "audit.pruned")).toBe(false);
  });

  test.each(named)("operators of %s are shown its lines alone, verified with its own key", async (_, tenant) => {
    const token = await service.operatorOf(tenant, ["audit:read"]);
    const { body } = await service.send("GET", "/audit?limit=100", { token });
    const shown = body.entries as readonly { readonly tenant?: string; readonly traceId: string }[];
    expect(new Set(shown.map((entry) => entry.tenant))).toEqual(new Set([tenant]));
    for (const other of ALL) {
      const id = callsOf(other).findLast(({ tool }) => tool.name === "do_write")?.traceId;
      const found = await service.send("GET", `/audit/${id}`, { token });
      expect(found.http).toBe(other === tenant ? 200 : 404);
    }
    const { body: status } = await service.send("GET", "/audit/verify", { token });
    expect([status.ok, status.workers]).toEqual([true, undefined]);
    const { body: own } = await service.send("GET", "/audit/keys", { token });
    expect(own.keys.map((each: { publicKey: string }) => each.publicKey)).toEqual([pemOf(tenant)]);
  });

  test("a second service cannot write the log of a tenant", async () => {
    const second = new TenantService({ folder: service.folder });
    const audit = { dir: "audit/tenants/acme", checkpointKeyFile: "./audit.acme.key" };
    await expect(second.start({ audit })).rejects.toThrow(/audit\/tenants\/acme is already in use/);
  });
});

describe("after the service has ended", () => {
  beforeAll(() => service.stop());

  test.each(named)("the folder of %s verifies alone with its own public key", (_, tenant) => {
    const copy = join(outside, tenant ?? "service");
    cpSync(dirOf(tenant), copy, { recursive: true });
    const key = publicKeyOf(tenant);
    const report = verifyLog({ dir: copy, keys: [key] });
    expect(isSound(report)).toBe(true);
    expect(report.streams.map(({ covered }) => covered !== undefined)).toEqual([true, true]);
    const id = callsOf(tenant).at(-1)?.traceId ?? "";
    const proof = prove(copy, id);
    expect(checkProof(proof, [key]).ok).toBe(true);
    if (tenant === undefined) expect(tenantsIn(copy)).toEqual(["acme", "globex"]);
  });

  test("each tenant without a key of its own got one, which verifies nothing of another", () => {
    expect(publicKeyOf("globex").equals(publicKeyOf("acme"))).toBe(false);
    const proof = prove(dirOf("globex"), callsOf("globex").at(-1)?.traceId ?? "");
    expect(checkProof(proof, [publicKeyOf("globex")]).ok).toBe(true);
    expect(checkProof(proof, [publicKeyOf("acme")])).toMatchObject({ ok: false, isSignature: true });
  });

  test("the command line reads one tenant's audit, or the service's own", async () => {
    const dir = ["--dir", dirOf(undefined)];
    const lines = async (...more: readonly string[]) => {
      const { out } = await runStc(["audit", "query", ...dir, ...more, "--limit", "100", "--json"]);
      return out
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line).tenant);
    };
    expect(new Set(await lines("--tenant", "acme"))).toEqual(new Set(["acme"]));
    expect(new Set(await lines())).toEqual(new Set([undefined]));
    const key = join(outside, "globex.pem");
    writeFileSync(key, pemOf("globex"));
    const verified = await runStc(["audit", "verify", ...dir, "--tenant", "globex", "--key", key]);
    expect([verified.code, verified.out.trimEnd().split("\n").at(-1)]).toEqual([0, "ok"]);
    const own = await runStc(["audit", "verify", ...dir]);
    expect([own.code, own.err]).toEqual([
      6,
      "not verified: the tenant acme: add --tenant acme\nnot verified: the tenant globex: add --tenant globex\n",
    ]);
    const id = callsOf("globex").at(-1)?.traceId ?? "";
    for (const [command, tenant, code] of [
      ["prove", "globex", 0],
      ["prove", "acme", 1],
      ["show", "globex", 0],
      ["show", "acme", 1],
    ] as const) {
      expect((await runStc(["audit", command, id, ...dir, "--tenant", tenant])).code).toBe(code);
    }
    expect(await runStc(["audit", "verify", ...dir, "--tenant", "acne"])).toMatchObject({
      code: 66,
      err: "there is no tenant acne: the tenants are acme, globex\n",
    });
  });

  test("the service's journal names its tenants' logs, so that a verification misses one that is gone", async () => {
    const verified = async () => {
      const { code, out } = await runStc(["audit", "verify", "--dir", dirOf(undefined)]);
      return [code, ...out.split("\n").filter((line) => /^(missing|wrong) log/.test(line))];
    };
    expect(service.journalOf(undefined).flatMap(({ type, folder }) => (type === "tenant.log" ? folder : []))).toEqual([
      "tenants/acme",
      "tenants/globex",
      // Its first call.
      "tenants/globex",
    ]);
    renameSync(dirOf("globex"), join(outside, "gone"));
    const lost = [3, expect.stringMatching(/^missing log: tenants\/globex: the journal recorded a log of this tenant/)];
    expect(await verified()).toEqual(lost);
    // A start makes another log in its place, and the one before is missing still.
    const again = new TenantService({ folder: service.folder });
    await again.start({ audit: { dir: "audit", hashKeyFile: "./hash.key" } }, { acme: {}, globex: {} });
    await again.stop();
    expect(await verified()).toEqual(lost);
    rmSync(dirOf("globex"), { recursive: true });
    renameSync(join(outside, "gone"), dirOf("globex"));
  });

  test("a folder with the log of another tenant is not sound as this tenant's, although its chain and signatures are", async () => {
    const dir = join(outside, "swapped");
    cpSync(dirOf("globex"), join(dir, "tenants", "acme"), { recursive: true });
    cpSync(dirOf(undefined), join(dir, "tenants", "globex"), {
      recursive: true,
      filter: (path) => !path.endsWith("/tenants"),
    });
    const keys = [undefined, "globex"].map((tenant) => {
      const key = join(outside, `${tenant ?? "own"}.pem`);
      writeFileSync(key, pemOf(tenant as TenantName));
      return ["--key", key];
    });
    const verify = (tenant: string) => runStc(["audit", "verify", "--dir", dir, "--tenant", tenant, ...keys.flat()]);
    const [acme, globex] = [await verify("acme"), await verify("globex")];
    expect(acme.out).toContain("wrong log: tenants/acme: holds a log of the tenant globex\nNOT SOUND");
    expect(globex.out).toContain("wrong log: tenants/globex: holds a log of the service itself\nNOT SOUND");
    expect([acme.code, globex.code]).toEqual([3, 3]);
  });

  test("a folder with the log of another tenant is refused at the start", async () => {
    renameSync(dirOf("acme"), join(outside, "moved"));
    renameSync(dirOf("globex"), dirOf("acme"));
    const again = new TenantService({ folder: service.folder });
    await expect(again.start()).rejects.toThrow(
      /acme.*is a log of the tenant globex, and this one must be of the tenant acme: move it back to where it was/,
    );
  });
});
