import { afterAll, beforeAll, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { developmentCertificates } from "../../../src/cli/development/certificates.ts";

const NOW = 1_800_000_000_000;
const DAY_MS = 86_400_000;

let root = "";
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "stc-certificates-"));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

test("server and client are signed by the authority and only their owner can read their files", async () => {
  const { rootCert, server, client, paths } = await developmentCertificates(join(root, "modes"), NOW);
  const authority = new X509Certificate(rootCert);
  expect(authority.ca).toBe(true);
  for (const { cert } of [server, client]) {
    const leaf = new X509Certificate(cert);
    expect(leaf.ca).toBe(false);
    expect(leaf.verify(authority.publicKey)).toBe(true);
  }
  expect(new X509Certificate(server.cert).checkHost("customer-master-service.local")).toBeTruthy();
  for (const path of Object.values(paths)) expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(readdirSync(join(root, "modes"))).toEqual(["tls"]);
});

test("kept while they are valid for another day, then created again", async () => {
  const directory = join(root, "renewal");
  const first = await developmentCertificates(directory, NOW);
  expect(await developmentCertificates(directory, NOW + 88 * DAY_MS)).toEqual(first);
  const renewed = await developmentCertificates(directory, NOW + 89.5 * DAY_MS);
  expect(renewed.rootCert).not.toEqual(first.rootCert);
  expect(await developmentCertificates(directory, NOW + 90 * DAY_MS)).toEqual(renewed);
});

test.each([
  ["cut short", (path: string) => writeFileSync(path, "-----BEGIN")],
  ["gone", (path: string) => rmSync(path)],
])("a file that is %s: the whole set is created again", async (title, spoil) => {
  const directory = join(root, title);
  const first = await developmentCertificates(directory, NOW);
  spoil(first.paths.clientKey);
  const second = await developmentCertificates(directory, NOW);
  expect(second.rootCert).not.toEqual(first.rootCert);
  expect(readdirSync(directory)).toEqual(["tls"]);
});

test("many processes at once get one set", async () => {
  const directory = join(root, "crowd");
  const [first, ...others] = await Promise.all(
    Array.from({ length: 8 }, () => developmentCertificates(directory, NOW)),
  );
  for (const other of others) expect<unknown>(other).toEqual(first);
  expect(readdirSync(directory)).toEqual(["tls"]);
});
