import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeCertificates } from "../../src/cli/development/certificates.ts";
import { certificateNotes } from "../../src/egress/certificates.ts";
import { runStc } from "../support/stc.ts";
import { openWorld, type World } from "../support/world.ts";
import { KINDS_FOLDER } from "../targets/grpc/support/kinds.ts";
import { writeKindsConfiguration } from "./kinds-configuration.ts";

const DAY_MS = 86_400_000;
const NOW = Date.UTC(2026, 0, 15);

test.each([
  ["long valid", 15 * DAY_MS, []],
  ["valid for a moment more than a fortnight", 14 * DAY_MS + 1, []],
  ["a fortnight", 14 * DAY_MS, ["systems.ledger: its client certificate expires soon, at 2026-01-29T00:00:00.000Z"]],
  ["a second", 1_000, ["systems.ledger: its client certificate expires soon, at 2026-01-15T00:00:01.000Z"]],
  ["not any more", 0, ["systems.ledger: its client certificate expired at 2026-01-15T00:00:00.000Z"]],
])("a certificate that is valid for %s", (_title, left, notes) => {
  expect(certificateNotes([{ system: "ledger", notAfter: NOW + left }], NOW)).toEqual(notes);
});

describe("the command line", () => {
  let world: World;
  beforeAll(async () => {
    world = await openWorld();
  });
  afterAll(() => world.close());

  /** Of one system, with certificates that are valid until then. */
  async function configFile(notAfter: Date): Promise<string> {
    const folder = mkdtempSync(join(world.folder, "certificates-"));
    const { rootCert, client } = await makeCertificates({ notBefore: new Date(0), notAfter });
    const put = (name: string, text: string): string => {
      writeFileSync(join(folder, name), text, { mode: 0o600 });
      return `./${name}`;
    };
    const tls = {
      rootCert: put("ca.pem", rootCert),
      clientCert: put("client.pem", client.cert),
      clientKey: put("client-key.pem", client.key),
    };
    const system = { endpoint: "kinds.test:1", proto: KINDS_FOLDER, tls, metadata: { "x-region": "SECRET" } };
    return writeKindsConfiguration(folder, { issuers: world.issuers.profiles(), system });
  }

  test("stc check names one that has expired, and still says ok", async () => {
    const { code, out } = await runStc(["check", "--config", await configFile(new Date(NOW - 10 * 365 * DAY_MS))]);
    expect(code).toBe(0);
    expect(out).toContain("note: systems.kinds: its client certificate expired at 2016-01-18T00:00:00.000Z\n");
  });

  test("and says nothing of a valid one", async () => {
    const { out } = await runStc(["check", "--json", "--config", await configFile(new Date(Date.UTC(2100, 0)))]);
    expect(JSON.parse(out)).toMatchObject({ ok: true });
    expect(out).not.toContain("certificate ");
  });

  test("stc plan shows the names of a call's metadata, and none of its values", async () => {
    const file = await configFile(new Date(Date.UTC(2100, 0)));
    const { code, out } = await runStc(["plan", "get_old", '{"id":"1"}', "--json", "--config", file]);
    expect(code).toBe(0);
    const metadataKeys = [
      "traceparent?",
      "tracestate?",
      "x-caller-iss",
      "x-caller-sub",
      "x-region",
      "x-tool",
      "x-trace-id",
    ];
    expect(JSON.parse(out)).toMatchObject({ kind: "grpc", message: { id: "1" }, metadataKeys });
    expect(out).not.toContain("SECRET");
  });
});
